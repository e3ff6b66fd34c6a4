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

// SetPolicy implements ledger.Policies.
func (l *Ledger) SetPolicy(ctx context.Context, p ledger.Policy, e ledger.Entry) error {
	if err := p.Check(); err != nil {
		return refuse("set policy", err)
	}
	if err := l.begin(ctx, "set policy"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if err := l.living(p.Tenant); err != nil {
		return refuse("set policy", err)
	}
	p = p.Stored()
	l.versions++
	p.Version = l.versions
	c := class{p.Tenant, p.Class}
	l.policies[c] = append([]ledger.Policy{p}, l.policies[c]...)
	l.wake(p.Tenant, p.At)
	l.append(e)
	return nil
}

// Classes implements ledger.Policies.
func (l *Ledger) Classes(ctx context.Context, tenant, after string, limit int) ([]ledger.Class, error) {
	if err := checkLimit("classes", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "classes"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if l.fenced(tenant) {
		return nil, nil
	}
	names := map[string]bool{}
	for c := range l.policies {
		names[c.name] = names[c.name] || c.tenant == tenant
	}
	for c := range l.classes {
		names[c.name] = names[c.name] || c.tenant == tenant
	}
	var all []ledger.Class
	for name, its := range names {
		if its && name > after {
			all = append(all, ledger.Class{Name: name, Policies: slices.Clone(l.policies[class{tenant, name}])})
		}
	}
	slices.SortFunc(all, func(a, b ledger.Class) int { return cmp.Compare(a.Name, b.Name) })
	return cut(all, limit), nil
}

// EndExecution implements ledger.Policies.
func (l *Ledger) EndExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, at time.Time, e ledger.Entry) (ledger.Execution, error) {
	if err := l.begin(ctx, "end execution"); err != nil {
		return ledger.Execution{}, err
	}
	defer l.mu.Unlock()
	x := l.executions[tag]
	switch {
	case x == nil || x.Tenant != tenant:
		return ledger.Execution{}, refuse("end execution", blobd.ErrNotFound)
	case x.State == ledger.ExecutionErased || l.fenced(tenant):
		return ledger.Execution{}, refuse("end execution", blobd.ErrErased)
	}
	if x.EndedAt.IsZero() {
		x.EndedAt = kept(at)
		l.append(e)
	}
	return *l.shown(x), nil
}

// Due implements ledger.Policies.
func (l *Ledger) Due(ctx context.Context, q ledger.DueQuery) ([]ledger.DueRow, error) {
	if err := checkLimit("due", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "due"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	from, to, after := kept(q.From), kept(q.To), ledger.DueCursor{CreatedAt: kept(q.After.CreatedAt), N: q.After.N}
	var rows []ledger.DueRow
	for at := range l.blobs {
		r, is := l.due(at)
		switch {
		case !is, l.executions[at.Tag].Tenant != q.Tenant:
		case q.Expired:
			if r.State == ledger.BlobExpired && r.N > q.After.N {
				rows = append(rows, r)
			}
		case r.Class != q.Class:
		case !from.IsZero() && r.CreatedAt.Before(from), !to.IsZero() && !r.CreatedAt.Before(to):
		case q.After != (ledger.DueCursor{}) && compareDue(r.Cursor(), after) <= 0:
		default:
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b ledger.DueRow) int {
		if q.Expired {
			return cmp.Compare(a.N, b.N)
		}
		return compareDue(a.Cursor(), b.Cursor())
	})
	return cut(rows, q.Limit), nil
}

func compareDue(a, b ledger.DueCursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.N, b.N))
}

// due returns a row as retention sees it; false: it is none of retention's.
func (l *Ledger) due(at ledger.Position) (ledger.DueRow, bool) {
	row, x := l.blobs[at], l.executions[at.Tag]
	if row == nil || x == nil || !row.State.Sweepable() || row.Class == "" {
		return ledger.DueRow{}, false
	}
	if x.State == ledger.ExecutionErased || l.fenced(x.Tenant) {
		return ledger.DueRow{}, false
	}
	r := l.facts(at, row)
	r.Held = l.held(x.Tenant, &r)
	return r, true
}

// CountStored implements ledger.Policies.
func (l *Ledger) CountStored(ctx context.Context, tenant string, atMost int64) (int64, error) {
	if atMost < 1 {
		return 0, refuse("count stored", fmt.Errorf("at most %d: %w", atMost, blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "count stored"); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	var n int64
	for at := range l.blobs {
		if _, is := l.due(at); is && l.executions[at.Tag].Tenant == tenant {
			n++
		}
	}
	return min(n, atMost), nil
}

// expires is ledger.Blob's ExpiresAt of a row.
func (l *Ledger) expires(tag blobd.ExecutionTag, row *ledger.Blob) time.Time {
	x := l.executions[tag]
	if x == nil || row.Class == "" {
		return time.Time{}
	}
	return ledger.EndOf(l.policies[class{x.Tenant, row.Class}], row.CreatedAt, x.EndedAt)
}
