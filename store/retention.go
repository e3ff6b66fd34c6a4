package store

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// PolicyEffect is what a simulation of a policy found for its class.
type PolicyEffect struct {
	Policy ledger.Policy
	Before ledger.Tally // under what stands
	After  ledger.Tally // under the policy: what the next sweep would do
}

// SimulatePolicy counts what a policy would make due, and changes nothing. It asks
// the same of each row as a sweep does. p's At, Tenant and Class say when it would
// be set and for what.
func (s *Store) SimulatePolicy(ctx context.Context, p ledger.Policy) (PolicyEffect, error) {
	if err := s.serving(); err != nil {
		return PolicyEffect{}, fmt.Errorf("simulate a policy: %w", err)
	}
	effect, err := s.simulate(ctx, p)
	if err != nil {
		return PolicyEffect{}, fmt.Errorf("simulate a policy: %w", err)
	}
	return effect, nil
}

func (s *Store) simulate(ctx context.Context, p ledger.Policy) (PolicyEffect, error) {
	if err := p.Check(); err != nil {
		return PolicyEffect{}, err
	}
	if p.At.IsZero() {
		var err error
		if p.At, err = s.begins(ctx); err != nil {
			return PolicyEffect{}, err
		}
	}
	p = p.Stored()
	c, err := s.Class(ctx, p.Tenant, p.Class)
	if err != nil {
		return PolicyEffect{}, err
	}
	effect := PolicyEffect{Policy: p}
	if effect.Before, err = s.tally(ctx, p.Tenant, []ledger.Class{c}, p.At); err != nil {
		return PolicyEffect{}, err
	}
	c.Policies = append([]ledger.Policy{p}, c.Policies...)
	effect.After, err = s.tally(ctx, p.Tenant, []ledger.Class{c}, p.At)
	return effect, err
}

// SetPolicy simulates a policy, sets it, and returns what the simulation found.
func (s *Store) SetPolicy(ctx context.Context, p ledger.Policy) (PolicyEffect, error) {
	effect, err := s.SimulatePolicy(ctx, p)
	if err != nil {
		return effect, err
	}
	t, err := s.Tenant(ctx, p.Tenant)
	if err != nil {
		return effect, fmt.Errorf("set a policy: %w", err)
	}
	entry, err := s.scribe(t).Policy(effect.Policy, effect.Before, effect.After)
	if err != nil {
		return effect, fmt.Errorf("set a policy: %w", err)
	}
	if err := s.Ledger.SetPolicy(ctx, effect.Policy, entry); err != nil {
		return effect, fmt.Errorf("set a policy: %w", err)
	}
	c, err := s.Class(ctx, p.Tenant, p.Class)
	if err != nil {
		return effect, fmt.Errorf("set a policy: %w", err)
	}
	if len(c.Policies) > 0 {
		effect.Policy = c.Policies[0]
	}
	return effect, nil
}

// Class returns a class of a tenant, without policies where it has none.
func (s *Store) Class(ctx context.Context, tenant, name string) (ledger.Class, error) {
	if err := blobd.CheckClass(name); err != nil {
		return ledger.Class{}, fmt.Errorf("class: %w", err)
	}
	page, err := s.Ledger.Classes(ctx, tenant, justBefore(name), 1)
	if err != nil {
		return ledger.Class{}, fmt.Errorf("class: %w", err)
	}
	if len(page) == 0 || page[0].Name != name {
		return ledger.Class{Name: name}, nil
	}
	return page[0], nil
}

// justBefore returns a text below a class's name in byte order, with no name of a
// class between: no character of one is past '~'.
func justBefore(name string) string {
	last := len(name) - 1
	return name[:last] + string(rune(name[last]-1)) + "~"
}

// classes returns all classes of a tenant.
func (s *Store) classes(ctx context.Context, tenant string) (all []ledger.Class, err error) {
	for after := ""; ; {
		page, err := s.Ledger.Classes(ctx, tenant, after, listPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < listPage {
			return all, nil
		}
		after = page[len(page)-1].Name
	}
}

// EndExecution is the start event of policies that wait for it: the execution
// ended now, unless it did before.
func (s *Store) EndExecution(ctx context.Context, tenant, executionID, actor string) (ledger.Execution, error) {
	if err := s.serving(); err != nil {
		return ledger.Execution{}, fmt.Errorf("end an execution: %w", err)
	}
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return ledger.Execution{}, fmt.Errorf("end an execution: %w", err)
	}
	now, err := s.begins(ctx)
	if err != nil {
		return ledger.Execution{}, fmt.Errorf("end an execution: %w", err)
	}
	tag := executionTag(t, executionID)
	entry, err := s.scribe(t).End(now, tag, actor)
	if err != nil {
		return ledger.Execution{}, fmt.Errorf("end an execution: %w", err)
	}
	x, err := s.Ledger.EndExecution(ctx, tenant, tag, now, entry)
	if err != nil {
		return ledger.Execution{}, fmt.Errorf("end an execution: %w", err)
	}
	return x, nil
}

// duePage is how many rows a walk holds in memory.
const duePage = 256

// walkDue visits, page by page, the rows of a tenant that may be past their maximum
// at a time: first those that were expired before and whose objects are not known
// to be gone, then those of each class by the time of their capture. Its time and
// memory grow with what is due and not with what is stored.
func (s *Store) walkDue(ctx context.Context, tenant string, classes []ledger.Class, at time.Time,
	visit func(versions []ledger.Policy, page []ledger.DueRow) error,
) error {
	wanted := make(map[string]bool, len(classes))
	for _, c := range classes {
		wanted[c.Name] = true
	}
	err := s.eachDue(ctx, ledger.DueQuery{Tenant: tenant, Expired: true}, func(page []ledger.DueRow) error {
		return visit(nil, keep(page, func(r *ledger.DueRow) bool { return wanted[r.Class] }))
	})
	if err != nil {
		return err
	}
	for _, c := range classes {
		err := s.walkClass(ctx, tenant, c, at, ledger.DueCursor{}, func(page []ledger.DueRow) error { return visit(c.Policies, page) })
		if err != nil {
			return err
		}
	}
	return nil
}

// walkClass visits the rows of a class that may be past their maximum, but for
// those that were expired before, from the oldest capture or after a row on.
func (s *Store) walkClass(ctx context.Context, tenant string, c ledger.Class, at time.Time, after ledger.DueCursor,
	visit func([]ledger.DueRow) error,
) error {
	segments := ledger.Segments(c.Policies)
	for i := len(segments) - 1; i >= 0; i-- {
		segment := &segments[i]
		to := segment.Policy.Maximum.Latest(at).Add(time.Microsecond)
		if !segment.To.IsZero() && segment.To.Before(to) {
			to = segment.To
		}
		if !to.After(segment.From) || !after.CreatedAt.Before(to) {
			continue
		}
		q := ledger.DueQuery{Tenant: tenant, Class: c.Name, From: segment.From, To: to, After: after}
		err := s.eachDue(ctx, q, func(page []ledger.DueRow) error {
			return visit(keep(page, func(r *ledger.DueRow) bool { return r.State != ledger.BlobExpired }))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) eachDue(ctx context.Context, q ledger.DueQuery, visit func([]ledger.DueRow) error) error {
	q.Limit = duePage
	for {
		page, err := s.Ledger.Due(ctx, q)
		if err != nil {
			return err
		}
		more := len(page) == duePage
		if more {
			q.After = page[duePage-1].Cursor()
		}
		if err := visit(page); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// keep returns the rows that a condition holds of, in the same memory.
func keep(rows []ledger.DueRow, is func(*ledger.DueRow) bool) []ledger.DueRow {
	kept := rows[:0]
	for i := range rows {
		if is(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	return kept
}

// tally counts the verdicts of a tenant's rows at a time.
func (s *Store) tally(ctx context.Context, tenant string, classes []ledger.Class, at time.Time) (t ledger.Tally, err error) {
	err = s.walkDue(ctx, tenant, classes, at, func(versions []ledger.Policy, page []ledger.DueRow) error {
		t.AddAll(page, versions, at)
		return ctx.Err()
	})
	return t, err
}
