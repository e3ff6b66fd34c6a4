package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
)

// lockedStore keeps every sealed object until a date, as a bucket with Object
// Lock does.
type lockedStore struct {
	backends.Store
	until time.Time
	now   func() time.Time
}

func (s *lockedStore) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	if !s.now().Before(s.until) || scope.Prefix == "" {
		return s.Store.Erase(ctx, scope)
	}
	left, err := s.Store.Residue(ctx, scope, 1000)
	var erased backends.Erased
	for _, o := range left {
		erased.Refused = append(erased.Refused, backends.Refusal{Name: o.Name, Version: "v1", Reason: "COMPLIANCE", Until: s.until})
	}
	return erased, err
}

// TestErasureOfLockedObjects: the keys go at once and every read is null, the
// erasure tells what the store keeps and until when and never says erased; once
// the lock is over it finishes by itself.
func TestErasureOfLockedObjects(t *testing.T) {
	p := memParts(t)
	until := p.clock.Now().Add(48 * time.Hour).UTC()
	p.objects = &lockedStore{p.objects, until, p.clock.Now}
	n := p.start(t)
	stored := n.mustPut(t, run, runText)
	e := n.mustErase(t, run)
	for range 5 {
		if _, err := n.erasures.RunOne(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.clock.advance(time.Hour)
	}
	n.wantNull(t, run, stored.Ref)
	e, err := p.ledger.Erasure(t.Context(), tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if e.Stands() != ledger.ErasurePartial || !e.Progress.Settled || e.Progress.KeysDestroyed != 1 || e.Progress.Failed != 1 {
		t.Errorf("state %s, progress %+v", e.Stands(), e.Progress)
	}
	want := ledger.Refused{Ref: stored.Ref, Version: "v1", Reason: "COMPLIANCE", Until: until}
	if len(e.Progress.Refused) != 1 || e.Progress.Refused[0] != want {
		t.Errorf("refused %+v, want %+v", e.Progress.Refused, want)
	}

	n.clock.advance(48 * time.Hour)
	n.runJobs(t)
	e, err = p.ledger.Erasure(t.Context(), tenant, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if e.Stands() != ledger.ErasureErased || e.Progress.Failed != 0 || len(e.Progress.Refused) != 0 {
		t.Errorf("state %s, progress %+v", e.Stands(), e.Progress)
	}
	if left := n.sealedObjects(t, run); len(left) != 0 {
		t.Errorf("objects left: %q", left)
	}
	_, err = n.putText(t.Context(), run, runText)
	wantErr(t, err, blobd.ErrErased)
}
