package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Claim implements ledger.Jobs.
func (l *Ledger) Claim(ctx context.Context, owner string, at, until time.Time) (ledger.Job, error) {
	if err := l.begin(ctx, "claim"); err != nil {
		return ledger.Job{}, err
	}
	defer l.mu.Unlock()
	var first *erasure
	for _, e := range l.erasures {
		leased := e.held && e.lease.Until.After(kept(at))
		if !e.due(at) || leased {
			continue
		}
		if first == nil || e.runAt < first.runAt {
			first = e
		}
	}
	if first == nil {
		return ledger.Job{}, refuse("claim", blobd.ErrNotFound)
	}
	first.State, first.woken = ledger.ErasureRunning, 0
	first.Attempts++
	first.held = true
	first.lease = ledger.Lease{ErasureID: first.ID, Owner: owner, Term: first.lease.Term + 1, Until: kept(until)}
	return ledger.Job{Erasure: first.shown(), Lease: first.lease}, nil
}

// due reports whether there is work to do on an erasure at a time.
func (e *erasure) due(at time.Time) bool {
	waits := e.State == ledger.ErasureRunning || e.State == ledger.ErasureGrace || e.State == ledger.ErasureDeferred
	return waits && e.runAt <= at.UnixMicro()
}

// holder locks the ledger and returns the job of a lease that is still its
// holder's. On an error nothing is locked.
func (l *Ledger) holder(ctx context.Context, op string, lease ledger.Lease) (*erasure, error) {
	if err := l.begin(ctx, op); err != nil {
		return nil, err
	}
	e := l.erasure(lease.ErasureID)
	if e == nil || e.State != ledger.ErasureRunning || !e.held || e.lease.Owner != lease.Owner || e.lease.Term != lease.Term {
		l.mu.Unlock()
		return nil, refuse(op, fmt.Errorf("the lease is stale: %w", blobd.ErrConflict))
	}
	return e, nil
}

// Postpone implements ledger.Jobs.
func (l *Ledger) Postpone(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, es []ledger.Entry) error {
	e, err := l.holder(ctx, "postpone", lease)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	e.Progress, e.runAt, e.held = p, due.UnixMicro(), false
	l.append(es...)
	return nil
}

// Renew implements ledger.Jobs.
func (l *Ledger) Renew(ctx context.Context, lease ledger.Lease, until time.Time) error {
	e, err := l.holder(ctx, "renew", lease)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	e.lease.Until = kept(until)
	return nil
}

// Tombstone implements ledger.Jobs.
func (l *Ledger) Tombstone(ctx context.Context, lease ledger.Lease, limit int) (int, error) {
	if err := checkLimit("tombstone", limit); err != nil {
		return 0, err
	}
	e, err := l.holder(ctx, "tombstone", lease)
	if err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	all := l.left(e)
	for _, at := range cut(all, limit) {
		row := l.blobs[at]
		bare := ledger.Blob{Ref: row.Ref, State: ledger.BlobErased, CreatedAt: row.CreatedAt, Repeat: row.Repeat}
		delete(e.found, at)
		if !e.OfRefs && !e.Closing {
			l.release(at.Tag, row)
			bare.Repeat = [32]byte{}
		}
		*row = bare
		delete(l.subjects, at)
	}
	return min(len(all)-len(cut(all, limit)), limit), nil
}

// left lists the rows of a job's scope that are not tombstones yet.
func (l *Ledger) left(e *erasure) (rows []ledger.Position) {
	if e.Closing {
		return e.unburied()
	}
	for at, row := range l.blobs {
		if !l.within(e, at.Tag) || row.State == ledger.BlobCollected || e.OfRefs && !slices.Contains(e.refs, at.Ref) {
			continue
		}
		keepsTag := !e.OfRefs && row.Repeat != [32]byte{}
		if row.State != ledger.BlobErased || row.Class != "" || keepsTag {
			rows = append(rows, at)
		}
	}
	slices.SortFunc(rows, comparePositions)
	return rows
}

// Finish implements ledger.Jobs.
func (l *Ledger) Finish(ctx context.Context, lease ledger.Lease, p ledger.Progress, at time.Time, es []ledger.Entry) error {
	e, err := l.holder(ctx, "finish", lease)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	if len(l.left(e)) > 0 || len(l.keyed(e)) > 0 || e.Closing && l.unerased(e) {
		return refuse("finish", fmt.Errorf("rows are left: %w", blobd.ErrConflict))
	}
	if l.covered(e) {
		return refuse("finish", fmt.Errorf("an earlier erasure of this scope has not finished: %w", blobd.ErrConflict))
	}
	e.State, e.ErasedAt, e.Progress, e.held = ledger.ErasureErased, kept(at), p, false
	if o := l.closingOf(e); o != nil {
		l.settle(o, at)
	}
	l.append(es...)
	return nil
}

// unerased reports whether an erasure that only closed its scope has not erased all
// of it. One that could fence has to.
func (l *Ledger) unerased(e *erasure) bool {
	scope := e.scope()
	return scope.Form().Fenceable() || slices.ContainsFunc(l.rows(&scope, ledger.Position{}), func(r ledger.ScopeRow) bool {
		return !r.Erased && r.State != ledger.BlobExpired
	})
}

// settle ends the closing of an erasure that erased its scope, or makes a suppression
// of it.
func (l *Ledger) settle(o *order, at time.Time) {
	if o.Scope.Form() == ledger.ScopeSubjects {
		o.Kind = ledger.OrderSuppression
		return
	}
	l.end(o, at, "", "")
}

// covered reports whether an earlier erasure of the same scope, which has fenced,
// still runs.
func (l *Ledger) covered(e *erasure) bool {
	for _, earlier := range l.erasures {
		if earlier == e {
			return false
		}
		if earlier.State != ledger.ErasureRunning || earlier.Closing {
			continue
		}
		if earlier.Scope.WholeTenant && earlier.Scope.Tenant == e.Scope.Tenant {
			return true
		}
		shares := !earlier.OfRefs || slices.ContainsFunc(earlier.refs, func(r blobd.Ref) bool { return slices.Contains(e.refs, r) })
		if earlier.Scope.Tag == e.Scope.Tag && e.Scope.Form().Bounded() && shares {
			return true
		}
	}
	return false
}
