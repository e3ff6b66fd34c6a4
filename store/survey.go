package store

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// surveyPage is how many rows of a scope are read at once.
const surveyPage = 500

// survey is a look at every row of a scope, for one moment. One goroutine owns it.
type survey struct {
	Preview
	scope    ledger.Scope
	versions map[string][]ledger.Policy // of classes
	now      time.Time
	// asOf is when the plan was made that is compared with this one: what was captured
	// later joined it and changes no digest.
	asOf time.Time

	executions map[blobd.ExecutionTag]bool
	seen       map[ledger.Position]bool // of several subjects, who share rows
	keepers    *keepers
	free, kept int64 // rows that nothing protects, and those that something does
	// What was captured by asOf, as the digest has it.
	heldThen, floorThen int64
}

func newSurvey(scope ledger.Scope, versions map[string][]ledger.Policy, now, asOf time.Time) *survey {
	return &survey{
		Preview: Preview{Classes: make(map[string]int64)}, scope: scope, versions: versions, now: now, asOf: asOf,
		executions: make(map[blobd.ExecutionTag]bool), seen: make(map[ledger.Position]bool),
	}
}

// survey looks at every row of a scope.
func (s *Store) survey(ctx context.Context, scope ledger.Scope, now, asOf time.Time) (*survey, error) {
	classes, err := s.classes(ctx, scope.Tenant)
	if err != nil {
		return nil, err
	}
	versions := make(map[string][]ledger.Policy, len(classes))
	for _, c := range classes {
		versions[c.Name] = c.Policies
	}
	v := newSurvey(scope, versions, now, asOf)
	if v.keepers, err = s.openHolds(ctx, scope.Tenant, asOf); err != nil {
		return nil, err
	}
	err = s.eachScopeRow(ctx, scope, func(r *ledger.ScopeRow) error {
		v.add(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.findKeepers(ctx, v.keepers); err != nil {
		return nil, err
	}
	if err := v.count(ctx, s.Ledger); err != nil {
		return nil, err
	}
	v.Holds = v.keepers.ids(func(k *keeper) bool { return k.keeps })
	v.Digest = planDigest(scope, v.heldThen, v.floorThen, v.keepers.ids((*keeper).counts))
	return v, nil
}

// eachScopeRow visits the rows of a scope, page by page.
func (s *Store) eachScopeRow(ctx context.Context, scope ledger.Scope, visit func(*ledger.ScopeRow) error) error {
	for after := (ledger.ScopeCursor{}); ; {
		rows, next, err := s.Ledger.ScopeRows(ctx, scope, after, surveyPage)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := visit(&rows[i]); err != nil {
				return err
			}
		}
		if next == (ledger.ScopeCursor{}) {
			return ctx.Err()
		}
		after = next
	}
}

func (v *survey) add(r *ledger.ScopeRow) {
	if len(v.scope.Subjects) > 1 {
		if v.seen[r.Position] {
			return
		}
		v.seen[r.Position] = true
	}
	if len(v.Sample) < MaxSample {
		v.Sample = append(v.Sample, *r)
	}
	if r.Erased {
		v.Plan.AlreadyErased++
		return
	}
	v.executions[r.Tag] = true
	v.Plan.Blobs++
	v.Plan.Bytes += r.Size
	v.Classes[r.Class]++
	if r.Shared {
		v.Plan.Shared++
	}
	if v.Oldest.IsZero() || r.CreatedAt.Before(v.Oldest) {
		v.Oldest = r.CreatedAt
	}
	if r.CreatedAt.After(v.Newest) {
		v.Newest = r.CreatedAt
	}
	v.protected(r)
}

func (v *survey) protected(r *ledger.ScopeRow) {
	verdict, until := ledger.Protects(&r.DueRow, v.versions[r.Class], v.now)
	then := int64(0)
	if !r.CreatedAt.After(v.asOf) {
		then = 1
	}
	switch verdict {
	case ledger.VerdictHeld:
		v.Plan.Held += r.Extent(v.scope.Form()).Blobs
		v.heldThen += then
		v.keepers.held(r, then == 1)
	case ledger.VerdictFloor:
		v.Plan.Floor += r.Extent(v.scope.Form()).Blobs
		v.floorThen += then
	default:
		v.free++
		return
	}
	v.kept++
	if len(v.Kept) < ledger.MaxKept {
		v.Kept = append(v.Kept, ledger.Kept{Position: r.Position, ExecutionID: r.ExecutionID, Verdict: verdict, Until: until})
	}
}

// count makes the plan. Of a form that something fences it has what the ledger counts,
// all at one moment and in the measure of the fence; what is protected is counted row by
// row.
func (v *survey) count(ctx context.Context, l ledger.Erasures) error {
	if !v.scope.Form().Fenceable() {
		v.Plan.Executions = int64(len(v.executions))
		if v.Plan.Blobs+v.Plan.AlreadyErased == 0 {
			v.Plan.NotFound = 1
		}
		return nil
	}
	plan, err := l.Plan(ctx, v.scope)
	if err != nil {
		return err
	}
	plan.Held, plan.Floor = v.Plan.Held, v.Plan.Floor
	v.Plan = plan
	return nil
}

// allKept reports whether everything that an erasure could erase is protected.
func (v *survey) allKept() bool { return v.free == 0 && v.kept > 0 }
