package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/resolver"
)

// TestNoFaultMakesANull: whatever a dependency says or fails to say, a live
// text is its bytes or an error.
func TestNoFaultMakesANull(t *testing.T) {
	errs := []error{
		errDown, errUnclassified, context.DeadlineExceeded, context.Canceled,
		fmt.Errorf("403: %w", blobd.ErrDenied), fmt.Errorf("404: %w", blobd.ErrNotFound),
		fmt.Errorf("gone: %w", blobd.ErrErased), fmt.Errorf("bytes: %w", blobd.ErrCorrupt),
	}
	digest := blobd.DigestOf([]byte(runText))
	for name, read := range map[string]func(t *testing.T, n *node, ref blobd.Ref) (null bool, err error){
		"resolve": func(t *testing.T, n *node, ref blobd.Ref) (bool, error) {
			got, err := n.resolve(t.Context(), run, ref)
			return err == nil && got[0] == nil, err
		},
		"expected digest": func(t *testing.T, n *node, ref blobd.Ref) (bool, error) {
			a, err := n.resolver.Resolve(t.Context(), resolver.Request{
				Tenant: tenant, ExecutionID: run, Wants: []resolver.Want{{Ref: ref, Digest: &digest}},
			})
			return err == nil && a.Parts[0].Null, err
		},
		"read": func(t *testing.T, n *node, ref blobd.Ref) (bool, error) {
			a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{
				Tenant: tenant, ExecutionID: run, Purpose: "a check",
				Events: []resolver.Event{{StepID: "step", Attempt: 1, Parts: []resolver.EventPart{
					{Kind: blobd.KindText, Ref: &ref, Digest: &digest},
				}}},
			})
			if err != nil {
				return false, err
			}
			s := a.Parts[0].Status
			if s == resolver.StatusMissing || s == resolver.StatusMismatch {
				err = blobd.ErrMissing // said of the part
			}
			return s == resolver.StatusErased || s == resolver.StatusLost || s == resolver.StatusExpired, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := memParts(t)
			stored := p.start(t).mustPut(t, run, runText)
			var calls []call
			n := p.start(t)
			n.onCall(func(c call) { calls = append(calls, c) })
			if null, err := read(t, n, stored.Ref); null || err != nil {
				t.Fatalf("without a fault: null %v, %v", null, err)
			}
			if len(calls) < 4 {
				t.Fatalf("only %d calls", len(calls))
			}
			for _, c := range calls {
				if c.dependency == "ledger" && c.op == "tenant" {
					continue // an unknown tenant is a refusal of its own
				}
				for _, fault := range errs {
					if c.dependency == "ledger" && errors.Is(fault, blobd.ErrNotFound) {
						continue // the ledger alone may say so
					}
					for _, always := range []bool{false, true} {
						n := p.start(t)
						n.fail(c, true, fault)
						if always {
							n.fail(call{c.dependency, c.op, c.nth + 1}, true, fault)
						}
						if null, _ := read(t, n, stored.Ref); null {
							t.Errorf("%s said %v, and the answer was a null", c, fault)
						}
					}
				}
			}
		})
	}
}

// TestReadOvertakenByAnErasure: where the object is gone because it was erased
// while it was read, the answer is the null of the erasure and no alarm.
func TestReadOvertakenByAnErasure(t *testing.T) {
	scene := func(t *testing.T) (*node, blobd.Ref) {
		p := memParts(t)
		stored := p.start(t).mustPut(t, run, runText)
		n, other := p.start(t), p.start(t)
		var once sync.Once
		n.objects.OnCall(func(op, _ string) {
			if op == "get" {
				once.Do(func() {
					other.mustErase(t, run)
					other.runJobs(t)
				})
			}
		})
		return n, stored.Ref
	}
	t.Run("resolve", func(t *testing.T) {
		n, ref := scene(t)
		n.wantNull(t, run, ref)
	})
	t.Run("read", func(t *testing.T) {
		n, _ := scene(t)
		a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: "a check"})
		if err != nil || len(a.Parts) != 1 || a.Parts[0].Status != resolver.StatusErased {
			t.Errorf("%+v, %v, want one erased part", a, err)
		}
	})
}

// TestNullIsDecidedByTheLedgerAlone: no object and no key is asked for.
func TestNullIsDecidedByTheLedgerAlone(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	stored := n.mustPut(t, "another", runText)
	erased := n.mustPut(t, run, runText)
	n.mustErase(t, run)
	n = p.start(t)
	n.onCall(func(c call) {
		if c.dependency != "ledger" {
			t.Errorf("%s for a null", c)
		}
	})
	n.wantNull(t, run, erased.Ref)
	n.wantNull(t, run, stored.Ref)
	n.wantNull(t, "never seen", stored.Ref)
}

// TestReadIsRecordedBeforeBytesLeave: without the record there is no text.
func TestReadIsRecordedBeforeBytesLeave(t *testing.T) {
	n := memParts(t).start(t)
	n.mustPut(t, run, runText)
	n.fail(call{"ledger", "append", 1}, false, errDown)
	a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: "a check"})
	if err == nil || len(a.Parts) != 0 {
		t.Errorf("%d parts, error %v, want none and an error", len(a.Parts), err)
	}
	for _, purpose := range []string{"", string(make([]byte, resolver.MaxPurpose+1))} {
		_, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: purpose})
		wantErr(t, err, blobd.ErrInvalid)
	}
}

// TestLateAnswerIsNotGiven: past its deadline a read answers with an error.
func TestLateAnswerIsNotGiven(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPut(t, run, runText)
	n = n.parts.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	n.objects.OnCall(func(op, _ string) {
		if op == "get" {
			cancel()
		}
	})
	got, err := n.resolve(ctx, run, stored.Ref)
	if err == nil {
		t.Errorf("%v, want an error", got)
	}
}

// TestSelectionOfAReadComesBeforeAnyFetch: parts in log order, cut at the first
// that passes a bound, and nothing past it is fetched.
func TestSelectionOfAReadComesBeforeAnyFetch(t *testing.T) {
	p := memParts(t)
	n := p.start(t)
	texts := []string{"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"}
	for _, text := range texts {
		n.mustPut(t, run, text)
	}
	for name, c := range map[string]struct {
		parts int
		bytes int64
		want  int
		cut   bool
	}{
		"all":              {0, 0, 3, false},
		"parts":            {2, 0, 2, true},
		"bytes":            {0, 29, 2, true},
		"bytes to the dot": {0, 30, 3, false},
		"none fits":        {0, 9, 0, true},
	} {
		n := p.start(t)
		fetched := 0
		n.objects.OnCall(func(op, _ string) {
			if op == "get" {
				fetched++
			}
		})
		a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{
			Tenant: tenant, ExecutionID: run, Purpose: "a check", MaxParts: c.parts, MaxBytes: c.bytes,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Parts) != c.want || a.Truncated != c.cut || fetched != c.want {
			t.Errorf("%s: %d parts, truncated %v, %d fetched, want %d, %v", name, len(a.Parts), a.Truncated, fetched, c.want, c.cut)
		}
		for i, part := range a.Parts {
			if string(part.Text.Bytes()) != texts[i] {
				t.Errorf("%s: part %d is not in log order", name, i)
			}
		}
	}
}

// TestARedactedPartNamesNoBlob: a part that the caller's log calls redacted and
// that names a stored text says something else than our rows.
func TestARedactedPartNamesNoBlob(t *testing.T) {
	n := memParts(t).start(t)
	stored := n.mustPut(t, run, runText)
	a, err := n.resolver.Read(t.Context(), resolver.ReadRequest{
		Tenant: tenant, ExecutionID: run, Purpose: "a check", Events: []resolver.Event{{
			StepID: "step", Attempt: 1,
			Parts: []resolver.EventPart{{Kind: blobd.KindRedacted, Ref: &stored.Ref}, {Kind: blobd.KindRedacted}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Parts) != 2 || a.Parts[0].Status != resolver.StatusMismatch || a.Parts[1].Status != resolver.StatusRedacted {
		t.Errorf("parts %+v, want digest-mismatch and redacted", a.Parts)
	}
}
