package retention_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// TestAnOffboardedTenantHasNoEpochs: the schedule starts none, and what ran ends.
func TestAnOffboardedTenantHasNoEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		stop := run(r.epochs("a", schedule(t, "30 3 * * *")).Run)
		pass(4 * time.Hour)
		if es := r.listEpochs(t); len(es) != 1 || es[0].State != ledger.EpochWaiting {
			t.Fatalf("before: %+v", es)
		}
		if _, err := r.store.Erase(t.Context(), store.EraseRequest{Tenant: tenant, WholeTenant: true, Reason: "leaves"}); err != nil {
			t.Fatal(err)
		}
		erasures := run(r.erasures("a", time.Now).Run)
		pass(10 * 24 * time.Hour)
		if es := r.listEpochs(t); len(es) != 1 || es[0].State != ledger.EpochEnded || es[0].LastError != "" {
			t.Errorf("after: %+v", es)
		}
		es, err := r.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: tenant, Limit: 9})
		if err != nil || len(es) != 1 || es[0].State != ledger.ErasureErased {
			t.Errorf("erasures: %+v, %v", es, err)
		}
		_, _ = stop(), erasures()
	})
}

// TestALongDeletionKeepsItsLease: one call of the store may take many times as
// long as a lease, and no other node begins the job again meanwhile.
func TestALongDeletionKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		id := r.erase(t, "run")
		var held atomic.Bool
		r.objects.OnCall(func(op, _ string) {
			if op == "erase" && !held.Swap(true) {
				<-time.After(10 * retention.LeaseTime)
			}
		})
		stopA, stopB := run(r.erasures("a", time.Now).Run), run(r.erasures("b", time.Now).Run)
		pass(9 * retention.LeaseTime)
		if e := r.erasure(t, id); !held.Load() || e.Attempts != 1 || e.State != ledger.ErasureRunning {
			t.Errorf("meanwhile: %+v", e)
		}
		pass(3 * retention.LeaseTime)
		if e := r.erasure(t, id); e.State != ledger.ErasureErased {
			t.Errorf("at the end: %+v", e)
		}
		_, _ = stopA(), stopB()
	})
}

// TestAWorkerThatLostItsLeaseStops: it does not wait for the end of a step that
// another node does again.
func TestAWorkerThatLostItsLeaseStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, time.Now)
		r.put(t, "run")
		id := r.erase(t, "run")
		r.ledger.Fail("renew", 1, ledgerfaulty.Before, blobd.ErrConflict)
		ended := make(chan time.Duration, 1)
		var held atomic.Bool
		r.objects.OnCall(func(op, _ string) {
			if op == "erase" && !held.Swap(true) {
				<-time.After(retention.LeaseTime)
			}
		})
		began := time.Now()
		go func() {
			worked, err := r.erasures("a", time.Now).RunOne(context.Background())
			if !worked || err != nil {
				t.Errorf("worked %v, %v", worked, err)
			}
			ended <- time.Since(began)
		}()
		if took := <-ended; took > 2*retention.LeaseTime {
			t.Errorf("it took %v", took)
		}
		if e := r.erasure(t, id); e.State != ledger.ErasureRunning || e.Progress.LastError == "" {
			t.Errorf("the job: %+v", e)
		}
	})
}
