package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Drop implements ledger.Closings.
func (l *Ledger) Drop(ctx context.Context, lease ledger.Lease, d ledger.Drop) (ledger.Dropped, error) {
	if d.Limit < 1 || d.Limit > ledger.MaxExpiry {
		return ledger.Dropped{}, refuse("drop", fmt.Errorf("%d rows: %w", d.Limit, blobd.ErrInvalid))
	}
	e, err := l.closer(ctx, "drop", lease)
	if err != nil {
		return ledger.Dropped{}, err
	}
	defer l.mu.Unlock()
	scope := e.scope()
	rows, next := page(l.rows(&scope, d.After.Position), d.Limit)
	done, found := l.judge(&scope, rows, d), []ledger.Position{}
	done.Next = next
	if len(done.Dropped) > 0 {
		entry, err := d.Entry(done.Dropped)
		if err != nil {
			return ledger.Dropped{}, refuse("drop", err)
		}
		l.append(entry)
	}
	for _, r := range rows {
		if r.Erased {
			found = append(found, r.Position)
		}
	}
	for _, k := range done.Kept {
		e.meet(k.Tag)
	}
	for _, r := range done.Dropped {
		e.meet(r.Tag)
		l.drop(e, &r)
		found = append(found, r.Position)
	}
	for _, at := range found {
		e.found[at] = true
		if x := l.executions[at.Tag]; x != nil {
			e.Wrap = max(e.Wrap, l.wrapOf(ledger.Scope{Tenant: x.Tenant, Tag: at.Tag}))
		}
	}
	return done, nil
}

// judge says what becomes of the rows of a page that were not erased before.
func (l *Ledger) judge(s *ledger.Scope, rows []ledger.ScopeRow, d ledger.Drop) (done ledger.Dropped) {
	for _, r := range rows {
		if r.Erased {
			continue
		}
		v, until := l.protects(s.Tenant, &r.DueRow, d.At)
		if v == ledger.VerdictErase {
			done.Dropped = append(done.Dropped, r.DueRow)
			continue
		}
		done.Kept = append(done.Kept, ledger.Kept{
			Position: r.Position, ExecutionID: r.ExecutionID, Verdict: v, Until: until, Extent: r.Extent(s.Form()),
		})
	}
	return done
}

// meet counts an execution that an erasure of a form that nothing fences met.
func (e *erasure) meet(tag blobd.ExecutionTag) {
	if !e.form().Fenceable() && !e.met[tag] {
		e.met[tag] = true
		e.Drops.Executions++
	}
}

// form is that of the scope that was asked for.
func (e *erasure) form() ledger.ScopeForm {
	s := e.scope()
	return s.Form()
}

// drop erases one row of an erasure's scope.
func (l *Ledger) drop(e *erasure, r *ledger.DueRow) {
	l.eraseRows(r.Tag, []*ledger.Blob{l.blobs[r.Position]})
	e.Dropped, e.Drops = e.Dropped+1, e.Drops.Plus(r.Extent(e.form()))
	if x := l.executions[r.Tag]; x != nil && x.Key != nil {
		l.lostBlob[r.Tag] = true
	}
}

// unburied lists the rows that an erasure dropped or found erased and that are not
// tombstones of it yet.
func (e *erasure) unburied() (rows []ledger.Position) {
	for at := range e.found {
		rows = append(rows, at)
	}
	slices.SortFunc(rows, comparePositions)
	return rows
}

// DroppedRows implements ledger.Closings.
func (l *Ledger) DroppedRows(ctx context.Context, erasureID string, after ledger.Position, limit int) ([]ledger.Position, error) {
	if err := checkLimit("dropped rows", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "dropped rows"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	e := l.erasure(erasureID)
	if e == nil {
		return nil, refuse("dropped rows", blobd.ErrNotFound)
	}
	rows := slices.DeleteFunc(e.unburied(), func(at ledger.Position) bool { return comparePositions(at, after) <= 0 })
	return cut(rows, limit), nil
}

// Coverage implements ledger.Closings.
func (l *Ledger) Coverage(ctx context.Context, tenant string) (c ledger.Coverage, err error) {
	if err := l.begin(ctx, "coverage"); err != nil {
		return c, err
	}
	defer l.mu.Unlock()
	for at, row := range l.blobs {
		x := l.executions[at.Tag]
		if row.State != ledger.BlobLive || x.Tenant != tenant || x.State == ledger.ExecutionErased || l.fenced(tenant) {
			continue
		}
		c.Blobs++
		if len(l.subjects[at]) > 0 {
			c.Tagged++
		}
	}
	return c, nil
}

// FindRef implements ledger.Closings.
func (l *Ledger) FindRef(ctx context.Context, tenant string, ref blobd.Ref, limit int) (tags []blobd.ExecutionTag, err error) {
	if err := checkLimit("find ref", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "find ref"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	for at := range l.blobs {
		if x := l.executions[at.Tag]; at.Ref == ref && x != nil && x.Tenant == tenant {
			tags = append(tags, at.Tag)
		}
	}
	slices.SortFunc(tags, func(a, b blobd.ExecutionTag) int { return bytes.Compare(a[:], b[:]) })
	return cut(tags, limit), nil
}
