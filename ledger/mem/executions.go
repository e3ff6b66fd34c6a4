package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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

// CloseExecution implements ledger.Executions.
func (l *Ledger) CloseExecution(ctx context.Context, tag blobd.ExecutionTag, reason ledger.CloseReason,
	at time.Time, e ledger.Entry,
) (ledger.Record, error) {
	if reason != ledger.ClosedErasure && reason != ledger.ClosedRestricted {
		return ledger.Record{}, refuse("close execution", fmt.Errorf("reason %d: %w", reason, blobd.ErrInvalid))
	}
	return l.move(ctx, "close execution", tag, ledger.ExecutionOpen, ledger.ExecutionClosed, ledger.RecordClose, reason, at, e)
}

// ReopenExecution implements ledger.Executions.
func (l *Ledger) ReopenExecution(ctx context.Context, tag blobd.ExecutionTag, at time.Time, e ledger.Entry,
) (ledger.Record, error) {
	return l.move(ctx, "reopen execution", tag, ledger.ExecutionClosed, ledger.ExecutionOpen, ledger.RecordReopen, 0, at, e)
}

func (l *Ledger) move(ctx context.Context, op string, tag blobd.ExecutionTag, from, to ledger.ExecutionState,
	kind ledger.RecordKind, reason ledger.CloseReason, at time.Time, entry ledger.Entry,
) (ledger.Record, error) {
	if err := l.begin(ctx, op); err != nil {
		return ledger.Record{}, err
	}
	defer l.mu.Unlock()
	e := l.executions[tag]
	switch {
	case e == nil:
		return ledger.Record{}, refuse(op, blobd.ErrNotFound)
	case e.State == ledger.ExecutionErased || l.fenced(e.Tenant):
		return ledger.Record{}, refuse(op, blobd.ErrErased)
	case e.State != from:
		return ledger.Record{}, refuse(op, fmt.Errorf("the execution's state is %d: %w", e.State, blobd.ErrConflict))
	}
	e.State, e.CloseReason = to, reason
	l.append(entry)
	return l.record(ledger.Record{Kind: kind, At: at, Tenant: e.Tenant, Tag: tag, Reason: reason}), nil
}
