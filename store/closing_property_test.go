package store_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// orderedText is a text of the model: where it lies and with whom it is tagged never
// changes. Those of the class other expire.
type orderedText struct {
	run, text, class string
	subjects         []string
	kept             bool
	ref              blobd.Ref
	expires          time.Time // zero: never
	keepers          map[string]bool
}

// askedErasure is an erasure that was asked for, answered or not.
type askedErasure struct {
	id    string // "": not answered
	texts []*orderedText
	ended bool // it may have been cancelled
}

// ordersModel drives a node that fails at random. What it believes:
//
//   - what an acknowledged hold covers keeps its key and its object until somebody
//     asks for its release;
//   - what an acknowledged erasure covers is null from then on, unless it is cancelled;
//   - what nobody asked to erase or to close reads as its text;
//   - once every hold is released, every erasure ends, and nothing of it is left.
type ordersModel struct {
	t        *testing.T
	node     *node
	texts    []*orderedText
	erasures []*askedErasure
	holds    []ledger.Order
}

const otherMaximum = 5 * time.Hour

// TestRandomOrders: holds, erasures of every form, graces, cancellations, sweeps,
// restarts and faults in whatever order.
func TestRandomOrders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &ordersModel{t: t, node: memParts(t).start(t)}
		m.node.setClassMaximum(t, other, otherMaximum)
		for _, run := range []string{"run a", "run b"} {
			for _, x := range []orderedText{
				{text: "nobody's", class: reason}, {text: "anna's", class: reason, subjects: []string{anna}},
				{text: "theirs", class: reason, subjects: []string{anna, bert}}, {text: "anna's note", class: other, subjects: []string{anna}},
			} {
				x.run, x.keepers = run, make(map[string]bool)
				m.texts = append(m.texts, &x)
			}
		}
		for i := range m.texts {
			m.put(rt, m.texts[i])
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": m.invariants, "put": func(rt *rapid.T) { m.put(rt, m.text(rt)) }, "hold": m.hold, "release": m.release,
			"erase": m.erase, "cancel": m.cancel, "job": m.job, "job ": m.job, "sweep": m.sweep, "later": m.later, "restart": m.restart, "fault": m.fault,
		})
		m.settle(rt)
	})
}

func (m *ordersModel) text(rt *rapid.T) *orderedText {
	return rapid.SampledFrom(m.texts).Draw(rt, "text")
}

func (m *ordersModel) put(rt *rapid.T, x *orderedText) {
	stored, err := m.node.store.Put(m.t.Context(), store.PutRequest{Attempt: attempt(x.run), Subjects: x.subjects, Content: store.Content{
		Class: x.class, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(x.text)),
	}})
	switch {
	case err == nil && m.covered(x) && x.kept && x.ref == stored.Ref:
		rt.Fatalf("a put of %q in %s was answered with what is erased or closed", x.text, x.run)
	case err == nil:
		if !x.kept || x.ref != stored.Ref {
			x.keepers = make(map[string]bool)
		}
		x.kept, x.ref = true, stored.Ref
		if x.class == other {
			x.expires = stored.ExpiresAt
		}
	case refusal(err) && !m.touched(x):
		rt.Fatalf("a put of %q in %s: %v", x.text, x.run, err)
	}
}

// covered reports whether an acknowledged erasure covers a text.
func (m *ordersModel) covered(x *orderedText) bool {
	return slices.ContainsFunc(m.erasures, func(e *askedErasure) bool {
		return e.id != "" && !e.ended && slices.Contains(e.texts, x)
	})
}

// touched reports whether anybody ever asked to erase something in a way that may have
// reached the text, or its later puts.
func (m *ordersModel) touched(x *orderedText) bool {
	return slices.ContainsFunc(m.erasures, func(e *askedErasure) bool { return slices.Contains(e.texts, x) })
}

// target fills in one of the forms, and returns which texts it covers.
func (m *ordersModel) target(rt *rapid.T, r *store.OrderRequest) (covers func(*orderedText) bool) {
	x := m.text(rt)
	switch form := rapid.SampledFrom([]string{"execution", "refs", "subjects", "class"}).Draw(rt, "form"); {
	case form == "refs" && x.kept:
		r.ExecutionID, r.Refs = x.run, []blobd.Ref{x.ref}
		return func(y *orderedText) bool { return x == y }
	case form == "subjects" && x.subjects != nil:
		who := x.subjects[len(x.subjects)-1]
		r.Subjects = []string{who}
		return func(y *orderedText) bool { return slices.Contains(y.subjects, who) }
	case form == "class":
		r.Class = x.class
		return func(y *orderedText) bool { return x.class == y.class }
	}
	r.ExecutionID = x.run
	return func(y *orderedText) bool { return x.run == y.run }
}

func (m *ordersModel) hold(rt *rapid.T) {
	r := store.OrderRequest{Tenant: tenant, Matter: "a matter"}
	covers := m.target(rt, &r)
	o, err := m.node.store.PlaceHold(m.t.Context(), r)
	if err != nil {
		if refusal(err) {
			rt.Fatalf("hold: %v", err)
		}
		return
	}
	m.holds = append(m.holds, o)
	for _, x := range m.texts {
		if x.kept && covers(x) && m.whole(x) {
			x.keepers[o.ID] = true
		}
	}
}

// whole reports whether a text has its key and its object.
func (m *ordersModel) whole(x *orderedText) bool {
	rows, err := m.node.parts.ledger.ScanBlobs(m.t.Context(), ledger.Position{}, 1000)
	if err != nil {
		m.t.Fatal(err)
	}
	return slices.ContainsFunc(rows, func(r ledger.ScannedBlob) bool {
		return r.Ref == x.ref && r.Blob.WrappedKey != nil && r.ExecutionState != ledger.ExecutionErased
	}) && slices.ContainsFunc(m.node.sealedObjects(m.t, x.run), func(name string) bool {
		p, _ := backends.ParseBlobName(name)
		return p.Ref == x.ref
	})
}

func (m *ordersModel) release(rt *rapid.T) {
	if len(m.holds) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.holds)-1).Draw(rt, "hold")
	m.lift(rt, m.holds[i])
}

func (m *ordersModel) lift(rt *rapid.T, o ledger.Order) {
	for _, x := range m.texts {
		delete(x.keepers, o.ID)
	}
	if _, err := m.node.store.LiftOrder(m.t.Context(), tenant, o.Kind, o.ID, "holder", "over"); err != nil {
		if refusal(err) {
			rt.Fatalf("release: %v", err)
		}
	}
}

func (m *ordersModel) erase(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "rarely") > 0 {
		return
	}
	var o store.OrderRequest
	covers := m.target(rt, &o)
	r := store.EraseRequest{Tenant: tenant, ExecutionID: o.ExecutionID, Refs: o.Refs, Subjects: o.Subjects, Class: o.Class, Actor: "dpo"}
	if rapid.Bool().Draw(rt, "grace") {
		r.Grace = time.Hour
	}
	asked := new(askedErasure)
	for _, x := range m.texts {
		if covers(x) {
			asked.texts = append(asked.texts, x)
		}
	}
	m.erasures = append(m.erasures, asked)
	e, err := m.node.store.Erase(m.t.Context(), r)
	switch {
	case err == nil:
		asked.id = e.ID
	case refusal(err):
		rt.Fatalf("erase: %v", err)
	}
}

// cancel ends an erasure. What it dropped before stays erased.
func (m *ordersModel) cancel(rt *rapid.T) {
	if len(m.erasures) == 0 {
		return
	}
	asked := rapid.SampledFrom(m.erasures).Draw(rt, "erasure")
	if asked.id == "" {
		return
	}
	before := m.node.erasure(m.t, asked.id)
	_, err := m.node.store.Cancel(m.t.Context(), tenant, asked.id, "dpo", "a mistake")
	may := before.State == ledger.ErasureGrace || before.State == ledger.ErasureDeferred || before.State == ledger.ErasureCancelled
	switch {
	case err == nil && !may:
		rt.Fatalf("what is %s was cancelled", before.State)
	case err != nil && may && refusal(err):
		rt.Fatalf("cancel: %v", err)
	case may:
		asked.ended = true
	}
	if err == nil && before.State == ledger.ErasureGrace { // as if it had never been
		m.erasures = slices.DeleteFunc(m.erasures, func(e *askedErasure) bool { return e == asked })
	}
}

func (m *ordersModel) job(*rapid.T)   { _, _ = m.node.erasures.RunOne(m.t.Context()) }
func (m *ordersModel) later(*rapid.T) { m.node.clock.advance(20 * time.Minute) }

func (m *ordersModel) sweep(*rapid.T) {
	_, _ = m.node.store.StartSweep(m.t.Context(), store.NewSweep{Tenant: tenant, Trigger: ledger.TriggerManual})
	_, _ = m.node.sweeps.RunOne(m.t.Context())
}

func (m *ordersModel) restart(rt *rapid.T) {
	n := m.node.parts.boot()
	if err := n.store.Start(m.t.Context()); err != nil {
		rt.Fatalf("start: %v", err)
	}
	m.node = n
}

func (m *ordersModel) fault(rt *rapid.T) {
	op := rapid.SampledFrom([]string{
		"fence", "fenceclosed", "drop", "defer", "settle", "tombstone", "finish", "claim", "postpone", "placeorder", "liftorder",
		"decide", "commit", "lookup", "droppedrows", "scoperows", "expire", "bury", "published", "erasure",
	}).Draw(rt, "operation")
	c := call{"ledger", op, 1}
	if rapid.IntRange(0, 3).Draw(rt, "elsewhere") == 0 {
		c = rapid.SampledFrom([]call{
			{"objects", "put", 1}, {"objects", "erase", 1}, {"objects", "residue", 1}, {"second place", "put", 1},
		}).Draw(rt, "call")
	}
	m.node.fail(c, rapid.Bool().Draw(rt, "after"), rapid.SampledFrom([]error{errDown, errUnclassified}).Draw(rt, "error"))
}

// invariants hold after every step.
func (m *ordersModel) invariants(rt *rapid.T) {
	for _, x := range m.texts {
		if !x.kept {
			continue
		}
		if len(x.keepers) > 0 && !m.whole(x) {
			rt.Fatalf("%q in %s is held by %v, and gone", x.text, x.run, x.keepers)
		}
		got, err := m.node.resolve(m.t.Context(), x.run, x.ref)
		expired := !x.expires.IsZero() && !m.node.clock.Now().Before(x.expires)
		switch {
		case err != nil && refusal(err):
			rt.Fatalf("resolve %q in %s: %v", x.text, x.run, err)
		case err != nil:
		case got[0] != nil && (*got[0] != x.text || expired):
			rt.Fatalf("%q in %s reads as %q, expired %v", x.text, x.run, *got[0], expired)
		case got[0] != nil && m.covered(x):
			rt.Fatalf("%q in %s is read after its erasure", x.text, x.run)
		case got[0] == nil && !expired && !m.touched(x):
			rt.Fatalf("%q in %s is null, and nobody asked for that", x.text, x.run)
		}
	}
}

// settle ends a history: without faults, once nothing is held, every erasure ends.
func (m *ordersModel) settle(rt *rapid.T) {
	m.restart(rt)
	m.invariants(rt)
	for _, kind := range []ledger.OrderKind{ledger.OrderHold} { // those that were never answered too
		open, err := m.node.parts.ledger.ListOrders(m.t.Context(), ledger.OrderQuery{Tenant: tenant, Kind: kind, Open: true, Limit: 1000})
		if err != nil {
			rt.Fatal(err)
		}
		for _, o := range open {
			m.lift(rt, o)
		}
	}
	m.node.clock.advance(time.Hour)
	m.finish(rt)
	m.invariants(rt)
	for _, x := range m.texts {
		if x.kept && m.covered(x) && m.whole(x) {
			rt.Fatalf("%q in %s was erased, and is whole", x.text, x.run)
		}
	}
	m.node.clock.advance(10 * margin)
	for range 2 {
		v, err := m.node.store.Verify(m.t.Context(), store.VerifyOptions{Repair: true})
		if err != nil || !v.OK() {
			rt.Fatalf("verify: %v, %v", v.Faults, err)
		}
		if v.Orphans > v.Repaired {
			rt.Fatalf("%d objects without a row, %d collected", v.Orphans, v.Repaired)
		}
	}
}

// finish runs every erasure to its end, within hours and not days.
func (m *ordersModel) finish(rt *rapid.T) {
	for i := 0; i < 500 && m.node.openErasures(m.t) > 0; i++ {
		if worked, err := m.node.erasures.RunOne(m.t.Context()); err != nil {
			rt.Fatalf("run a job: %v", err)
		} else if !worked {
			m.node.clock.advance(margin)
		}
	}
	for _, e := range m.node.allErasures(m.t) {
		if !e.State.Ended() {
			rt.Fatalf("an erasure stays %s: %+v", e.State, e.Progress)
		}
	}
}
