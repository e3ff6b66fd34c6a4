package store_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/store"
)

// certainty is what the caller of blobd may believe of a text or an execution.
type certainty int

const (
	no    certainty = iota // never happened
	maybe                  // an unanswered request may have done it
	yes                    // it was acknowledged
)

// modelText is what is known of one text in one execution.
type modelText struct {
	kept   certainty
	ref    blobd.Ref // when kept is yes
	erased certainty
}

type modelRun struct {
	erased certainty
	texts  map[string]*modelText
}

// model is a map, driven beside a node that fails at random.
type model struct {
	t    *testing.T // for what is not under test
	node *node
	runs map[string]*modelRun
}

var (
	modelRuns  = []string{"run a", "run b"}
	modelTexts = []string{"", "x", "one text", "another text"}
)

// TestRandomHistories: whatever is put, captured, erased, restarted and broken
// in whatever order, a resolve is the exact bytes, a null that somebody asked
// for, or an error.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: t, node: memParts(t).start(t), runs: make(map[string]*modelRun)}
		for _, r := range modelRuns {
			m.runs[r] = &modelRun{texts: make(map[string]*modelText)}
			for _, text := range modelTexts {
				m.runs[r].texts[text] = new(modelText)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.put, "put ": m.put, "capture": m.capture, "resolve": m.resolve, "resolve elsewhere": m.elsewhere,
			"erase": m.erase, "off-board": m.offboard, "erase a ref": m.eraseRef, "job": m.job, "restart": m.restart, "fault": m.fault,
		})
		m.settle(rt)
	})
}

func drawRun(rt *rapid.T) string  { return rapid.SampledFrom(modelRuns).Draw(rt, "run") }
func drawText(rt *rapid.T) string { return rapid.SampledFrom(modelTexts).Draw(rt, "text") }

func (m *model) put(rt *rapid.T) {
	run, text := drawRun(rt), drawText(rt)
	stored, err := m.node.putText(m.t.Context(), run, text)
	m.kept(rt, run, text, stored, err)
}

// kept notes the answer of a put, and whether it may be that.
func (m *model) kept(rt *rapid.T, run, text string, stored store.Stored, err error) {
	r := m.runs[run]
	x := r.texts[text]
	switch {
	case err == nil:
		if r.erased == yes || x.erased == yes {
			rt.Fatalf("a put of %q was acknowledged after its erasure", text)
		}
		if x.kept == yes && x.ref != stored.Ref {
			rt.Fatalf("%q got a second ref", text)
		}
		x.kept, x.ref, x.erased, r.erased = yes, stored.Ref, no, no
	case errors.Is(err, blobd.ErrBlobErased):
		if x.erased == no {
			rt.Fatalf("%q is refused as erased, and nobody erased it", text)
		}
		x.erased = yes
	case errors.Is(err, blobd.ErrErased):
		if r.erased == no {
			rt.Fatalf("%s is refused as erased, and nobody erased it", run)
		}
		r.erased = yes
	case refusal(err):
		rt.Fatalf("put: %v", err)
	case x.kept == no:
		x.kept = maybe
	}
}

func (m *model) capture(rt *rapid.T) {
	run := drawRun(rt)
	texts := rapid.SliceOfN(rapid.SampledFrom(modelTexts[1:]), 1, 3).Draw(rt, "texts")
	parts, err := m.node.captureTexts(m.t.Context(), run, texts...)
	for i, text := range texts {
		x := m.runs[run].texts[text]
		if err != nil {
			m.kept(rt, run, text, store.Stored{}, err)
			continue
		}
		if parts[i].Stored.Ref == (blobd.Ref{}) { // omitted
			if x.erased == no {
				rt.Fatalf("%q is omitted, and nobody erased it", text)
			}
			x.erased = yes
			continue
		}
		m.kept(rt, run, text, parts[i].Stored, nil)
	}
}

func (m *model) resolve(rt *rapid.T) {
	run, text := drawRun(rt), drawText(rt)
	r := m.runs[run]
	x := r.texts[text]
	if x.kept != yes {
		return
	}
	got, err := m.node.resolve(m.t.Context(), run, x.ref)
	switch erased := max(r.erased, x.erased); {
	case err != nil && refusal(err):
		rt.Fatalf("resolve: %v", err)
	case err != nil:
	case got[0] == nil && erased == no:
		rt.Fatalf("%q is null, and nobody erased it", text)
	case got[0] != nil && erased == yes:
		rt.Fatalf("%q is read after its erasure", text)
	case got[0] != nil && *got[0] != text:
		rt.Fatalf("%q reads as %q", text, *got[0])
	}
}

// elsewhere: a ref is sealed to its execution.
func (m *model) elsewhere(rt *rapid.T) {
	for _, run := range modelRuns {
		x := m.runs[run].texts[drawText(rt)]
		other := modelRuns[1-slices.Index(modelRuns, run)]
		if x.kept != yes {
			continue
		}
		if got, err := m.node.resolve(m.t.Context(), other, x.ref); err == nil && got[0] != nil {
			rt.Fatalf("a ref of %s opens in %s", run, other)
		}
	}
}

func (m *model) erase(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "rarely") > 0 {
		return
	}
	run := drawRun(rt)
	_, err := m.node.erase(m.t.Context(), run)
	m.runs[run].erased = erasedAfter(rt, m.runs[run].erased, err)
}

func (m *model) eraseRef(rt *rapid.T) {
	run := drawRun(rt)
	x := m.runs[run].texts[drawText(rt)]
	if x.kept != yes {
		return
	}
	_, err := m.node.erase(m.t.Context(), run, x.ref)
	x.erased = erasedAfter(rt, x.erased, err)
}

func (m *model) offboard(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
		return
	}
	_, err := m.node.store.Erase(m.t.Context(), store.EraseRequest{Tenant: tenant, WholeTenant: true, Reason: "leaves"})
	for _, r := range m.runs {
		r.erased = erasedAfter(rt, r.erased, err)
	}
}

func erasedAfter(rt *rapid.T, before certainty, err error) certainty {
	switch {
	case err == nil:
		return yes
	case refusal(err):
		rt.Fatalf("erase: %v", err)
	}
	return max(before, maybe)
}

func (m *model) job(rt *rapid.T) {
	_, _ = m.node.erasures.RunOne(m.t.Context())
	if rapid.Bool().Draw(rt, "later") {
		m.node.clock.advance(margin)
	}
}

func (m *model) restart(rt *rapid.T) {
	n := m.node.parts.boot()
	if err := n.store.Start(m.t.Context()); err != nil {
		rt.Fatalf("start: %v", err)
	}
	m.node = n
}

// fault makes one of the next calls fail.
func (m *model) fault(rt *rapid.T) {
	c := rapid.SampledFrom([]call{
		{"ledger", "commit", 1}, {"ledger", "lookuprepeats", 1}, {"ledger", "lookup", 1}, {"ledger", "fence", 1},
		{"ledger", "claim", 1}, {"ledger", "tombstone", 1}, {"ledger", "finish", 1}, {"ledger", "postpone", 1},
		{"ledger", "settle", 1}, {"ledger", "published", 1}, {"ledger", "dropkeys", 1}, {"keys", "destroy", 1}, {"keys", "wrap", 1}, {"keys", "unwrap", 1},
		{"objects", "put", 1}, {"objects", "get", 1}, {"objects", "erase", 1}, {"objects", "residue", 1},
		{"objects", "put", 2}, {"second place", "put", 1},
	}).Draw(rt, "call")
	m.node.fail(c, rapid.Bool().Draw(rt, "after"), rapid.SampledFrom([]error{errDown, errUnclassified}).Draw(rt, "error"))
}

// settle ends a history: without faults everything is definite, every erasure
// ends, and nothing is there that no row names.
func (m *model) settle(rt *rapid.T) {
	m.restart(rt)
	ctx, n := m.t.Context(), m.node
	for i := 0; i < 500 && n.openErasures(m.t) > 0; i++ {
		if worked, err := n.erasures.RunOne(ctx); err != nil {
			rt.Fatalf("run a job: %v", err)
		} else if !worked {
			n.clock.advance(margin)
		}
	}
	if open := n.openErasures(m.t); open > 0 {
		rt.Fatalf("%d erasures are open", open)
	}
	for run, r := range m.runs {
		for text, x := range r.texts {
			if x.kept != yes {
				continue
			}
			got, err := n.resolve(ctx, run, x.ref)
			if err != nil {
				rt.Fatalf("resolve at the end: %v", err)
			}
			erased := max(r.erased, x.erased)
			if got[0] == nil && erased == no || got[0] != nil && (erased == yes || *got[0] != text) {
				rt.Fatalf("%q in %s at the end: %v, erased %v", text, run, got[0], erased)
			}
		}
	}
	n.clock.advance(10 * margin)
	v, err := n.store.Verify(ctx, store.VerifyOptions{Repair: true})
	if err != nil || !v.OK() {
		rt.Fatalf("verify: %v, %v", v.Faults, err)
	}
	if objects := len(n.sealedObjects(m.t, "")); int64(objects) != v.Live {
		rt.Fatalf("%d objects for %d live rows", objects, v.Live)
	}
}
