package store_test

import (
	"testing"
	"time"

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

// TestStoreEmptiedUnderTheService: while the identity is gone or another's, a
// missing object is no fault of one blob, no erasure is proved, and readiness
// says so; once the right store is back all goes on.
func TestStoreEmptiedUnderTheService(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, objects backends.Store){
		"emptied": func(*testing.T, backends.Store) {},
		"another deployment's": func(t *testing.T, objects backends.Store) {
			if err := objects.Put(t.Context(), backends.IdentityName, []byte("00000000000000000000000000000000")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			first := p.start(t)
			lost, kept := first.mustPut(t, run, runText), first.mustPut(t, "other", "another thought")
			n := p.start(t) // nothing in memory
			id, err := p.objects.Get(t.Context(), backends.IdentityName)
			if err != nil {
				t.Fatal(err)
			}
			n.loseObjects(t, run)
			if _, err := p.objects.Erase(t.Context(), backends.Scope{Names: []string{backends.IdentityName}}); err != nil {
				t.Fatal(err)
			}
			lose(t, p.objects)

			_, err = n.resolve(t.Context(), run, lost.Ref)
			wantErr(t, err, blobd.ErrUnavailable)
			n.wantReady(t, "objects", false)
			_, err = n.erase(t.Context(), "other") // fenced, and not journalled
			wantErr(t, err, blobd.ErrUnavailable)
			for range 5 {
				n.clock.advance(10 * time.Minute)
				if _, err := n.erasures.RunOne(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if open := n.openErasures(t); open != 1 {
				t.Errorf("%d open erasures: one was finished against a store that is not ours", open)
			}

			if _, err := p.objects.Erase(t.Context(), backends.Scope{Names: []string{backends.IdentityName}}); err != nil {
				t.Fatal(err)
			}
			if err := p.objects.Put(t.Context(), backends.IdentityName, id); err != nil {
				t.Fatal(err)
			}
			n.wantReady(t, "objects", true)
			_, err = n.resolve(t.Context(), run, lost.Ref)
			wantErr(t, err, blobd.ErrMissing)
			n.wantNull(t, "other", kept.Ref)
			n.clock.advance(10 * time.Minute)
			n.runJobs(t)
		})
	}
}

func (n *node) wantReady(t *testing.T, name string, want bool) {
	t.Helper()
	for _, d := range n.store.Ready(t.Context()) {
		if d.Name == name && (d.Err == nil) != want {
			t.Errorf("readiness of %s: %v", name, d.Err)
		}
	}
}

// TestNothingIsAcknowledgedIntoAnotherStore: while another store answers, puts,
// repeats, captures and erasures are errors; an erasure that was committed
// meanwhile is journalled in the right store once it is back.
func TestNothingIsAcknowledgedIntoAnotherStore(t *testing.T) {
	p := memParts(t)
	right := p.objects
	swapped := &swappedStore{Store: right}
	p.objects = swapped
	n := p.start(t)
	kept := n.mustPut(t, run, runText)
	before := len(journalRecords(t, right))

	swapped.Store = backendmem.New(p.clock.Now)
	if err := swapped.Put(t.Context(), backends.IdentityName, []byte("00000000000000000000000000000000")); err != nil {
		t.Fatal(err)
	}
	n.clock.advance(2 * time.Second)
	_, err := n.putText(t.Context(), run, "another")
	wantErr(t, err, blobd.ErrUnavailable)
	_, err = n.putText(t.Context(), run, runText)
	wantErr(t, err, blobd.ErrUnavailable)
	_, err = n.captureTexts(t.Context(), run, "third")
	wantErr(t, err, blobd.ErrUnavailable)
	_, err = n.erase(t.Context(), "other")
	wantErr(t, err, blobd.ErrUnavailable)

	swapped.Store = right
	n.wantText(t, run, kept.Ref, runText)
	n.mustPut(t, run, "another")
	n.mustErase(t, "other")
	if got := len(journalRecords(t, right)); got <= before {
		t.Errorf("%d records in the right store, %d before the erasure", got, before)
	}
	n.runJobs(t)
	n.verify(t)
}

// swappedStore is a store that another can be put in the place of.
type swappedStore struct{ backends.Store }
