package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Explanation says why a blob is kept or goes.
type Explanation struct {
	ExecutionID string // "" where only a tag is known
	Ref         blobd.Ref
	// State is one word: live, expired, superseded, erased, missing, lost or
	// collected; or closed, where it would be live and an order closes it.
	State  string
	Class  string        // "" of a tombstone
	Policy ledger.Policy // that governs it
	// Start is when its period began, End the end of its maximum, FloorEnd that of its
	// legal floor. Zero: the start event has not come; of FloorEnd also: no floor.
	Start, End, FloorEnd time.Time
	// Ids of the open ones that cover it.
	Holds, Restrictions, Erasures []string
	LastSweep                     *ledger.Sweep // the tenant's newest; nil: none
	Verdict                       string        // of retention: keep, waiting, erase, held, floor or review; "" of a tombstone
	Next                          string        // what happens next, in one sentence
}

// maxExplained bounds the executions in which Explain looks for a ref.
const maxExplained = 100

// Explain says why a blob is kept or goes. Without an executionID it looks in every
// execution of the tenant that has the ref, at most 100 of them; without a row it is
// ErrNotFound. Its time grows with what the tenant's open holds, restrictions and
// erasures of persons cover.
func (s *Store) Explain(ctx context.Context, tenant string, ref blobd.Ref, executionID string) ([]Explanation, error) {
	all, err := s.explain(ctx, tenant, ref, executionID)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return all, nil
}

func (s *Store) explain(ctx context.Context, tenant string, ref blobd.Ref, executionID string) ([]Explanation, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	tags := []blobd.ExecutionTag{executionTag(t, executionID)}
	if executionID == "" {
		if tags, err = s.Ledger.FindRef(ctx, tenant, ref, maxExplained); err != nil {
			return nil, err
		}
	}
	var all []Explanation
	for _, tag := range tags {
		view, err := s.Ledger.Lookup(ctx, tag, []blobd.Ref{ref})
		if err != nil {
			return nil, err
		}
		if view.Blobs[0] == nil || view.Execution == nil && executionID == "" {
			continue
		}
		x, err := s.explainRow(ctx, t, tag, view)
		if err != nil {
			return nil, err
		}
		if x.ExecutionID == "" {
			x.ExecutionID = executionID
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, blobd.ErrNotFound
	}
	return all, nil
}

func (s *Store) explainRow(ctx context.Context, t ledger.Tenant, tag blobd.ExecutionTag, view ledger.View) (Explanation, error) {
	b := view.Blobs[0]
	x := Explanation{Ref: b.Ref, Class: b.Class, State: stateWord(view, b)}
	row := ledger.DueRow{
		Position: ledger.Position{Tag: tag, Ref: b.Ref}, Class: b.Class, State: b.State, CreatedAt: b.CreatedAt, Size: b.Size,
	}
	if view.Execution != nil {
		x.ExecutionID, row.ExecutionID, row.EndedAt = view.Execution.ID, view.Execution.ID, view.Execution.EndedAt
	}
	if sweeps, err := s.Ledger.ListSweeps(ctx, ledger.SweepQuery{Tenant: t.ID, Limit: 1}); err != nil {
		return x, err
	} else if len(sweeps) > 0 {
		x.LastSweep = &sweeps[0]
	}
	if err := s.coverers(ctx, t, &row, &x); err != nil {
		return x, err
	}
	if b.Class == "" || x.State == "erased" {
		x.Next = "Nothing: it is gone for good."
		if len(x.Erasures) > 0 {
			x.Next = "Its erasure deletes what is left of it."
		}
		return x, nil
	}
	c, err := s.Class(ctx, t.ID, b.Class)
	if err != nil {
		return x, err
	}
	row.Held = len(x.Holds) > 0
	x.Policy = ledger.Governing(c.Policies, b.CreatedAt)
	x.FloorEnd = x.Policy.FloorEnd(row.CreatedAt, row.EndedAt)
	if x.End = x.Policy.End(row.CreatedAt, row.EndedAt); !x.End.IsZero() {
		x.Start = row.CreatedAt
		if x.Policy.Start == ledger.StartEnded && row.EndedAt.After(row.CreatedAt) {
			x.Start = row.EndedAt
		}
	}
	verdict, _ := ledger.Judge(&row, c.Policies, view.Now)
	x.Verdict = verdictWord(verdict)
	x.Next = next(&x, &row, c.Policies, view.Now)
	return x, nil
}

// coverers finds the open orders and erasures that cover a row.
func (s *Store) coverers(ctx context.Context, t ledger.Tenant, row *ledger.DueRow, x *Explanation) error {
	for kind, ids := range map[ledger.OrderKind]*[]string{ledger.OrderHold: &x.Holds, ledger.OrderRestriction: &x.Restrictions} {
		err := s.eachOpenOrder(ctx, t.ID, kind, func(o *ledger.Order) error {
			covers, err := s.covers(ctx, o.Scope, row)
			if covers {
				*ids = append(*ids, o.ID)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, state := range []ledger.ErasureState{ledger.ErasureAwaiting, ledger.ErasureGrace, ledger.ErasureDeferred, ledger.ErasureRunning} {
		err := s.eachErasure(ctx, t.ID, state, func(e *ledger.Erasure) error {
			covers, err := s.erases(ctx, e, row)
			if covers && !slices.Contains(x.Erasures, e.ID) {
				x.Erasures = append(x.Erasures, e.ID)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachErasure lists a tenant's erasures in a state, newest first.
func (s *Store) eachErasure(ctx context.Context, tenant string, state ledger.ErasureState, use func(*ledger.Erasure) error) error {
	q := ledger.ErasureQuery{Tenant: tenant, State: state, Limit: listPage}
	for {
		page, err := s.Ledger.ListErasures(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := use(&page[i]); err != nil {
				return err
			}
			q.Before = ledger.ErasureCursor{FencedAt: page[i].FencedAt, ID: page[i].ID}
		}
		if len(page) < listPage {
			return nil
		}
	}
}

func (s *Store) erases(ctx context.Context, e *ledger.Erasure, row *ledger.DueRow) (bool, error) {
	scope := e.Scope
	if e.OfRefs && scope.Tag == row.Tag {
		refs, err := s.Ledger.ErasedRefs(ctx, e.ID)
		return slices.Contains(refs, row.Ref), err
	}
	return s.covers(ctx, scope, row)
}

// covers reports whether a scope covers a row. What a person's tags cover only the
// ledger can say.
func (s *Store) covers(ctx context.Context, scope ledger.Scope, row *ledger.DueRow) (bool, error) {
	if scope.Form() != ledger.ScopeSubjects {
		return scope.Covers(row, nil), nil
	}
	err := s.eachScopeRow(ctx, scope, func(r *ledger.ScopeRow) error {
		if r.Position == row.Position {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	return false, err
}

func stateWord(view ledger.View, b *ledger.Blob) string {
	if view.Execution != nil && view.Execution.State == ledger.ExecutionErased {
		return "erased"
	}
	switch b.State {
	case ledger.BlobErased:
		return "erased"
	case ledger.BlobMissing:
		return "missing"
	case ledger.BlobLost:
		return "lost"
	case ledger.BlobCollected:
		return "collected"
	case ledger.BlobSuperseded:
		return "superseded"
	case ledger.BlobExpired:
		return "expired"
	}
	switch {
	case b.Closed != 0:
		return "closed"
	case b.Expired(view.Now):
		return "expired"
	}
	return "live"
}

func verdictWord(v ledger.Verdict) string {
	switch v {
	case ledger.VerdictWaiting:
		return "waiting"
	case ledger.VerdictErase:
		return "erase"
	case ledger.VerdictHeld:
		return "held"
	case ledger.VerdictFloor:
		return "floor"
	case ledger.VerdictReview:
		return "review"
	}
	return "keep"
}

// next says what happens to a row that is not erased.
func next(x *Explanation, row *ledger.DueRow, versions []ledger.Policy, now time.Time) string {
	day := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if len(x.Erasures) > 0 {
		switch v, until := ledger.Protects(row, versions, now); {
		case v == ledger.VerdictHeld:
			return "An erasure takes it once every hold that covers it is lifted."
		case v == ledger.VerdictFloor && until.IsZero():
			return "An erasure takes it once its legal floor is over, which begins when its execution ends."
		case v == ledger.VerdictFloor:
			return "An erasure takes it once its legal floor ends on " + day(until) + "."
		}
		return "An erasure takes it as soon as it is approved and its grace is over."
	}
	switch x.Verdict {
	case "keep":
		if x.End.IsZero() {
			return "It is kept; its period begins when its execution ends."
		}
		return "It is kept until its maximum ends on " + day(x.End) + "."
	case "waiting":
		return "It is kept until its execution ends, which begins its period."
	case "held":
		return "It is past its maximum; the next sweep takes it once every hold that covers it is lifted."
	case "floor":
		return "It is past its maximum; the next sweep takes it once its legal floor ends on " + day(x.FloorEnd) + "."
	case "review":
		return "It is past its maximum, and a person decides what becomes of it."
	}
	return "The next sweep takes it."
}
