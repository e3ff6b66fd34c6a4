package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/store"
)

// crashOfErase: after an acknowledged fence there is no text, and both places
// of the journal know; after an unanswered one a repeat gets there.
func crashOfErase(ofRefs, unseen bool) crash {
	var gone, stays store.Stored
	var refs []blobd.Ref
	return crash{
		setup: func(t *testing.T, n *node) {
			if unseen {
				return
			}
			gone, stays = n.mustPut(t, run, runText), n.mustPut(t, run, seed)
			if ofRefs {
				refs = []blobd.Ref{gone.Ref}
			}
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.erase(t.Context(), run, refs...)
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if told == nil {
				n.wantErased(t, gone.Ref, ofRefs)
			}
			n.runJobs(t) // what landed of an unanswered erasure finishes by itself
			n.verify(t)
			n.mustErase(t, run, refs...)
			n.wantErased(t, gone.Ref, ofRefs)
			if ofRefs {
				n.wantText(t, run, stays.Ref, seed)
			}
			n.runJobs(t)
			want := 0
			if ofRefs {
				want = 1
			}
			if left := n.sealedObjects(t, run); len(left) != want {
				t.Errorf("%d objects are left, want %d", len(left), want)
			}
		},
	}
}

// wantErased: null, refused, and in the journal.
func (n *node) wantErased(t *testing.T, ref blobd.Ref, ofRefs bool) {
	t.Helper()
	n.wantNull(t, run, ref)
	want, kind := blobd.ErrErased, ledger.RecordFence
	if ofRefs {
		want, kind = blobd.ErrBlobErased, ledger.RecordErase
	}
	_, err := n.putText(t.Context(), run, runText)
	wantErr(t, err, want)
	for place, s := range map[string]backends.Store{"the store": n.parts.objects, "the second place": n.parts.second} {
		found := slices.ContainsFunc(journalRecords(t, s), func(r ledger.Record) bool {
			return r.Kind == kind && r.Tag == n.tag(t, run) && (!ofRefs || slices.Contains(r.Refs, ref))
		})
		if !found {
			t.Errorf("the journal in %s does not know of the erasure", place)
		}
	}
}

func journalRecords(t *testing.T, s backends.Store) []ledger.Record {
	t.Helper()
	objects, err := s.List(t.Context(), backends.JournalPrefix, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var records []ledger.Record
	for _, o := range objects {
		body, err := s.Get(t.Context(), o.Name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ledger.DecodeRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// crashOfSecondHalf: whatever fails, "erased" is said only when nothing is left,
// and the job gets there by itself.
func crashOfSecondHalf(ofRefs, last bool) crash {
	var stored []store.Stored
	var id string
	return crash{
		cold: true,
		setup: func(t *testing.T, n *node) {
			for i := range 3 {
				stored = append(stored, n.mustPut(t, run, fmt.Sprint("text ", i)))
			}
			var refs []blobd.Ref
			if ofRefs {
				refs = []blobd.Ref{stored[0].Ref, stored[1].Ref}
			}
			id = n.mustErase(t, run, refs...).ID
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
		judge: func(t *testing.T, n *node, told error) {
			left := 0
			if ofRefs {
				left = 1
			}
			state := func() ledger.ErasureState {
				e, err := n.parts.ledger.Erasure(t.Context(), tenant, id)
				if err != nil {
					t.Fatal(err)
				}
				return e.State
			}
			if state() == ledger.ErasureErased && len(n.sealedObjects(t, run)) != left {
				t.Error("erased was said while objects are there")
			}
			n.runJobs(t)
			if state() != ledger.ErasureErased {
				t.Errorf("the erasure ended as %s", state())
			}
			if objects := n.sealedObjects(t, run); len(objects) != left {
				t.Errorf("%d objects are left, want %d", len(objects), left)
			}
			for i, s := range stored {
				if ofRefs && i == 2 {
					n.wantText(t, run, s.Ref, "text 2")
					continue
				}
				n.wantNull(t, run, s.Ref)
			}
		},
	}
}

// crashOfRevoke: an acknowledged revocation is in both places of the journal,
// also when it was acknowledged only at the second asking.
func crashOfRevoke() crash {
	var token string
	var row ledger.Token
	return crash{
		setup: func(t *testing.T, n *node) {
			var err error
			token, row, err = n.store.CreateToken(t.Context(), store.NewToken{Tenant: tenant, Name: "t", Roles: []string{"runtime"}})
			if err != nil {
				t.Fatal(err)
			}
		},
		act: func(t *testing.T, n *node) error {
			err := n.store.RevokeToken(t.Context(), tenant, row.ID, "token")
			if err != nil {
				err = n.store.RevokeToken(t.Context(), tenant, row.ID, "token")
			}
			if err == nil {
				n.wantRevoked(t, row.ID)
			}
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if err := n.store.RevokeToken(t.Context(), tenant, row.ID, "token"); err != nil {
				t.Fatalf("repeat: %v", err)
			}
			n.wantRevoked(t, row.ID)
			_, err := n.parts.ledger.TokenByHash(t.Context(), store.HashToken(token))
			wantErr(t, err, blobd.ErrNotFound)
		},
	}
}

func (n *node) wantRevoked(t *testing.T, id string) {
	t.Helper()
	for place, s := range map[string]backends.Store{"the store": n.parts.objects, "the second place": n.parts.second} {
		if !slices.ContainsFunc(journalRecords(t, s), func(r ledger.Record) bool { return r.Kind == ledger.RecordRevoke && r.TokenID == id }) {
			t.Errorf("the revocation was acknowledged and the journal in %s does not know of it", place)
		}
	}
}

// crashOfTenant: a half-made tenant does not exist, and can be made again.
func crashOfTenant() crash {
	return crash{
		act: func(t *testing.T, n *node) error {
			_, err := n.store.CreateTenant(t.Context(), "second", "token")
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			_, err := n.store.CreateTenant(t.Context(), "second", "token")
			if told == nil {
				wantErr(t, err, blobd.ErrConflict)
			} else if err != nil && !errors.Is(err, blobd.ErrConflict) {
				t.Errorf("repeat: %v", err)
			}
			a := attempt(run)
			a.Tenant = "second"
			_, err = n.store.Put(t.Context(), store.PutRequest{Attempt: a, Subjects: []string{"someone"}, Content: store.Content{
				Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("a text")),
			}})
			if err != nil {
				t.Errorf("put for the tenant: %v", err)
			}
		},
	}
}

// crashOfCollect: collecting an orphan never touches what has a row.
func crashOfCollect() crash {
	return crash{
		setup: func(t *testing.T, n *node) {
			n.mustPut(t, run, runText)
			n.objects.Fail("erase", 1, backendfaulty.Before, errDown)
			n.ledger.Fail("commit", 1, ledgerfaulty.Before, blobd.ErrErased) // refused, and its own object stays
			if _, err := n.putText(t.Context(), run, "never committed"); !errors.Is(err, blobd.ErrErased) {
				t.Fatalf("put: %v", err)
			}
			n.clock.advance(time.Hour)
		},
		act: func(t *testing.T, n *node) error {
			_, err := n.store.Verify(t.Context(), store.VerifyOptions{Repair: true})
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if live := n.liveRows(t, run); live != 1 {
				t.Errorf("%d live rows, want 1", live)
			}
			if objects := len(n.sealedObjects(t, run)); told == nil && objects != 1 {
				t.Errorf("%d objects after the collector, want 1", objects)
			}
		},
	}
}
