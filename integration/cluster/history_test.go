package cluster

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/blobd/blobd/client"
)

const (
	blobsOf    = 3                // blobs of one execution
	window     = 6                // executions in use at a time
	windowStep = 60               // operations after which the oldest is left
	askTime    = 3 * time.Second  // how long a caller waits for an answer
	never      = math.MaxInt64    // when an operation without an answer ends
	workTime   = 26 * time.Second // how long the callers work
)

// history is what was asked and answered, by execution.
type history struct {
	t     *testing.T
	begin time.Time

	mu    sync.Mutex
	ops   map[string][]porcupine.Operation // guarded by mu
	refs  map[string][blobsOf]string       // guarded by mu; "" until one was told
	count map[kind]map[verdict]int         // guarded by mu
	total int                              // guarded by mu
}

func newHistory(t *testing.T) *history {
	return &history{
		t: t, begin: time.Now(), ops: make(map[string][]porcupine.Operation), refs: make(map[string][blobsOf]string),
		count: make(map[kind]map[verdict]int),
	}
}

// record asks, and keeps the question with its answer.
func (h *history) record(who int, execution string, in input, ask func() verdict) verdict {
	op := porcupine.Operation{ClientId: who, Input: in, Call: int64(time.Since(h.begin))}
	out := ask()
	op.Output, op.Return = out, int64(time.Since(h.begin))
	if erases := in.kind == isEraseBlob || in.kind == isEraseExecution; erases && out == unsent {
		// Its Idempotency-Key lets the transport send it twice: the first may have
		// arrived.
		out = unknown
		op.Output = out
	}
	switch {
	case out == unsent, out == unknown && in.kind == isResolve:
		return out // it says nothing and changes nothing
	case out == unknown:
		op.Return = never
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[execution] = append(h.ops[execution], op)
	h.total++
	if h.count[in.kind] == nil {
		h.count[in.kind] = make(map[verdict]int)
	}
	h.count[in.kind][out]++
	return out
}

// ref returns the ref of a blob, "" if no put of it was answered.
func (h *history) ref(execution string, blob int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refs[execution][blob]
}

// learn keeps the ref that a put told: one blob has one ref, whoever is asked.
func (h *history) learn(execution string, blob int, ref string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	refs := h.refs[execution]
	if was := refs[blob]; was != "" && was != ref {
		h.t.Errorf("%s blob %d: refs %s and %s", execution, blob, was, ref)
	}
	refs[blob] = ref
	h.refs[execution] = refs
}

// pick chooses one of the executions in use.
func (h *history) pick(random *rand.Rand) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("run-%d", h.total/windowStep+random.IntN(window))
}

func textOf(execution string, blob int) string { return fmt.Sprintf("text %d of %s", blob, execution) }

// act asks one random question.
func (h *history) act(ctx context.Context, who int, random *rand.Rand, c *client.Client) verdict {
	execution, blob := h.pick(random), random.IntN(blobsOf)
	ref := h.ref(execution, blob)
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	switch n := random.IntN(100); {
	case n < 30 || ref == "":
		return h.put(ctx, who, c, execution, blob)
	case n < 92:
		return h.resolve(ctx, who, c, execution, blob, ref)
	case n < 97:
		return h.record(who, execution, input{isEraseBlob, blob}, func() verdict {
			_, err := erase(ctx, c, execution, ref)
			return verdictOf(h.t, err)
		})
	default:
		return h.record(who, execution, input{kind: isEraseExecution}, func() verdict {
			_, err := erase(ctx, c, execution)
			return verdictOf(h.t, err)
		})
	}
}

func (h *history) put(ctx context.Context, who int, c *client.Client, execution string, blob int) verdict {
	return h.record(who, execution, input{isPut, blob}, func() verdict {
		ref, err := put(ctx, c, execution, []byte(textOf(execution, blob)))
		v := verdictOf(h.t, err)
		if v == done {
			h.learn(execution, blob, ref)
		}
		return v
	})
}

func (h *history) resolve(ctx context.Context, who int, c *client.Client, execution string, blob int, ref string) verdict {
	return h.record(who, execution, input{isResolve, blob}, func() verdict {
		got, err := resolve(ctx, c, execution, ref)
		if err == nil && string(got) != textOf(execution, blob) {
			h.t.Errorf("%s blob %d: %q", execution, blob, got)
		}
		return verdictOf(h.t, err)
	})
}

// readAll asks a node for everything whose ref is known.
func (h *history) readAll(ctx context.Context, who int, c *client.Client) {
	h.mu.Lock()
	known := make(map[string][blobsOf]string, len(h.refs))
	for execution, refs := range h.refs {
		known[execution] = refs
	}
	h.mu.Unlock()
	for execution, refs := range known {
		for blob, ref := range refs {
			if ref != "" {
				h.resolve(ctx, who, c, execution, blob, ref)
			}
		}
	}
}

// judge looks for an order of each execution's operations in which every answer
// is right.
func (h *history) judge() {
	h.t.Helper()
	for execution, ops := range h.ops {
		if got := check(ops); got != porcupine.Ok {
			h.t.Errorf("%s: %v", execution, got)
			for _, op := range ops {
				h.t.Log(describe(op))
			}
			return
		}
	}
}

// wantWork: the history has enough of everything to judge.
func (h *history) wantWork() {
	h.t.Helper()
	for _, c := range []struct {
		kind  kind
		out   verdict
		least int
	}{
		{isPut, done, 50}, {isPut, refused, 5}, {isResolve, done, 50}, {isResolve, nothing, 20},
		{isEraseBlob, done, 5}, {isEraseExecution, done, 5},
	} {
		if got := h.count[c.kind][c.out]; got < c.least {
			h.t.Errorf("%d times %v: %v; want %d at least", got, c.kind, c.out, c.least)
		}
	}
	h.t.Logf("%d operations on %d executions: %v", h.total, len(h.ops), h.count)
}
