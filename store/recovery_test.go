package store_test

import (
	"testing"

	"github.com/blobd/blobd"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// TestAKillBeforeTheFirstMarkIsKnown: a run that ends before it journals any mark
// is known by its start, so what it put is an error and no null.
func TestAKillBeforeTheFirstMarkIsKnown(t *testing.T) {
	d := newDiskParts(t, false)
	old := d.start(t).mustPut(t, oldRun, "old")
	files := d.copyLedger(t)
	late := d.start(t).mustPut(t, oldRun, "late")
	d.restoreLedger(t, files)

	n := d.start(t)
	n.wantText(t, oldRun, old.Ref, "old")
	_, err := n.resolve(t.Context(), oldRun, late.Ref)
	wantErr(t, err, blobd.ErrMissing)

	if accepted, err := n.store.AcceptMissing(t.Context(), "operator"); err != nil || accepted != 1 {
		t.Fatalf("accepted %d, %v, want 1", accepted, err)
	}
	n.wantNull(t, oldRun, late.Ref)
	n.wantText(t, oldRun, old.Ref, "old")
}

// TestAnothersKeysAreRefused: what another key service would wrap now could never
// be opened with the right one.
func TestAnothersKeysAreRefused(t *testing.T) {
	p := memParts(t)
	ours := p.keys
	stored := p.start(t).mustPut(t, oldRun, "old")
	foreign := keysmem.New(nil)
	if err := foreign.Create(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	p.keys = foreign
	n := p.boot()
	if err := n.store.Start(t.Context()); err == nil {
		t.Fatal("started with another deployment's keys")
	}
	_, err := n.putText(t.Context(), newRun, "new")
	wantErr(t, err, blobd.ErrUnavailable)
	p.keys = ours
	p.start(t).wantText(t, oldRun, stored.Ref, "old")
}

// TestAForgottenTenantIsNotMadeAgain: a tenant's tags cannot be made again, so its
// objects make every absence doubtful, and a new row under its id would make them
// all null.
func TestAForgottenTenantIsNotMadeAgain(t *testing.T) {
	const forgotten = "forgotten"
	d := newDiskParts(t, false)
	files := d.copyLedger(t)
	n := d.start(t)
	n.createTenant(t, forgotten)
	a := attempt(oldRun)
	a.Tenant = forgotten
	_, err := n.store.Put(t.Context(), store.PutRequest{Attempt: a, Content: store.Content{
		Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("theirs")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.restoreLedger(t, files)

	n = d.start(t)
	_, err = n.store.CreateTenant(t.Context(), forgotten, "")
	wantErr(t, err, blobd.ErrConflict)
	never := blobd.RefOf([]byte("never stored"))
	_, err = n.resolve(t.Context(), oldRun, never)
	wantErr(t, err, blobd.ErrMissing)
	if id, err := d.ledger.Identity(t.Context(), "00000000000000000000000000000000"); err != nil || id.Recovery != ledger.RecoveryGap {
		t.Errorf("recovery %d, %v, want a gap", id.Recovery, err)
	}
	if err := n.store.AcceptGap(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.wantNull(t, oldRun, never)
}

// TestATenantThatACrashLeftHalfMadeIsMade: a KEK without a row, and nothing stored.
func TestATenantThatACrashLeftHalfMadeIsMade(t *testing.T) {
	p := memParts(t)
	if err := p.keys.Create(t.Context(), "half"); err != nil {
		t.Fatal(err)
	}
	n := p.start(t)
	n.mustPut(t, oldRun, "another tenant's")
	n.createTenant(t, "half")
}
