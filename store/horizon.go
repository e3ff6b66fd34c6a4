package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// Horizon says from when on no older backup of the ledger can open what an
// erasure erased.
type Horizon struct {
	At      time.Time // zero: no epoch was completed since, so there is no date yet
	Reached bool      // the KEK versions that older backups need are destroyed
}

// Horizon returns the horizon of an erasure. The date is about the ledger's
// backups alone: who has a copy of the KEK as well (a keyring in the same backup,
// a snapshot of the key service) has until that copy is gone.
func (s *Store) Horizon(ctx context.Context, e ledger.Erasure) (Horizon, error) {
	var epochs []ledger.Epoch
	err := s.eachEpoch(ctx, e.Scope.Tenant, func(e ledger.Epoch) { epochs = append(epochs, e) })
	if err != nil {
		return Horizon{}, fmt.Errorf("horizon: %w", err)
	}
	h := horizonOf(epochs, e.Wrap)
	if h.Reached {
		return h, nil
	}
	destroyed, err := s.kekDestroyedAt(ctx, e.Scope.Tenant)
	if err != nil {
		return Horizon{}, fmt.Errorf("horizon: %w", err)
	}
	if !destroyed.IsZero() { // all versions went at once
		h = Horizon{At: destroyed, Reached: true}
	}
	return h, nil
}

// horizonOf is the earliest time at which an epoch ends every KEK version up to
// wrap.
func horizonOf(epochs []ledger.Epoch, wrap uint32) (h Horizon) {
	for _, e := range epochs {
		if e.Version <= wrap || e.CompletedAt.IsZero() {
			continue
		}
		reached, at := !e.TrimmedAt.IsZero(), e.TrimAt
		if reached {
			at = e.TrimmedAt
		}
		if h.At.IsZero() || reached && !h.Reached || reached == h.Reached && at.Before(h.At) {
			h = Horizon{at, reached}
		}
	}
	return h
}

// eachEpoch lists a tenant's epochs, newest first.
func (s *Store) eachEpoch(ctx context.Context, tenant string, use func(ledger.Epoch)) error {
	q := ledger.EpochQuery{Tenant: tenant, Limit: listPage}
	for {
		page, err := s.Ledger.ListEpochs(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page {
			use(e)
			q.Before = ledger.EpochCursor{StartedAt: e.StartedAt, ID: e.ID}
		}
		if len(page) < listPage {
			return nil
		}
	}
}

// KeyStatus says where a tenant's keys stand.
type KeyStatus struct {
	Tenant      string
	Newest      keys.Version // of the KEK
	Oldest      keys.Version // that still opens
	MinimumWrap uint32       // the oldest that a new key may be wrapped by
	FencedAt    time.Time    // when the tenant was off-boarded; zero: it was not
	DestroyedAt time.Time    // when its KEK was destroyed then; zero: not yet
	Epochs      []ledger.Epoch
	// Erasures, by what older backups of the ledger can do.
	Closed  int64     // no longer open them
	Dated   int64     // open them until their date
	Undated int64     // open them until an epoch gave them a date
	Latest  time.Time // the last of the dates
}

// KeyStatus asks key service and ledger about a tenant.
func (s *Store) KeyStatus(ctx context.Context, tenant string) (KeyStatus, error) {
	t, err := s.Ledger.Tenant(ctx, tenant)
	if err != nil {
		return KeyStatus{}, fmt.Errorf("key status: %w", err)
	}
	k := KeyStatus{Tenant: tenant, MinimumWrap: t.MinimumWrap, FencedAt: t.FencedAt}
	if t.Fenced() {
		k.DestroyedAt, err = s.kekDestroyedAt(ctx, tenant)
	} else {
		var status keys.Status
		status, err = s.Keys.Ring().Status(ctx, tenant)
		k.Newest, k.Oldest = status.Newest, status.Oldest
	}
	if err != nil {
		return KeyStatus{}, fmt.Errorf("key status: %w", err)
	}
	if err := s.eachEpoch(ctx, tenant, func(e ledger.Epoch) { k.Epochs = append(k.Epochs, e) }); err != nil {
		return KeyStatus{}, fmt.Errorf("key status: %w", err)
	}
	q := ledger.ErasureQuery{Tenant: tenant, Limit: listPage}
	for {
		page, err := s.Ledger.ListErasures(ctx, q)
		if err != nil {
			return KeyStatus{}, fmt.Errorf("key status: %w", err)
		}
		for _, e := range page {
			if h := horizonOf(k.Epochs, e.Wrap); !k.DestroyedAt.IsZero() {
				k.count(Horizon{At: k.DestroyedAt, Reached: true})
			} else {
				k.count(h)
			}
			q.Before = ledger.ErasureCursor{FencedAt: e.FencedAt, ID: e.ID}
		}
		if len(page) < listPage {
			return k, nil
		}
	}
}

func (k *KeyStatus) count(h Horizon) {
	switch {
	case h.Reached:
		k.Closed++
	case h.At.IsZero():
		k.Undated++
	default:
		k.Dated++
		if h.At.After(k.Latest) {
			k.Latest = h.At
		}
	}
}

// BackupReport says what a backup of the ledger could still open, with the key
// service and the living ledger at hand.
type BackupReport struct {
	Executions int64 // of which the backup holds keys
	Opens      int64 // of these, those whose key can still be unwrapped
	// Of what Opens covers, what was erased since:
	ErasedExecutions int64
	ErasedBlobs      int64
}

// CompareBackup looks at an older ledger of this deployment. It changes nothing
// in either.
func (s *Store) CompareBackup(ctx context.Context, old ledger.Ledger) (BackupReport, error) {
	b := comparison{Store: s, old: old}
	for after := ""; ; {
		tenants, err := old.ListTenants(ctx, after, listPage)
		if err != nil {
			return b.report, fmt.Errorf("compare a backup: %w", err)
		}
		for _, t := range tenants {
			if err := b.tenant(ctx, t.ID); err != nil {
				return b.report, fmt.Errorf("compare a backup: tenant %q: %w", t.ID, err)
			}
			after = t.ID
		}
		if len(tenants) < listPage {
			return b.report, nil
		}
	}
}

type comparison struct {
	*Store
	old    ledger.Ledger
	report BackupReport
}

func (b *comparison) tenant(ctx context.Context, tenant string) error {
	status, err := b.Keys.Ring().Status(ctx, tenant)
	destroyed := errors.Is(err, blobd.ErrErased)
	if err != nil && !destroyed {
		return err
	}
	q := ledger.WrapQuery{Tenant: tenant, Below: math.MaxInt32, Limit: verifyPage}
	for {
		page, err := b.old.Wraps(ctx, q)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, wrap := range page {
			q.After = ledger.ExecutionCursor{CreatedAt: wrap.CreatedAt, Tag: wrap.Tag}
			if wrap.Tag == (blobd.ExecutionTag{}) {
				continue
			}
			opens := !destroyed && keys.Version(wrap.Key.Version) >= status.Oldest
			if err := b.execution(ctx, tenant, wrap, opens); err != nil {
				return err
			}
		}
		if len(page) < verifyPage {
			return nil
		}
	}
}

// execution counts one of the backup's executions. Its blobs are opened by its
// key as the backup has it, or as the living ledger has it if it is the same.
func (b *comparison) execution(ctx context.Context, tenant string, wrap ledger.Wrap, opens bool) error {
	b.report.Executions++
	now, err := b.Ledger.Execution(ctx, tenant, wrap.Tag)
	if err != nil && !errors.Is(err, blobd.ErrNotFound) {
		return err
	}
	sameKey := err == nil && now.Key != nil && now.Key.ID == wrap.Key.ID
	if !opens && !sameKey {
		return nil
	}
	b.report.Opens++
	if err == nil && now.State == ledger.ExecutionErased {
		b.report.ErasedExecutions++
		return nil
	}
	return b.blobs(ctx, wrap.Tag)
}

// blobs counts the blobs of an execution that the backup has keys of and that
// the living ledger erased.
func (b *comparison) blobs(ctx context.Context, tag blobd.ExecutionTag) error {
	for after := (ledger.Position{Tag: tag}); ; {
		rows, err := b.old.ScanBlobs(ctx, after, verifyPage)
		if err != nil {
			return err
		}
		var refs []blobd.Ref
		for _, row := range rows {
			after = row.Position
			if row.Tag == tag && row.Blob.WrappedKey != nil {
				refs = append(refs, row.Ref)
			}
		}
		if len(refs) > 0 {
			view, err := b.Ledger.Lookup(ctx, tag, refs)
			if err != nil {
				return err
			}
			for _, row := range view.Blobs {
				if row != nil && row.State == ledger.BlobErased {
					b.report.ErasedBlobs++
				}
			}
		}
		if len(rows) < verifyPage || after.Tag != tag {
			return nil
		}
	}
}
