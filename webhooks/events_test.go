package webhooks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// told is what a webhook of all types was told, in the words of the public library
// for CloudEvents, which checks each.
func (r *rig) told(w ledger.Webhook) (all []event.Event) {
	r.Helper()
	for _, d := range r.deliveries(w) {
		var e event.Event
		if err := json.Unmarshal(d.Body, &e); err != nil {
			r.Fatalf("%v: %s", err, d.Body)
		}
		if err := e.Validate(); err != nil {
			r.Fatalf("%v: %s", err, d.Body)
		}
		if e.ID() != d.EventID || e.Type() != d.Type || e.Subject() != d.Subject {
			r.Fatalf("delivery %+v has the event %s", d, d.Body)
		}
		all = append(all, e)
	}
	return all
}

// step appends a step of an erasure of the class "reasoning".
func (r *rig) step(id string, s evidence.ErasureStep) {
	r.Helper()
	s.Erasure = id
	r.append(r.scribe.Erasure(r.clock.now(), ledger.Scope{Tenant: tenant, Class: "reasoning"}, s, "token"))
}

func TestWhatIsTold(t *testing.T) {
	until := time.Date(2031, 4, 1, 0, 0, 0, 0, time.UTC)
	type want struct{ what, state string }
	order := func(kind ledger.OrderKind, lifted bool) func(*rig) {
		return func(r *rig) {
			scope := ledger.Scope{Tenant: tenant, Class: "reasoning"}
			if kind == ledger.OrderSuppression {
				scope = ledger.Scope{Tenant: tenant, Subjects: [][32]byte{{1}}}
			}
			if lifted {
				r.append(r.scribe.Lifted(ledger.Lift{Tenant: tenant, Kind: kind, ID: "it", At: r.clock.now(), By: "token", Reason: "a person said so"}, scope))
				return
			}
			r.append(r.scribe.Placed(ledger.Order{ID: "it", Kind: kind, Scope: scope, PlacedAt: r.clock.now(), Matter: "a matter"}))
		}
	}
	steps := func(names ...string) func(*rig) {
		return func(r *rig) {
			for _, name := range names {
				r.step("it", evidence.ErasureStep{Step: name})
			}
		}
	}
	for _, c := range []struct {
		name string
		act  func(*rig)
		want []want
	}{
		{"an erasure that fences at once", steps("fenced", "deleted", "erased"), []want{
			{"erasure.requested", "running"}, {"erasure.erased", "erased"},
		}},
		{"an erasure that waits for approvals, twice asked for", steps("requested", "requested", "approved", "approved", "closed", "dropped", "erased"), []want{
			{"erasure.requested", "awaiting_approval"}, {"erasure.approved", "running"}, {"erasure.erased", "erased"},
		}},
		{"an approved erasure that fences at once", steps("requested", "approved", "fenced", "erased"), []want{
			{"erasure.requested", "awaiting_approval"}, {"erasure.approved", "running"}, {"erasure.erased", "erased"},
		}},
		{"an erasure with a grace that fences later", func(r *rig) {
			r.step("it", evidence.ErasureStep{Step: evidence.StepClosed, Until: &until})
			r.step("it", evidence.ErasureStep{Step: evidence.StepFenced})
		}, []want{{"erasure.requested", "grace"}}},
		{"a denied one", steps("requested", "denied"), []want{{"erasure.requested", "awaiting_approval"}, {"erasure.denied", "denied"}}},
		{"a cancelled one", steps("closed", "cancelled"), []want{{"erasure.requested", "running"}, {"erasure.cancelled", "cancelled"}}},
		{"a deferred one, wholly and in part", func(r *rig) {
			r.step("it", evidence.ErasureStep{Step: evidence.StepClosed})
			r.step("it", evidence.ErasureStep{Step: evidence.StepDeferred, Held: 9})
			r.step("it", evidence.ErasureStep{Step: evidence.StepDeferred, Held: 5, KeysDestroyed: 4})
		}, []want{{"erasure.requested", "running"}, {"erasure.deferred", "deferred"}, {"erasure.partial", "partial"}}},
		{"a hold placed", order(ledger.OrderHold, false), []want{{"hold.placed", "placed"}}},
		{"a hold released", order(ledger.OrderHold, true), []want{{"hold.released", "lifted"}}},
		{"a restriction placed", order(ledger.OrderRestriction, false), []want{{"restriction.placed", "placed"}}},
		{"a restriction lifted", order(ledger.OrderRestriction, true), []want{{"restriction.lifted", "lifted"}}},
		{"a suppression", order(ledger.OrderSuppression, false), nil},
		{"a sweep to its end", func(r *rig) {
			r.append(r.scribe.SweepStarted(r.clock.now(), "it", "manual", "token"))
			r.append(r.scribe.Sweep(r.clock.now(), evidence.StepSweepPlanned, ledger.Sweep{ID: "it"}))
			r.append(r.scribe.Sweep(r.clock.now(), evidence.StepSweepDone, ledger.Sweep{ID: "it", Erased: 3}))
		}, []want{{"sweep.finished", "done"}}},
		{"a sweep that was stopped", func(r *rig) {
			r.append(r.scribe.Sweep(r.clock.now(), evidence.StepSweepStopped, ledger.Sweep{ID: "it"}))
		}, []want{{"sweep.finished", "stopped"}}},
		{"what is no event, and what cannot be read", func(r *rig) {
			for _, kind := range []ledger.EntryKind{ledger.EntryErasure, ledger.EntryOrder, ledger.EntrySweep, ledger.EntryPut, "unknown"} {
				for _, body := range []string{"", "{}", "null", `{"step":3}`, `{"step":"erased"}`, `{"act":"placed","kind":"hold"}`, "not json"} {
					r.append(ledger.Entry{Tenant: tenant, Kind: kind, At: r.clock.now(), Body: []byte(body)}, nil)
				}
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			n := r.node("a")
			_, w := r.create(n, "https://example.org/")
			c.act(r)
			r.feed(n)
			var got []want
			for _, e := range r.told(w) {
				var data struct{ State string }
				r.must(e.DataAs(&data))
				if e.Subject() != "it" {
					t.Errorf("%s is about %q", e.Type(), e.Subject())
				}
				got = append(got, want{e.Type(), data.State})
			}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); d != "" {
				t.Fatalf("-want +got\n%s", d)
			}
		})
	}
}

// The steps of an erasure may be fed by different looks at the log.
func TestTheFirstStepIsTheFirstOfTheLog(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	_, w := r.create(n, "https://example.org/")
	for _, name := range []string{"requested", "closed", "fenced", "erased"} {
		r.step("it", evidence.ErasureStep{Step: name})
		r.feed(n)
	}
	var got []string
	for _, e := range r.told(w) {
		got = append(got, e.Type())
	}
	want := []string{"erasure.requested", "erasure.approved", "erasure.erased"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("-want +got\n%s", d)
	}
}

func TestABodyIsThinAndWhole(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	_, w := r.create(n, "https://example.org/", ledger.EventErasureErased)
	r.clock.add(1500 * time.Millisecond)
	scope := ledger.Scope{Tenant: tenant, Tag: [16]byte{7}, ExecutionID: "execution/secret-name"}
	r.append(r.scribe.Erasure(r.clock.now(), scope, evidence.ErasureStep{
		Step: evidence.StepErased, Erasure: "erasure-1", KeysDestroyed: 3, ObjectsDeleted: 2, VersionsDeleted: 4, Failed: 1, Held: 6, Floor: 5,
	}, "token"))
	r.feed(n)
	ds := r.deliveries(w)
	want := `{"specversion":"1.0","id":"` + ds[0].EventID + `","source":"/blobd/00112233445566778899aabbccddeeff/acme",` +
		`"type":"erasure.erased","subject":"erasure-1","time":"2031-03-04T05:06:08.5Z","datacontenttype":"application/json",` +
		`"data":{"erasure":"erasure-1","state":"erased","scope":"execution","counts":{"failed":1,"floor":5,"held":6,"keysDestroyed":3,` +
		`"objectsDeleted":2,"versionsDeleted":4},"logIndex":2}}`
	if got := string(ds[0].Body); got != want {
		t.Fatalf("body\n%s\nwant\n%s", got, want)
	}
	if strings.ContainsAny(ds[0].EventID, ". ") || len(ds[0].EventID) != len("evt_")+32 {
		t.Fatalf("id %q", ds[0].EventID)
	}
	if strings.Contains(string(ds[0].Body), "secret-name") || strings.Contains(string(ds[0].Body), "0700000000") {
		t.Fatal("the body names the execution")
	}
}

// Every id is the event's own: of another entry it is another, also where two
// entries read alike.
func TestIDsOfEvents(t *testing.T) {
	r := newRig(t)
	n := r.node("a")
	_, w := r.create(n, "https://example.org/")
	_, other := r.create(n, "https://example.org/other")
	r.held("same")
	r.held("same")
	r.feed(n)
	first, second := r.deliveries(w), r.deliveries(other)
	if len(first) != 2 || first[0].EventID == first[1].EventID {
		t.Fatalf("%d deliveries: %+v", len(first), first)
	}
	for i := range first {
		if first[i].EventID != second[i].EventID {
			t.Errorf("one event is %s and %s", first[i].EventID, second[i].EventID)
		}
	}
}
