package retention_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobd/blobd/ledger"
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
