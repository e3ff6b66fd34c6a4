package store_test

import (
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendmem "github.com/blobd/blobd/backends/mem"
	keysmem "github.com/blobd/blobd/keys/mem"
	ledgermem "github.com/blobd/blobd/ledger/mem"
)

// TestStoreAndLedgerMustBelongTogether: where they do not, nothing is served
// and nothing is null.
func TestStoreAndLedgerMustBelongTogether(t *testing.T) {
	for name, swap := range map[string]func(t *testing.T, p *parts){
		"another deployment's store": func(t *testing.T, p *parts) { p.objects = memParts(t).objects },
		"an empty store":             func(t *testing.T, p *parts) { p.objects = backendmem.New(p.clock.Now) },
		"an emptied store": func(t *testing.T, p *parts) {
			for _, scope := range []backends.Scope{{Names: []string{backends.IdentityName}}, {Prefix: backends.JournalPrefix}} {
				if _, err := p.objects.Erase(t.Context(), scope); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a new ledger": func(t *testing.T, p *parts) { p.ledger = ledgermem.New(p.clock.Now) },
		"a new ledger alone": func(t *testing.T, p *parts) {
			p.ledger, p.keys = ledgermem.New(p.clock.Now), keysmem.New(nil)
		},
		"a new ledger and an empty store, keys in use": func(t *testing.T, p *parts) {
			p.ledger, p.objects = ledgermem.New(p.clock.Now), backendmem.New(p.clock.Now)
		},
		"no second place any more":          func(_ *testing.T, p *parts) { p.second = nil },
		"an empty second place":             func(_ *testing.T, p *parts) { p.second = backendmem.New(p.clock.Now) },
		"another deployment's second place": func(t *testing.T, p *parts) { p.second = memParts(t).second },
		"a new ledger and a store that lost its identity": func(t *testing.T, p *parts) {
			p.ledger, p.keys = ledgermem.New(p.clock.Now), keysmem.New(nil)
			if _, err := p.objects.Erase(t.Context(), backends.Scope{Names: []string{backends.IdentityName}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			stored := p.start(t).mustPut(t, run, runText)
			swap(t, p)
			n := p.boot()
			for range 2 { // asking again does not help
				wantErr(t, n.store.Start(t.Context()), blobd.ErrConflict)
				_, err := n.resolve(t.Context(), run, stored.Ref)
				wantErr(t, err, blobd.ErrUnavailable)
				_, err = n.putText(t.Context(), run, runText)
				wantErr(t, err, blobd.ErrUnavailable)
			}
		})
	}
}

// TestFirstStartCrashMatrix interrupts the first start at every call.
func TestFirstStartCrashMatrix(t *testing.T) {
	n := bareParts().boot()
	var calls []call
	n.onCall(func(c call) { calls = append(calls, c) })
	if err := n.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		for _, arm := range []func(*node){
			func(n *node) { n.fail(c, false, errDown) },
			func(n *node) { n.fail(c, true, errUnclassified) },
			func(n *node) { n.dieAfter(c) },
		} {
			p := bareParts()
			n := p.boot()
			arm(n)
			_ = n.store.Start(t.Context())
			n = p.start(t)
			n.createTenant(t, tenant)
			stored := n.mustPut(t, run, runText)
			p.start(t).wantText(t, run, stored.Ref, runText)
		}
	}
}

// TestJournalInOneStoreOnly: without a second place the store alone tells of a
// rolled-back ledger.
func TestJournalInOneStoreOnly(t *testing.T) {
	h := &history{diskParts: newDiskParts(t, false)}
	h.happen(t, false)
	h.judge(t, h.start(t))
}

// TestSecondPlaceIsFilled: a second place that is new gets the whole journal,
// and from then on tells of a rollback of everything else.
func TestSecondPlaceIsFilled(t *testing.T) {
	p := bareParts()
	p.second = nil
	n := p.start(t)
	n.createTenant(t, tenant)
	n.mustPut(t, run, runText)
	n.mustErase(t, run)
	p.second = backendmem.New(p.clock.Now)
	p.start(t)
	if got, want := len(journalRecords(t, p.second)), len(journalRecords(t, p.objects)); got != want || want == 0 {
		t.Errorf("the second place has %d records, the store %d", got, want)
	}
}

// TestKeysOfAnotherDeployment: a key service that cannot open what the ledger
// holds is not written under, and makes no nulls.
func TestKeysOfAnotherDeployment(t *testing.T) {
	for name, other := range map[string]func(t *testing.T) *parts{
		"empty":                func(*testing.T) *parts { return bareParts() },
		"another deployment's": func(t *testing.T) *parts { return memParts(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			stored := p.start(t).mustPut(t, run, runText)
			mine := p.keys
			p.keys = other(t).keys
			n := p.boot()
			if err := n.store.Start(t.Context()); err == nil {
				t.Error("started with keys that are not ours")
			}
			_, err := n.resolve(t.Context(), run, stored.Ref)
			wantErr(t, err, blobd.ErrUnavailable)
			_, err = n.putText(t.Context(), run, runText)
			wantErr(t, err, blobd.ErrUnavailable)
			p.keys = mine
			p.start(t).wantText(t, run, stored.Ref, runText)
		})
	}
}
