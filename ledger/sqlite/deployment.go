package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Identity implements ledger.Deployment.
func (l *Ledger) Identity(ctx context.Context, id string) (i ledger.Identity, err error) {
	if _, bad := blobd.ParseExecutionTag(id); bad != nil { // the same spelling: 32 lowercase hex digits
		return i, classify("identity", fmt.Errorf("deployment id: %w", blobd.ErrInvalid))
	}
	err = l.write(ctx, "identity", func(w *conn) error {
		n, err := w.exec(ctx, "UPDATE deployment SET id = ? WHERE id = ''", id)
		if err != nil {
			return err
		}
		i.New = n == 1
		_, err = w.one(ctx, "SELECT id, confirmed, recovery FROM deployment", func(r *row) {
			i.ID, i.Confirmed, i.Recovery = r.text(0), r.bool(1), ledger.RecoveryState(r.int(2))
		})
		return err
	})
	if err != nil {
		return ledger.Identity{}, err
	}
	return i, nil
}

// ConfirmIdentity implements ledger.Deployment.
func (l *Ledger) ConfirmIdentity(ctx context.Context) error {
	return l.write(ctx, "confirm identity", func(w *conn) error {
		n, err := w.exec(ctx, "UPDATE deployment SET confirmed = 1 WHERE id <> ''")
		return orNotFound(n == 1, err)
	})
}

// SetRecovery implements ledger.Deployment.
func (l *Ledger) SetRecovery(ctx context.Context, s ledger.RecoveryState, e ledger.Entry) error {
	if s > ledger.RecoveryReplayGap {
		return classify("set recovery", fmt.Errorf("recovery state %d: %w", s, blobd.ErrInvalid))
	}
	return l.writeFacts(ctx, "set recovery", func(w *conn) error {
		if _, err := w.exec(ctx, "UPDATE deployment SET recovery = ?", int64(s)); err != nil {
			return err
		}
		return appendEntries(ctx, w, e)
	})
}

// Check implements ledger.Deployment: it writes and syncs, since only that
// proves that the disk takes writes.
func (l *Ledger) Check(ctx context.Context) error {
	return l.write(ctx, "check", func(w *conn) error {
		_, err := w.exec(ctx, "UPDATE deployment SET checks = checks + 1")
		return err
	})
}
