package mem

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Execution implements ledger.Executions.
func (l *Ledger) Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ledger.Summary, error) {
	if err := l.begin(ctx, "execution"); err != nil {
		return ledger.Summary{}, err
	}
	defer l.mu.Unlock()
	e := l.executions[tag]
	if e == nil || e.Tenant != tenant {
		return ledger.Summary{}, refuse("execution", blobd.ErrNotFound)
	}
	s := ledger.Summary{Execution: *l.shown(e), Classes: map[string]int64{}}
	steps := map[string]bool{}
	for _, p := range l.parts {
		if p.tag == tag {
			steps[p.StepID] = true
		}
	}
	s.Steps = int64(len(steps))
	if s.State == ledger.ExecutionErased {
		return s, nil
	}
	for _, b := range l.live(tag) {
		s.Classes[b.Class]++
		if due := b.ExpiresAt; !due.IsZero() && (s.NextDue.IsZero() || due.Before(s.NextDue)) {
			s.NextDue = due
		}
	}
	return s, nil
}

func (l *Ledger) live(tag blobd.ExecutionTag) (bs []*ledger.Blob) {
	for at, row := range l.blobs {
		if at.Tag == tag && row.State == ledger.BlobLive {
			bs = append(bs, l.blob(tag, row))
		}
	}
	return bs
}

// ListExecutions implements ledger.Executions.
func (l *Ledger) ListExecutions(ctx context.Context, q ledger.ExecutionQuery) ([]ledger.Execution, error) {
	if err := checkLimit("list executions", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list executions"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	newest := func(a, b ledger.ExecutionCursor) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return bytes.Compare(b.Tag[:], a.Tag[:])
	}
	cursor := func(e ledger.Execution) ledger.ExecutionCursor {
		return ledger.ExecutionCursor{CreatedAt: e.CreatedAt, Tag: e.Tag}
	}
	var es []ledger.Execution
	for _, row := range l.executions {
		e := l.shown(row)
		before := q.Before
		before.CreatedAt = kept(before.CreatedAt)
		switch {
		case e.Tenant != q.Tenant, q.State != 0 && e.State != q.State:
		case q.Before != (ledger.ExecutionCursor{}) && newest(before, cursor(*e)) >= 0:
		case q.Class != "" && !l.hasClass(e, q.Class):
		default:
			es = append(es, *e)
		}
	}
	slices.SortFunc(es, func(a, b ledger.Execution) int { return newest(cursor(a), cursor(b)) })
	return cut(es, q.Limit), nil
}

func (l *Ledger) hasClass(e *ledger.Execution, name string) bool {
	return e.State != ledger.ExecutionErased &&
		slices.ContainsFunc(l.live(e.Tag), func(b *ledger.Blob) bool { return b.Class == name })
}

// Records implements ledger.Executions.
func (l *Ledger) Records(ctx context.Context, q ledger.RecordQuery) ([]ledger.RecordedPart, error) {
	if err := checkLimit("records", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "records"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var ps []ledger.RecordedPart
	for _, p := range l.parts {
		if p.tag != q.Tag || p.Seq <= q.After || q.StepID != "" && p.StepID != q.StepID ||
			!strings.HasPrefix(p.StepID, q.StepPrefix) {
			continue
		}
		r := p.RecordedPart
		if row := l.blobs[ledger.Position{Tag: p.tag, Ref: p.Ref}]; r.Status == ledger.PartKept && row != nil {
			r.Blob = l.blob(p.tag, row)
		}
		ps = append(ps, r)
	}
	return cut(ps, q.Limit), nil
}
