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
	standing    map[string]standing       // per tenant
}

// standing says which orders and floors a tenant has at all, so that the hot path
// looks for none where there is none.
type standing struct {
	holds    bool // an open hold
	floors   bool // a version of a policy with a floor
	closes   bool // an open closing or restriction
	parts    bool // one of refs, subjects or a class, so that rows are closed one by one
	subjects bool // an open order of subjects that refuses puts
}

// protects reports whether anything in the tenant may be protected.
func (s standing) protects() bool { return s.holds || s.floors }

type class struct{ tenant, name string }

// loadFacts reads the facts on the writer. On a failure none are kept, and the
// next use loads them.
func (l *Ledger) loadFacts(ctx context.Context, w *conn) error {
	l.facts.Store(nil)
	f := &facts{
		minimumWrap: map[string]uint32{}, fenced: map[string]time.Time{},
		versions: map[class][]ledger.Policy{}, standing: map[string]standing{},
	}
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
	if err := f.loadStanding(ctx, w); err != nil {
		return err
	}
	l.facts.Store(f)
	return nil
}

// nextOpenOrder is the next tenant, kind and form that have an open order.
const nextOpenOrder = `SELECT tenant, kind, form FROM orders INDEXED BY orders_open
	WHERE lifted_at IS NULL AND (tenant, kind, form) > (?, ?, ?) ORDER BY tenant, kind, form LIMIT 1`

// loadStanding passes over the open orders with one look for each kind and form of a
// tenant, so that their number does not matter.
func (f *facts) loadStanding(ctx context.Context, w *conn) error {
	for c, versions := range f.versions {
		if ledger.Floors(versions) {
			s := f.standing[c.tenant]
			s.floors = true
			f.standing[c.tenant] = s
		}
	}
	tenant, kind, form := "", int64(0), int64(0)
	for {
		found, err := w.one(ctx, nextOpenOrder,
			func(r *row) { tenant, kind, form = r.text(0), r.int(1), r.int(2) }, tenant, kind, form)
		if err != nil || !found {
			return err
		}
		s := f.standing[tenant]
		s.meet(ledger.OrderKind(kind), ledger.ScopeForm(form))
		f.standing[tenant] = s
	}
}

// meet takes in that there are open orders of a kind and form.
func (s *standing) meet(kind ledger.OrderKind, form ledger.ScopeForm) {
	closes := kind.Closes() != 0
	s.holds = s.holds || kind == ledger.OrderHold
	s.closes = s.closes || closes
	s.parts = s.parts || closes && form != ledger.ScopeExecution && form != ledger.ScopeTenant
	s.subjects = s.subjects || kind != ledger.OrderHold && form == ledger.ScopeSubjects
}

// writeFacts is write for what facts are made of.
func (l *Ledger) writeFacts(ctx context.Context, op string, f func(*conn) error) error {
	return l.write(ctx, op, func(w *conn) error {
		w.restated = true
		return f(w)
	})
}

// factsOn returns the facts to the writer's holder, who has changed nothing yet.
func (l *Ledger) factsOn(ctx context.Context, w *conn) (*facts, error) {
	if f := l.facts.Load(); f != nil {
		return f, nil
	}
	if err := l.loadFacts(ctx, w); err != nil {
		return nil, err
	}
	return l.facts.Load(), nil
}

// known returns the facts.
func (l *Ledger) known(ctx context.Context) (*facts, error) {
	if f := l.facts.Load(); f != nil {
		return f, nil
	}
	var f *facts
	err := l.withWriter(ctx, func(w *conn) (broken bool, err error) {
		f, err = l.factsOn(ctx, w)
		return false, err
	})
	return f, err
}
