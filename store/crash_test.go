package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	keysfaulty "github.com/blobd/blobd/keys/faulty"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/store"
)

// call is one call of a dependency: the nth of that operation.
type call struct {
	dependency string
	op         string
	nth        int
}

func (c call) String() string { return fmt.Sprintf("%s %s #%d", c.dependency, c.op, c.nth) }

// onCall reports every call of every dependency, in order.
func (n *node) onCall(f func(call)) {
	var mu sync.Mutex
	count := make(map[call]int)
	seen := func(dependency, op string) {
		mu.Lock()
		defer mu.Unlock()
		c := call{dependency: dependency, op: op}
		count[c]++
		c.nth = count[c]
		f(c)
	}
	n.ledger.OnCall(func(op string) { seen("ledger", op) })
	n.objects.OnCall(func(op, _ string) { seen("objects", op) })
	n.keys.OnCall(func(op string) { seen("keys", op) })
	if n.second != nil {
		n.second.OnCall(func(op, _ string) { seen("second place", op) })
	}
}

// fail makes one call fail, before or after the dependency acted.
func (n *node) fail(c call, after bool, err error) {
	switch c.dependency {
	case "ledger":
		n.ledger.Fail(c.op, c.nth, when(after, ledgerfaulty.Before, ledgerfaulty.After), err)
	case "objects":
		n.objects.Fail(c.op, c.nth, when(after, backendfaulty.Before, backendfaulty.After), err)
	case "second place":
		n.second.Fail(c.op, c.nth, when(after, backendfaulty.Before, backendfaulty.After), err)
	case "keys":
		n.keys.Fail(c.op, c.nth, when(after, keysfaulty.Before, keysfaulty.After), err)
	}
}

func when[W any](after bool, before, afterwards W) W {
	if after {
		return afterwards
	}
	return before
}

// dieAfter makes every call from the given one on fail before it acts, as in a
// process that was killed there.
func (n *node) dieAfter(last call) {
	n.onCall(func(c call) {
		if c == last {
			n.die()
		}
	})
}

func (n *node) die() {
	const calls = 100 // more than any act makes
	for _, op := range []string{"put", "get", "list", "erase", "residue", "check"} {
		n.objects.Fail(op, 0, backendfaulty.Before, errKilled)
		if n.second != nil {
			n.second.Fail(op, 0, backendfaulty.Before, errKilled)
		}
	}
	for nth := range calls {
		n.ledger.Fail("", nth+1, ledgerfaulty.Before, errKilled)
		for _, op := range []string{"wrap", "unwrap", "create", "tenants"} {
			n.keys.Fail(op, nth+1, keysfaulty.Before, errKilled)
		}
	}
}

var (
	errKilled       = fmt.Errorf("killed: %w", blobd.ErrUnavailable)
	errDown         = fmt.Errorf("down: %w", blobd.ErrUnavailable)
	errUnclassified = errors.New("nobody knows what this is")
)

// crash is an act that is interrupted at every step. judge gets what the caller
// of the act was told, and a node that was started anew over the same parts.
type crash struct {
	setup func(t *testing.T, n *node)
	act   func(t *testing.T, n *node) error
	judge func(t *testing.T, n *node, told error)
	cold  bool // the act runs in a process without anything in memory
	// damaged: the act repairs what the scene damaged.
	damaged bool
}

const (
	bystander     = "bystander"
	bystanderText = "a text of an execution that nobody touches"
)

// TestCrashMatrix interrupts every act at every call of every dependency.
func TestCrashMatrix(t *testing.T) {
	for name, make := range crashes() {
		t.Run(name, func(t *testing.T) {
			calls := recordCalls(t, make())
			if len(calls) < 2 {
				t.Fatalf("only %d calls: the act did nothing", len(calls))
			}
			for _, c := range calls {
				for _, f := range []struct {
					name  string
					after bool
					err   error
				}{
					{"before it acted", false, errDown},
					{"after it acted", true, errDown},
					{"before it acted, unclassified", false, errUnclassified},
					{"after it acted, unclassified", true, errUnclassified},
				} {
					t.Run(c.String()+" failed "+f.name, func(t *testing.T) {
						make().run(t, func(n *node) { n.fail(c, f.after, f.err) })
					})
				}
				t.Run("killed after "+c.String(), func(t *testing.T) {
					make().run(t, func(n *node) { n.dieAfter(c) })
				})
			}
		})
	}
}

// prepare sets the scene and returns the node that acts.
func (c crash) prepare(t *testing.T) (*node, store.Stored) {
	t.Helper()
	n := memParts(t).start(t)
	kept := n.mustPut(t, bystander, bystanderText)
	if c.setup != nil {
		c.setup(t, n)
	}
	if c.cold {
		n = n.parts.start(t)
	}
	return n, kept
}

// recordCalls returns the calls of the act when nothing fails.
func recordCalls(t *testing.T, c crash) []call {
	t.Helper()
	n, _ := c.prepare(t)
	var calls []call
	n.onCall(func(c call) { calls = append(calls, c) })
	if err := c.act(t, n); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	n.onCall(func(call) {})
	c.judge(t, n.parts.start(t), nil)
	return calls
}

// run interrupts the act, starts anew and judges.
func (c crash) run(t *testing.T, arm func(*node)) {
	n, kept := c.prepare(t)
	arm(n)
	told := c.act(t, n)
	if told != nil && refusal(told) {
		t.Errorf("a fault was told as a refusal: %v", told)
	}
	n = n.parts.start(t)
	if !c.damaged || told == nil {
		n.verify(t)
	}
	c.judge(t, n, told)
	n.runJobs(t)
	n.verify(t)
	n.wantText(t, bystander, kept.Ref, bystanderText)
	n.wantNoOrphans(t)
}

// refusal reports whether an error claims that nothing changed.
func refusal(err error) bool {
	for _, e := range []error{
		blobd.ErrErased, blobd.ErrClosed, blobd.ErrConflict, blobd.ErrInvalid, blobd.ErrNotFound, blobd.ErrHeld,
		blobd.ErrPolicy, blobd.ErrDenied, blobd.ErrTooLarge, blobd.ErrExpired, blobd.ErrMissing, blobd.ErrCorrupt,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// wantNoOrphans: once the collector ran, every object has a live row.
func (n *node) wantNoOrphans(t *testing.T) {
	t.Helper()
	n.clock.advance(10 * margin)
	r, err := n.store.Verify(t.Context(), store.VerifyOptions{Repair: true})
	if err != nil {
		t.Fatalf("repair: %v", err)
	}
	if objects := len(n.sealedObjects(t, "")); int64(objects) != r.Live {
		t.Errorf("%d objects for %d live rows (%d orphans, %d collected)", objects, r.Live, r.Orphans, r.Repaired)
	}
}

func crashes() map[string]func() crash {
	return map[string]func() crash{
		"put, new execution":              func() crash { return crashOfPut(false, false, false, nil) },
		"put, known execution":            func() crash { return crashOfPut(false, true, false, nil) },
		"put, known execution, cold":      func() crash { return crashOfPut(true, true, false, nil) },
		"put again":                       func() crash { return crashOfPut(false, true, false, again) },
		"put again, cold":                 func() crash { return crashOfPut(true, true, false, again) },
		"put again, object lost":          func() crash { return crashOfPut(false, true, true, againLost) },
		"put again, object damaged":       func() crash { return crashOfPut(true, true, true, againDamaged) },
		"capture, new execution":          func() crash { return crashOfCapture(false) },
		"capture, known execution":        func() crash { return crashOfCapture(true) },
		"erase an execution":              func() crash { return crashOfErase(false, false) },
		"erase an execution never seen":   func() crash { return crashOfErase(false, true) },
		"erase refs":                      func() crash { return crashOfErase(true, false) },
		"second half, first pass":         func() crash { return crashOfSecondHalf(false, false) },
		"second half, last pass":          func() crash { return crashOfSecondHalf(false, true) },
		"second half of refs, first pass": func() crash { return crashOfSecondHalf(true, false) },
		"second half of refs, last pass":  func() crash { return crashOfSecondHalf(true, true) },
		"revoke a token":                  crashOfRevoke,
		"create a tenant":                 crashOfTenant,
		"collect":                         crashOfCollect,
	}
}

const (
	run     = "run"
	runText = "a text that is put while things fail"
	seed    = "a text that was there before"
)

func again(t *testing.T, n *node) { n.mustPut(t, run, runText) }

func againLost(t *testing.T, n *node) {
	again(t, n)
	n.loseObjects(t, run)
	n.mustPut(t, run, seed) // restored, so that Verify judges the act alone
}

func againDamaged(t *testing.T, n *node) {
	again(t, n)
	names := n.sealedObjects(t, run)
	n.loseObjects(t, run)
	for _, name := range names {
		if err := n.parts.objects.Put(t.Context(), name, []byte("damaged")); err != nil {
			t.Fatal(err)
		}
	}
	n.mustPut(t, run, seed)
}

func (n *node) loseObjects(t *testing.T, execution string) {
	t.Helper()
	if _, err := n.parts.objects.Erase(t.Context(), backends.Scope{Names: n.sealedObjects(t, execution)}); err != nil {
		t.Fatal(err)
	}
}

// crashOfPut: an acknowledged put resolves to its bytes; one that was not may
// have landed, and a repeat answers with one ref and leaves one live row.
func crashOfPut(cold, known, damaged bool, before func(*testing.T, *node)) crash {
	var stored store.Stored
	rows := 1
	c := crash{cold: cold, damaged: damaged}
	c.setup = func(t *testing.T, n *node) {
		if known {
			rows++
			n.mustPut(t, run, seed)
		}
		if before != nil {
			before(t, n)
		}
	}
	c.act = func(t *testing.T, n *node) (err error) {
		stored, err = n.putText(t.Context(), run, runText)
		return err
	}
	c.judge = func(t *testing.T, n *node, told error) {
		if told == nil {
			n.wantText(t, run, stored.Ref, runText)
		}
		repeat := n.mustPut(t, run, runText)
		if told == nil && (repeat.Ref != stored.Ref || repeat.Created) {
			t.Errorf("a repeat of an acknowledged put: same ref %v, created %v", repeat.Ref == stored.Ref, repeat.Created)
		}
		n.wantText(t, run, repeat.Ref, runText)
		if live := n.liveRows(t, run); live != rows {
			t.Errorf("%d live rows, want %d", live, rows)
		}
	}
	return c
}

var captured = []string{"first part", "second part", "third part"}

// crashOfCapture: all parts or none.
func crashOfCapture(known bool) crash {
	var parts []store.CapturedPart
	rows := 0
	return crash{
		setup: func(t *testing.T, n *node) {
			if known {
				rows = 1
				n.mustPut(t, run, seed)
			}
		},
		act: func(t *testing.T, n *node) (err error) {
			parts, err = n.captureTexts(t.Context(), run, captured...)
			return err
		},
		judge: func(t *testing.T, n *node, told error) {
			if live := n.liveRows(t, run); live != rows+len(captured) && (told == nil || live != rows) {
				t.Errorf("%d live rows: neither all parts nor none (told %v)", live, told)
			}
			for i, p := range parts {
				n.wantText(t, run, p.Stored.Ref, captured[i])
			}
			repeat, err := n.captureTexts(t.Context(), run, captured...)
			if err != nil {
				t.Fatalf("repeat: %v", err)
			}
			for i, p := range repeat {
				n.wantText(t, run, p.Stored.Ref, captured[i])
				if told == nil && p.Stored.Ref != parts[i].Stored.Ref {
					t.Errorf("a repeat of part %d has another ref", i)
				}
			}
			if live := n.liveRows(t, run); live != rows+len(captured) {
				t.Errorf("%d live rows after the repeat, want %d", live, rows+len(captured))
			}
		},
	}
}

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
