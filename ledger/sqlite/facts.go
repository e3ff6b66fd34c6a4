package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// facts are the few rows that every read and put needs and that hardly ever
// change. Only this process writes the ledger, and it loads them again within
// every call that may have changed them, so they are never behind.
type facts struct {
	recovery    ledger.RecoveryState
	minimumWrap map[string]uint32         // per tenant
	fenced      map[string]time.Time      // off-boarded tenants
	versions    map[class][]ledger.Policy // of policies, newest first
}

type class struct{ tenant, name string }

// loadFacts reads the facts on the writer. On a failure none are kept, and the
// next use loads them.
func (l *Ledger) loadFacts(ctx context.Context, w *conn) error {
	l.facts.Store(nil)
	f := &facts{minimumWrap: map[string]uint32{}, fenced: map[string]time.Time{}, versions: map[class][]ledger.Policy{}}
	found, err := w.one(ctx, "SELECT recovery FROM deployment", func(r *row) {
		f.recovery = ledger.RecoveryState(r.int(0))
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("no deployment row: %w", blobd.ErrCorrupt)
	}
	err = w.query(ctx, "SELECT id, minimum_wrap, fenced_at FROM tenants", func(r *row) {
		f.minimumWrap[r.text(0)] = uint32(r.int(1))
		if !r.null(2) {
			f.fenced[r.text(0)] = r.time(2)
		}
	})
	if err != nil {
		return err
	}
	err = w.query(ctx, "SELECT "+policyColumns+" FROM policy_versions ORDER BY version DESC", func(r *row) {
		p := r.policy()
		c := class{p.Tenant, p.Class}
		f.versions[c] = append(f.versions[c], p)
	})
	if err != nil {
		return err
	}
	l.facts.Store(f)
	return nil
}

// writeFacts is write for what facts are made of.
func (l *Ledger) writeFacts(ctx context.Context, op string, f func(*conn) error) error {
	return classify(op, l.withWriter(ctx, func(w *conn) (bool, error) {
		l.facts.Store(nil) // a reader that comes now waits for the writer
		broken, err := l.transact(ctx, w, f)
		if !broken {
			_ = l.loadFacts(context.WithoutCancel(ctx), w) // or the next use does
		}
		return broken, err
	}))
}

// known returns the facts.
func (l *Ledger) known(ctx context.Context) (*facts, error) {
	if f := l.facts.Load(); f != nil {
		return f, nil
	}
	var f *facts
	err := l.withWriter(ctx, func(w *conn) (broken bool, err error) {
		if f = l.facts.Load(); f != nil {
			return false, nil
		}
		err = l.loadFacts(ctx, w)
		f = l.facts.Load()
		return false, err
	})
	return f, err
}
