package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Off-boarding is the erasure of a whole tenant. The first half is Erase: its one
// transaction marks the tenant's row, and from then on the ledger answers for
// every execution of the tenant as for an erased one. The second half is the same
// job as every erasure's, with more before it:
//
//	journal again → drop every execution's key, in batches → destroy the KEK →
//	settle → delete under the tenant's prefix → margin → read back → tombstones
//
// The KEK goes before the objects, so that nothing can be opened while they are
// on their way out; and after the ledger's keys, so that a key service which does
// not answer keeps no key in the ledger.

// dropBatch is how many executions' keys one step drops.
const dropBatch = 500

// TenantTag returns what names a tenant in object names.
func (s *Store) TenantTag(ctx context.Context, tenant string) (blobd.ExecutionTag, error) {
	t, err := s.RefreshTenant(ctx, tenant)
	if err != nil {
		return blobd.ExecutionTag{}, err
	}
	return s.tagOfTenant(ctx, t)
}

// tagOfTenant is what names a tenant in object names. Of one whose name key was
// lost the erasure tells it.
func (s *Store) tagOfTenant(ctx context.Context, t ledger.Tenant) (blobd.ExecutionTag, error) {
	if len(t.NameKey) > 0 || !t.Fenced() {
		return blobd.ParseExecutionTag(s.tenantTag(t))
	}
	e, err := s.Ledger.Erasure(ctx, t.ID, t.FencedBy)
	if err != nil {
		return blobd.ExecutionTag{}, fmt.Errorf("the erasure that off-boarded tenant %q: %w", t.ID, err)
	}
	return e.Scope.Tag, nil
}

// tenantTags are the ledger's tenants by their tags in object names.
func (s *Store) tenantTags(ctx context.Context) (map[string]ledger.Tenant, error) {
	tags := make(map[string]ledger.Tenant)
	err := s.eachTenant(ctx, func(t ledger.Tenant) error {
		tag, err := s.tagOfTenant(ctx, t)
		tags[tag.String()] = t
		return err
	})
	return tags, err
}

// eachTenant lists the ledger's tenants, by id.
func (s *Store) eachTenant(ctx context.Context, use func(ledger.Tenant) error) error {
	for after := ""; ; {
		page, err := s.Ledger.ListTenants(ctx, after, listPage)
		if err != nil {
			return fmt.Errorf("list the tenants: %w", err)
		}
		for _, t := range page {
			if err := use(t); err != nil {
				return err
			}
			after = t.ID
		}
		if len(page) < listPage {
			return nil
		}
	}
}

// RefreshTenant returns a tenant's row as the ledger has it now. Another node may
// have off-boarded the tenant since this one read the row: the ledger decides
// every read and put by itself, and only what it cannot tell (an execution that
// has no row) needs the row.
func (s *Store) RefreshTenant(ctx context.Context, id string) (ledger.Tenant, error) {
	s.forgetTenant(id)
	return s.Tenant(ctx, id)
}

// living refuses what would make something new under a tenant.
func (s *Store) living(ctx context.Context, tenant string) error {
	t, err := s.Tenant(ctx, tenant)
	if err == nil && t.Fenced() {
		err = blobd.ErrTenantErased
	}
	return err
}

// unlessOffboarded turns the key service's word that a key is gone into that of
// the ledger, where another node off-boarded the tenant meanwhile.
func (s *Store) unlessOffboarded(ctx context.Context, tenant string, err error) error {
	if !errors.Is(err, blobd.ErrKeyMissing) {
		return err
	}
	if t, readErr := s.RefreshTenant(ctx, tenant); readErr == nil && t.Fenced() {
		return blobd.ErrTenantErased
	}
	return err
}

// kekDestroyedAt is when an off-boarded tenant's KEK was destroyed; zero: not yet,
// or the tenant lives.
func (s *Store) kekDestroyedAt(ctx context.Context, tenant string) (time.Time, error) {
	t, err := s.Ledger.Tenant(ctx, tenant)
	switch {
	case errors.Is(err, blobd.ErrNotFound) || err == nil && !t.Fenced():
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	}
	e, err := s.Ledger.Erasure(ctx, tenant, t.FencedBy)
	return e.Progress.KEKDestroyedAt, err
}

// destroyTenant drops every execution's key and destroys the KEK. What cannot be
// taken back is done only once the journal knows of the fence: a ledger that is
// rolled back must come back with the tenant fenced, and not without its KEK.
func (w *eraser) destroyTenant(ctx context.Context) error {
	if w.p.Settled {
		return nil
	}
	if err := w.Journal.Flush(ctx); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	// A second erasure of the tenant leaves them to the first, which counts them,
	// and ends after it.
	for more := w.job.Erasure.Fenced.AlreadyErased == 0; more; {
		if err := w.renew(ctx); err != nil {
			return err
		}
		var err error
		if w.job.Erasure.Fenced, more, err = w.Ledger.DropKeys(ctx, w.job.Lease, dropBatch); err != nil {
			return err
		}
	}
	if err := w.Keys.Destroy(ctx, w.tenant.ID); err != nil {
		return err
	}
	if w.p.KEKDestroyedAt.IsZero() {
		w.p.KEKDestroyedAt = w.Now().UTC().Truncate(time.Microsecond)
	}
	return nil
}

// lastPut is when the last put in scope may have begun. One in a tenant may begin
// on a node that has not heard of the fence, as long as there is a KEK to wrap a
// new execution's key.
func (w *eraser) lastPut() time.Time {
	last := w.job.Erasure.FencedAt
	if destroyed := w.p.KEKDestroyedAt; destroyed.After(last) {
		last = destroyed
	}
	return last
}

// erasingTenant reports whether the erasure of a whole tenant still runs.
func (v *verifier) erasingTenant(tag string) bool {
	t, err := blobd.ParseExecutionTag(tag)
	return err == nil && v.erasing[t]
}
