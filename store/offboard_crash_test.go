package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// TestOffboardingUnderLoad: while a tenant with puts and resolves under way is
// off-boarded, nothing of another tenant is refused or null, and nothing of the
// leaver is read that was asked for after the answer.
func TestOffboardingUnderLoad(t *testing.T) {
	d := newDiskParts(t, false)
	n := d.start(t)
	refs := n.makeLeaver(t)
	kept := n.mustPut(t, run, runText)
	var stop sync.WaitGroup
	done := make(chan struct{})
	fenced := make(chan struct{})
	for i := range 4 {
		stop.Add(2)
		go func() {
			defer stop.Done()
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				default:
				}
				n.wantText(t, run, kept.Ref, runText)
				if _, err := n.putText(t.Context(), fmt.Sprint(run, i), fmt.Sprint("text ", k)); err != nil {
					t.Errorf("another tenant's put: %v", err)
				}
			}
		}()
		go func() {
			defer stop.Done()
			execution := fmt.Sprint("leaver's ", i%3)
			for k := 0; ; k++ {
				over := false
				select {
				case <-done:
					return
				case <-fenced:
					over = true
				default:
				}
				text, null, err := n.resolveFor(t.Context(), leaver, execution, refs[execution])
				if err != nil || over && !null || !null && text != "second" {
					t.Errorf("resolve, off-boarded %v: %q, %v, %v", over, text, null, err)
				}
				_, err = n.putFor(t.Context(), leaver, fmt.Sprint("new ", i, k), "a text")
				if over || err != nil {
					wantErr(t, err, blobd.ErrErased)
				}
			}
		}()
	}
	e := n.mustOffboard(t)
	close(fenced)
	n.finishOffboarding(t)
	close(done)
	stop.Wait()
	if left := n.objectsOf(t, e); len(left) != 0 {
		t.Errorf("%d objects are left", len(left))
	}
	n.verify(t)
}

// crashOfOffboarding: after an acknowledged fence there is no text of the tenant,
// and both places of the journal know; after an unanswered one a repeat gets
// there. Other tenants notice nothing.
func crashOfOffboarding() crash {
	var refs map[string]blobd.Ref
	return crash{
		setup: func(t *testing.T, n *node) { refs = n.makeLeaver(t) },
		act:   func(t *testing.T, n *node) error { _, err := n.offboard(t.Context()); return err },
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				n.wantOffboarded(t, refs)
			}
			e := n.mustOffboard(t)
			n.wantOffboarded(t, refs)
			n.finishOffboarding(t)
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
		},
	}
}

// crashOfOffboardingJob: whatever fails, the KEK is not destroyed before the
// journal knows, no object goes before the KEK, keys do not count before it, and
// "erased" is said when nothing is left; and the job gets there by itself.
func crashOfOffboardingJob(last bool) crash {
	var refs map[string]blobd.Ref
	var e ledger.Erasure
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			refs = n.makeLeaver(t)
			e = n.mustOffboard(t)
			if last {
				if worked, err := n.erasures.RunOne(t.Context()); !worked || err != nil {
					t.Fatalf("the first pass: worked %v, %v", worked, err)
				}
				n.clock.advance(margin)
			}
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.erasures.RunOne(t.Context())
			return err
		},
		judge: func(t *testing.T, n *node, _ error) {
			got, err := n.parts.ledger.Erasure(t.Context(), leaver, e.ID)
			if err != nil {
				t.Fatal(err)
			}
			destroyed := n.kekDestroyed(t, leaver)
			if left := len(n.objectsOf(t, e)); left < 6 && !destroyed || left > 0 && got.State == ledger.ErasureErased {
				t.Errorf("%d objects, KEK destroyed: %v, %s", left, destroyed, got.State)
			}
			if got.Progress.KeysDestroyed > 0 && (!destroyed || got.Plan.Executions != 3) {
				t.Errorf("keys count as destroyed: %+v", got)
			}
			if destroyed {
				n.wantTenantJournalled(t)
			}
			n.wantOffboarded(t, refs)
			got = n.finishOffboarding(t)[0]
			if want := (ledger.Plan{Executions: 3, Blobs: 6, Bytes: 33}); got.Plan != want || got.Progress.KeysDestroyed != 6 {
				t.Errorf("the erasure ended as %+v", got)
			}
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
		},
	}
}

// TestARolledBackLedgerKeepsATenantOffboarded: the ledger comes back as it was
// before the off-boarding; the journal knows.
func TestARolledBackLedgerKeepsATenantOffboarded(t *testing.T) {
	for name, finished := range map[string]bool{"during the job": false, "after the job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDiskParts(t, true)
			n := d.start(t)
			refs := n.makeLeaver(t)
			kept := n.mustPut(t, run, runText)
			files := d.copyLedger(t)
			n = d.start(t)
			since := n.mustPutFor(t, leaver, "made after the copy", "a text")
			refs["made after the copy"] = since.Ref
			e := n.mustOffboard(t)
			if finished {
				n.finishOffboarding(t)
			}
			d.restoreLedger(t, files)

			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.wantText(t, run, kept.Ref, runText)
			es := n.finishOffboarding(t)
			if len(es) != 1 || es[0].ID != e.ID {
				t.Errorf("erasures %+v", es)
			}
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
			if r := n.verify(t); r.Missing != 0 {
				t.Errorf("%d rows are entered as missing in an off-boarded tenant", r.Missing)
			}
			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.wantText(t, run, kept.Ref, runText)
		})
	}
}

// TestATenantThatWasForgottenWhole: made and off-boarded after the copy, it comes
// back by its fence alone, and its objects go by the tag in the record.
func TestATenantThatWasForgottenWhole(t *testing.T) {
	for name, finished := range map[string]bool{"during the job": false, "after the job": true} {
		t.Run(name, func(t *testing.T) {
			d := newDiskParts(t, true)
			files := d.copyLedger(t)
			n := d.start(t)
			refs := n.makeLeaver(t)
			e := n.mustOffboard(t)
			if finished {
				n.finishOffboarding(t)
			}
			d.restoreLedger(t, files)

			n = d.start(t)
			n.wantOffboarded(t, refs)
			if id, err := d.ledger.Identity(t.Context(), "00000000000000000000000000000000"); err != nil || id.Recovery != ledger.RecoveryNone {
				t.Errorf("recovery %d, %v: the tenant counts as forgotten", id.Recovery, err)
			}
			n.mustOffboard(t) // asked for again, by an officer who is not sure
			n.finishOffboarding(t)
			if left := n.objectsOf(t, e); len(left) != 0 || !n.kekDestroyed(t, leaver) {
				t.Errorf("%d objects are left, KEK destroyed: %v", len(left), n.kekDestroyed(t, leaver))
			}
			n = d.start(t)
			n.wantOffboarded(t, refs)
			n.verify(t)
		})
	}
}

// TestOffboardingInAGap: where the ledger may have forgotten puts, a ref without a
// row is an error; in an off-boarded tenant it is null, on a node that has not
// heard of it too.
func TestOffboardingInAGap(t *testing.T) {
	p, _ := leaverParts(t)
	if err := p.ledger.SetRecovery(t.Context(), ledger.RecoveryGap, ledger.Entry{Kind: ledger.EntryRecovery}); err != nil {
		t.Fatal(err)
	}
	a, b := p.start(t), p.start(t)
	never := blobd.RefOf([]byte("never stored"))
	_, _, err := b.resolveFor(t.Context(), leaver, "never seen", never)
	wantErr(t, err, blobd.ErrMissing)
	a.mustOffboard(t)
	b.wantNullFor(t, leaver, "never seen", never)
	a.wantNullFor(t, leaver, "never seen", never)
	_, _, err = b.resolveFor(t.Context(), tenant, "never seen", never)
	wantErr(t, err, blobd.ErrMissing)
}
