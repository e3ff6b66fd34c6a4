package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Identity implements ledger.Deployment.
func (l *Ledger) Identity(ctx context.Context, id string) (i ledger.Identity, err error) {
	const op = "identity"
	if _, bad := blobd.ParseExecutionTag(id); bad != nil { // the same spelling: 32 lowercase hex digits
		return i, classify(op, fmt.Errorf("deployment id: %w", blobd.ErrInvalid))
	}
	var n int64
	found := false
	err = l.writeAnywhere(ctx, op, func(_ context.Context, x *tx) error {
		i, found = ledger.Identity{}, false
		x.count(&n, "UPDATE deployment SET id = $1 WHERE id = ''", id)
		x.scan(&found, []any{&i.ID, &i.Confirmed, &i.Recovery}, "SELECT id, confirmed, recovery FROM deployment")
		return nil
	})
	if err == nil && !found {
		err = classify(op, errNoDeployment)
	}
	if err != nil {
		return ledger.Identity{}, err
	}
	i.New = n == 1
	return i, nil
}

// ConfirmIdentity implements ledger.Deployment.
func (l *Ledger) ConfirmIdentity(ctx context.Context) error {
	return l.writeAnywhere(ctx, "confirm identity", func(ctx context.Context, x *tx) error {
		var n int64
		x.count(&n, "UPDATE deployment SET confirmed = TRUE WHERE id <> ''")
		err := x.flush(ctx)
		return orNotFound(n == 1, err)
	})
}

// SetRecovery implements ledger.Deployment.
func (l *Ledger) SetRecovery(ctx context.Context, s ledger.RecoveryState, e ledger.Entry) error {
	if s > ledger.RecoveryReplayGap {
		return classify("set recovery", fmt.Errorf("recovery state %d: %w", s, blobd.ErrInvalid))
	}
	return l.writeAnywhere(ctx, "set recovery", func(_ context.Context, x *tx) error {
		x.append(e)
		x.move(counts{entries: 1})
		x.exec("UPDATE deployment SET recovery = $1", int16(s))
		return nil
	})
}

// Check implements ledger.Deployment: it writes and commits, since only that
// proves that the database takes writes.
func (l *Ledger) Check(ctx context.Context) error {
	return l.write(ctx, "check", func(_ context.Context, x *tx) error {
		x.exec("UPDATE counters SET checks = checks + 1 WHERE slot = $1", rand.IntN(slots))
		return nil
	})
}
