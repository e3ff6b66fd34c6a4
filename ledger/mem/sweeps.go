package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// sweep is a sweep's row, which is also its job.
type sweep struct {
	ledger.Sweep
	lease ledger.SweepLease
	held  bool
}

// shown is a sweep for a reader.
func (s *sweep) shown() ledger.Sweep {
	out := s.Sweep
	out.Refused = slices.Clone(out.Refused)
	return out
}

func (l *Ledger) sweepByID(id string) *sweep {
	i := slices.IndexFunc(l.sweeps, func(s *sweep) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return l.sweeps[i]
}

// StartSweep implements ledger.Sweeps.
func (l *Ledger) StartSweep(ctx context.Context, n ledger.NewSweep) (ledger.Sweep, error) {
	if n.ID == "" {
		return ledger.Sweep{}, refuse("start a sweep", fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "start a sweep"); err != nil {
		return ledger.Sweep{}, err
	}
	defer l.mu.Unlock()
	if first := l.sweepByID(n.ID); first != nil {
		if first.Tenant != n.Tenant {
			return ledger.Sweep{}, refuse("start a sweep", fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict))
		}
		return first.shown(), nil
	}
	if err := l.living(n.Tenant); err != nil {
		return ledger.Sweep{}, refuse("start a sweep", err)
	}
	for _, s := range l.sweeps {
		if s.Tenant == n.Tenant && s.State == ledger.SweepRunning {
			return ledger.Sweep{}, refuse("start a sweep", fmt.Errorf("sweep %s runs: %w", s.ID, blobd.ErrConflict))
		}
	}
	now := kept(l.now())
	s := &sweep{Sweep: ledger.Sweep{
		ID: n.ID, Tenant: n.Tenant, State: ledger.SweepRunning, Trigger: n.Trigger, RequestedBy: n.RequestedBy,
		Confirm: n.Confirm, At: now, Version: l.versions, StartedAt: now, RunAt: kept(n.RunAt),
	}}
	l.sweeps = append(l.sweeps, s)
	l.append(n.Entry)
	return s.shown(), nil
}

// ClaimSweep implements ledger.Sweeps.
func (l *Ledger) ClaimSweep(ctx context.Context, owner string, at, until time.Time) (ledger.SweepJob, error) {
	if err := l.begin(ctx, "claim a sweep"); err != nil {
		return ledger.SweepJob{}, err
	}
	defer l.mu.Unlock()
	at = kept(at)
	var first *sweep
	for _, s := range l.sweeps {
		leased := s.held && s.lease.Until.After(at)
		if s.State != ledger.SweepRunning || s.RunAt.After(at) || leased {
			continue
		}
		if first == nil || s.RunAt.Before(first.RunAt) {
			first = s
		}
	}
	if first == nil {
		return ledger.SweepJob{}, refuse("claim a sweep", blobd.ErrNotFound)
	}
	first.Attempts++
	first.held = true
	first.lease = ledger.SweepLease{SweepID: first.ID, Owner: owner, Term: first.lease.Term + 1, Until: kept(until)}
	return ledger.SweepJob{Sweep: first.shown(), Lease: first.lease}, nil
}

// sweeper locks the ledger and returns the sweep of a lease that is still its
// holder's. On an error nothing is locked.
func (l *Ledger) sweeper(ctx context.Context, op string, lease ledger.SweepLease) (*sweep, error) {
	if err := l.begin(ctx, op); err != nil {
		return nil, err
	}
	s := l.sweepByID(lease.SweepID)
	if s == nil || s.State != ledger.SweepRunning || !s.held || s.lease.Owner != lease.Owner || s.lease.Term != lease.Term {
		l.mu.Unlock()
		return nil, refuse(op, fmt.Errorf("the lease is stale: %w", blobd.ErrConflict))
	}
	return s, nil
}

// MoveSweep implements ledger.Sweeps.
func (l *Ledger) MoveSweep(ctx context.Context, lease ledger.SweepLease, m ledger.SweepMove) error {
	if err := m.Check(); err != nil {
		return refuse("move a sweep", err)
	}
	s, err := l.sweeper(ctx, "move a sweep", lease)
	if err != nil {
		return err
	}
	defer l.mu.Unlock()
	if m.Plan != nil {
		if s.Planned {
			return refuse("move a sweep", fmt.Errorf("it has a plan: %w", blobd.ErrConflict))
		}
		s.Plan, s.Planned = *m.Plan, true
	}
	s.State, s.Failed, s.LastError, s.Refused = m.To, m.Failed, m.LastError, cut(slices.Clone(m.Refused), ledger.MaxRefused)
	switch {
	case m.To != ledger.SweepRunning:
		s.FinishedAt, s.held = kept(m.At), false
	case m.Until.IsZero():
		s.RunAt, s.held = kept(m.Due), false
	default:
		s.lease.Until = kept(m.Until)
	}
	l.append(m.Entries...)
	return nil
}

// Expire implements ledger.Sweeps.
func (l *Ledger) Expire(ctx context.Context, lease ledger.SweepLease, x ledger.Expiry) ([]ledger.DueRow, error) {
	if err := ledger.CheckBatch(x.Rows); err != nil {
		return nil, refuse("expire", err)
	}
	s, err := l.sweeper(ctx, "expire", lease)
	if err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	late := s.LateUntil
	var expired []ledger.DueRow
	seen := map[ledger.Position]bool{}
	for _, at := range x.Rows {
		r, is := l.due(at)
		if !is || seen[at] || l.executions[at.Tag].Tenant != s.Tenant {
			continue
		}
		seen[at] = true
		end, may := s.MayExpire(&r, l.policies[class{s.Tenant, r.Class}])
		if !may {
			continue
		}
		if end = end.Add(x.Margin); end.After(late) {
			late = end
		}
		expired = append(expired, r)
	}
	if len(expired) == 0 {
		return nil, nil
	}
	entry, err := x.Entry(expired)
	if err != nil {
		return nil, refuse("expire", err)
	}
	s.LateUntil = kept(late)
	for _, r := range expired {
		row, e := l.blobs[r.Position], l.executions[r.Tag]
		if row.State == ledger.BlobLive {
			e.Blobs, e.Bytes = e.Blobs-1, e.Bytes-row.Size
		}
		l.release(r.Tag, row)
		row.State, row.WrappedKey = ledger.BlobExpired, nil
		l.lostBlob[r.Tag] = true
	}
	l.append(entry)
	return expired, nil
}

// Bury implements ledger.Sweeps.
func (l *Ledger) Bury(ctx context.Context, lease ledger.SweepLease, rows []ledger.Position) (int, error) {
	if err := ledger.CheckBatch(rows); err != nil {
		return 0, refuse("bury", err)
	}
	s, err := l.sweeper(ctx, "bury", lease)
	if err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	n := 0
	for _, at := range rows {
		if r, is := l.due(at); !is || r.State != ledger.BlobExpired || l.executions[at.Tag].Tenant != s.Tenant {
			continue
		}
		row := l.blobs[at]
		*row = ledger.Blob{Ref: row.Ref, State: ledger.BlobExpired, CreatedAt: row.CreatedAt}
		delete(l.subjects, at)
		n++
	}
	s.Erased += int64(n)
	return n, nil
}

// Sweep implements ledger.Sweeps.
func (l *Ledger) Sweep(ctx context.Context, tenant, id string) (ledger.Sweep, error) {
	if err := l.begin(ctx, "sweep"); err != nil {
		return ledger.Sweep{}, err
	}
	defer l.mu.Unlock()
	s := l.sweepByID(id)
	if s == nil || s.Tenant != tenant {
		return ledger.Sweep{}, refuse("sweep", blobd.ErrNotFound)
	}
	return s.shown(), nil
}

// ListSweeps implements ledger.Sweeps.
func (l *Ledger) ListSweeps(ctx context.Context, q ledger.SweepQuery) ([]ledger.Sweep, error) {
	if err := checkLimit("list sweeps", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list sweeps"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	newest := func(a, b ledger.SweepCursor) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
	}
	cursor := func(s ledger.Sweep) ledger.SweepCursor { return ledger.SweepCursor{StartedAt: s.StartedAt, ID: s.ID} }
	before := ledger.SweepCursor{StartedAt: kept(q.Before.StartedAt), ID: q.Before.ID}
	var all []ledger.Sweep
	for _, s := range l.sweeps {
		switch {
		case s.Tenant != q.Tenant, q.State != "" && s.State != q.State:
		case q.Before != (ledger.SweepCursor{}) && newest(before, cursor(s.Sweep)) >= 0:
		default:
			all = append(all, s.shown())
		}
	}
	slices.SortFunc(all, func(a, b ledger.Sweep) int { return newest(cursor(a), cursor(b)) })
	return cut(all, q.Limit), nil
}
