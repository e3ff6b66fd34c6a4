package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// target is what a request names, in clear.
type target struct {
	tenant, executionID string
	refs                []blobd.Ref
	subjects            []string
	class               string
	capturedBefore      time.Time
	wholeTenant         bool
}

func (r *EraseRequest) target() target {
	return target{r.Tenant, r.ExecutionID, r.Refs, r.Subjects, r.Class, r.CapturedBefore, r.WholeTenant}
}

func (r *OrderRequest) target() target {
	return target{r.Tenant, r.ExecutionID, r.Refs, r.Subjects, r.Class, r.CapturedBefore, r.WholeTenant}
}

// scope turns a target into a scope as the ledger knows it: refs sorted, each once,
// and subjects as keyed hashes. The tenant's row is as the ledger has it now.
// ErrInvalid: it is of no form, or of two. Subjects of a fenced tenant, whose index
// key is gone, are ErrTenantErased.
func (s *Store) scope(ctx context.Context, r target) (ledger.Tenant, ledger.Scope, error) {
	if err := s.serving(); err != nil {
		return ledger.Tenant{}, ledger.Scope{}, err
	}
	scope := ledger.Scope{
		Tenant: r.tenant, ExecutionID: r.executionID, Refs: sortedRefs(r.refs), Class: r.class,
		CapturedBefore: micro(r.capturedBefore), WholeTenant: r.wholeTenant,
	}
	if len(r.subjects) > 0 {
		scope.Subjects = make([][32]byte, 1) // for the check; the hashes follow
	}
	if err := scope.Check(); err != nil {
		return ledger.Tenant{}, scope, err
	}
	if len(r.refs) > 0 && r.executionID == "" {
		return ledger.Tenant{}, scope, fmt.Errorf("refs without their execution: %w", blobd.ErrInvalid)
	}
	if r.class != "" {
		if err := blobd.CheckClass(r.class); err != nil {
			return ledger.Tenant{}, scope, err
		}
	}
	t, err := s.RefreshTenant(ctx, r.tenant)
	if err != nil {
		return t, scope, err
	}
	switch scope.Form() {
	case ledger.ScopeExecution, ledger.ScopeRefs:
		scope.Tag = executionTag(t, r.executionID)
	case ledger.ScopeTenant:
		scope.Tag, err = s.tagOfTenant(ctx, t)
	case ledger.ScopeSubjects:
		scope.Subjects, err = s.subjects(ctx, t, r.subjects)
	}
	return t, scope, err
}

// subjects are the keyed hashes of persons' identifiers, as a put makes them.
func (s *Store) subjects(ctx context.Context, t ledger.Tenant, all []string) ([][32]byte, error) {
	for _, subject := range all {
		if err := blobd.CheckSubject(subject); err != nil {
			return nil, err
		}
	}
	index, err := s.indexKey(ctx, t)
	if err != nil {
		return nil, err
	}
	defer index.Wipe()
	return subjectTags(index, all), nil
}

func sortedRefs(refs []blobd.Ref) []blobd.Ref {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b blobd.Ref) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(refs)
}

// micro is a time as the ledger keeps it.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
