package store_test

import (
	"testing"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/store"
)

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
