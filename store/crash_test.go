package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	keysfaulty "github.com/blobd/blobd/keys/faulty"
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
		for _, op := range []string{"wrap", "unwrap", "create", "tenants", "rotate", "status", "trim", "destroy"} {
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
		t.Run(name, func(t *testing.T) { interrupt(t, make) })
	}
}

// interrupt runs an act once for every call that it makes and every way in which
// that call can fail.
func interrupt(t *testing.T, make func() crash) {
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
		"off-board a tenant":              crashOfOffboarding,
		"off-boarding, first pass":        func() crash { return crashOfOffboardingJob(false) },
		"off-boarding, last pass":         func() crash { return crashOfOffboardingJob(true) },
		"start a sweep":                   crashOfSweepStart,
		"sweep, first pass":               func() crash { return crashOfSweep(false) },
		"sweep, last pass":                func() crash { return crashOfSweep(true) },
		"set a policy":                    crashOfPolicy,
		"end an execution":                crashOfEnd,
	}
}
