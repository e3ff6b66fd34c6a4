package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

const day = 24 * time.Hour

// watching is a process that watches the ledger's clock.
type watching struct {
	*node
	ran time.Duration
	log bytes.Buffer
}

// watch starts a process that trusts jumps of an hour and stops of a week.
func (p *parts) watch(t *testing.T) *watching {
	t.Helper()
	w := &watching{node: p.boot()}
	watch := ledger.NewWatch(time.Hour, 7*day, func() time.Duration { return w.ran })
	w.store.ClockWatch, w.store.Now = watch, watch.Steady(p.clock.Now)
	w.store.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	w.erasures = retention.NewErasures(w.store, w.node.ledger, "node", w.store.Now, slog.New(slog.DiscardHandler))
	if err := w.store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watching) pass(d time.Duration) { w.ran += d; w.clock.advance(d) }

// jump moves the ledger's clock, and the process's with it, where no time passes.
func (w *watching) jump(d time.Duration) { w.clock.advance(d) }

func (w *watching) beat(t *testing.T) {
	t.Helper()
	if err := w.store.BeatClock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// asked are blobs by what becomes of them: some are null whatever the time is.
type asked struct {
	wants map[string]resolver.Want
	whole map[string]string // the execution of each
}

// askedOf puts them over nine days of ten. lasting is kept for ten years.
func askedOf(t *testing.T, w *watching) asked {
	t.Helper()
	a := asked{wants: map[string]resolver.Want{}, whole: map[string]string{}}
	add := func(name, execution string, ref blobd.Ref) {
		a.wants[name], a.whole[name] = resolver.Want{Ref: ref}, execution
	}
	put := func(name, execution string) blobd.Ref {
		ref := w.mustPut(t, execution, name).Ref
		add(name, execution, ref)
		return ref
	}
	w.setMaximum(t, 10*day)
	w.setClassMaximum(t, "lasting", 10*365*day)
	add("lasting", run, w.putClass(t, run, "lasting", "lasting").Ref)
	put("old", run)
	put("superseded", run)
	put("lost", run)
	w.setClassMaximum(t, "short", day)
	add("swept", run, w.putClass(t, run, "short", "swept").Ref)
	w.pass(9 * day)
	w.startSweep(t)
	for worked := true; worked; {
		var err error
		if worked, err = w.sweeps.RunOne(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("young", run)
	put("other digest", run)
	other := blobd.DigestOf([]byte("another"))
	want := a.wants["other digest"]
	want.Digest = &other
	a.wants["other digest"] = want
	stored, err := w.store.Put(t.Context(), store.PutRequest{
		Attempt: attempt(run), Audience: []blobd.Principal{{Tenant: tenant, Actor: "alice"}},
		Content: store.Content{Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("outsider"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	add("outsider", run, stored.Ref)
	put("fenced", "fenced")
	put("closed", "closed")
	put("restricted", "restricted")
	erased := put("erased", run)
	add("never stored", run, blobd.RefOf([]byte("nothing")))
	add("of another execution", "elsewhere", a.wants["young"].Ref)
	w.mustErase(t, "fenced")
	w.mustErase(t, run, erased)
	w.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = "closed", 1000*day })
	w.restrict(t, func(r *store.OrderRequest) { r.ExecutionID = "restricted" })
	if err := w.store.AcceptLoss(t.Context(), tenant, run, []blobd.Ref{a.wants["lost"].Ref}, "operator"); err != nil {
		t.Fatal(err)
	}
	return a
}

// answers resolves each by itself: bytes, null, or the error.
func (w *watching) answers(t *testing.T, a asked) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, want := range a.wants {
		got, err := w.resolver.Resolve(t.Context(), resolver.Request{
			Tenant: tenant, ExecutionID: a.whole[name], Wants: []resolver.Want{want},
		})
		var about *blobd.RefsError
		switch {
		case errors.Is(err, blobd.ErrClockSuspect) && errors.Is(err, blobd.ErrUnavailable) && errors.As(err, &about) &&
			slices.Equal(about.Refs, []blobd.Ref{want.Ref}):
			out[name] = "503"
		case err != nil:
			out[name] = err.Error()
		case got.Parts[0].Null:
			out[name] = "null"
		default:
			out[name] = "bytes"
		}
	}
	return out
}

// expect is nulls for all but what is named.
func expect(a asked, but map[string]string) map[string]string {
	out := map[string]string{}
	for name := range a.wants {
		out[name] = "null"
	}
	for name, answer := range but {
		out[name] = answer
	}
	return out
}

// Each reason of a null, before a jump, after it, and once the clock is right again or
// was confirmed: no null that only time would make, and no bytes that were past their
// maximum by the time that is trusted.
func TestWhatOnlyTimeDecidesWaitsForTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		jump                       time.Duration
		before, suspect, confirmed map[string]string
	}{
		"forward": {
			30 * day,
			map[string]string{"lasting": "bytes", "young": "bytes"},
			map[string]string{"lasting": "bytes", "young": "503", "old": "503"},
			map[string]string{"lasting": "bytes"},
		},
		"back": {
			-5 * day,
			map[string]string{"lasting": "bytes", "young": "bytes"},
			map[string]string{"lasting": "bytes", "young": "bytes", "old": "503"},
			map[string]string{"lasting": "bytes", "young": "bytes", "old": "bytes"},
		},
		"less than the bound": {
			time.Hour,
			map[string]string{"lasting": "bytes", "young": "bytes"},
			map[string]string{"lasting": "bytes", "young": "bytes"},
			map[string]string{"lasting": "bytes", "young": "bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := memParts(t).watch(t)
			a := askedOf(t, w)
			w.pass(36 * time.Hour) // "old" and what was put with it is past its maximum
			w.beat(t)
			again := w.mustPut(t, run, "superseded")
			a.wants["put again"], a.whole["put again"] = resolver.Want{Ref: again.Ref}, run
			for _, m := range []map[string]string{c.before, c.suspect, c.confirmed} {
				m["put again"] = m["young"]
				if m["young"] == "" {
					m["put again"] = "null"
				}
			}
			check := func(when string, want map[string]string) {
				t.Helper()
				if d := cmp.Diff(expect(a, want), w.answers(t, a)); d != "" {
					t.Errorf("%s: -want +got\n%s", when, d)
				}
			}
			check("before", c.before)
			w.jump(c.jump)
			check("after the jump", c.suspect)
			w.beat(t)
			check("after a beat", c.suspect)
			w.jump(-c.jump)
			check("right again", c.before)
			w.beat(t)
			w.jump(c.jump)
			if _, err := w.store.ConfirmClock(t.Context(), tenant, "operator"); err != nil {
				t.Fatal(err)
			}
			check("confirmed", c.confirmed)
		})
	}
}

// A batch is bytes and nulls, or one error that names what is not known.
func TestABatchWithADoubtfulPartIsOneError(t *testing.T) {
	p := memParts(t)
	w := p.watch(t)
	a := askedOf(t, w)
	w.jump(30 * day)
	resolve := func(names ...string) (resolver.Answer, error) {
		q := resolver.Request{Tenant: tenant, ExecutionID: run}
		for _, name := range names {
			q.Wants = append(q.Wants, a.wants[name])
		}
		return w.resolver.Resolve(t.Context(), q)
	}
	got, err := resolve("lasting", "erased", "other digest", "never stored")
	if err != nil || got.FirstHole != 1 || got.Parts[0].Null || !got.Parts[2].Null || !got.Parts[3].Null {
		t.Errorf("nulls for other reasons: %+v, %v", got, err)
	}
	got, err = resolve("lasting", "young", "erased", "old")
	var about *blobd.RefsError
	if !errors.Is(err, blobd.ErrClockSuspect) || !errors.As(err, &about) || len(got.Parts) != 0 ||
		!slices.Equal(about.Refs, []blobd.Ref{a.wants["young"].Ref, a.wants["old"].Ref}) {
		t.Errorf("with doubtful parts: %+v, %v", got, err)
	}
}

// A put of what only the suspect clock says is past its maximum supersedes nothing: that
// could not be taken back.
func TestAPutSupersedesNothingByASuspectClock(t *testing.T) {
	w := memParts(t).watch(t)
	a := askedOf(t, w)
	w.jump(30 * day)
	if _, err := w.putText(t.Context(), run, "young"); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("put: %v", err)
	}
	if _, err := w.captureTexts(t.Context(), run, "new", "young"); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("capture: %v", err)
	}
	w.mustPut(t, run, "another text") // time decides nothing of it
	w.mustPut(t, "another run", "young")
	w.jump(-30 * day)
	w.wantText(t, run, a.wants["young"].Ref, "young")
	if again := w.mustPut(t, run, "young"); again.Ref != a.wants["young"].Ref || again.Created {
		t.Errorf("the same bytes: %+v", again)
	}
}

// An audit read is no definite answer either, of its own records and of the caller's log,
// unless a hold says what it is.
func TestAuditReadsWaitForTheClock(t *testing.T) {
	w := memParts(t).watch(t)
	a := askedOf(t, w)
	read := func(set func(*resolver.ReadRequest), names ...string) (map[blobd.Ref]resolver.Status, error) {
		q := resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: "a check"}
		for _, name := range names {
			ref := a.wants[name].Ref
			q.Events = append(q.Events, resolver.Event{StepID: "step", Attempt: 1, Parts: []resolver.EventPart{{Kind: blobd.KindText, Ref: &ref}}})
		}
		set(&q)
		got, err := w.resolver.Read(t.Context(), q)
		out := map[blobd.Ref]resolver.Status{}
		for _, p := range got.Parts {
			out[*p.Ref] = p.Status
		}
		return out, err
	}
	all := func(*resolver.ReadRequest) {}
	w.jump(30 * day)
	if _, err := read(all); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("own records: %v", err)
	}
	if _, err := read(all, "lasting", "young"); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("the caller's log: %v", err)
	}
	got, err := read(all, "lasting", "erased", "lost")
	if err != nil || got[a.wants["lasting"].Ref] != resolver.StatusOK || got[a.wants["erased"].Ref] != resolver.StatusErased ||
		got[a.wants["lost"].Ref] != resolver.StatusLost {
		t.Errorf("what time does not decide: %v, %v", got, err)
	}
	got, err = read(func(q *resolver.ReadRequest) { q.MaxParts = 1 })
	if err != nil || got[a.wants["lasting"].Ref] != resolver.StatusOK {
		t.Errorf("what is before the bound: %v, %v", got, err)
	}
	w.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = run })
	if got, err = read(all, "young", "old"); err != nil || got[a.wants["young"].Ref] != resolver.StatusOK {
		t.Errorf("what a hold keeps: %v, %v", got, err)
	}
}

// A confirmation is on record, outlives the process and reaches other nodes; it is told
// when a clock becomes suspect and when it is no more, once each.
func TestAConfirmationIsForTheWholeDeployment(t *testing.T) {
	p := memParts(t)
	w := p.watch(t)
	other := p.watch(t)
	lasting := w.mustPut(t, run, "a text") // a year, the default
	state, err := w.store.ConfirmClock(t.Context(), tenant, "operator")
	if err != nil || state.Suspect() || !state.Watched {
		t.Fatalf("nothing to confirm: %+v, %v", state, err)
	}
	if n := len(w.confirmations(t)); n != 0 {
		t.Errorf("%d confirmations of a clock that is not suspect", n)
	}
	w.jump(400 * day)
	w.beat(t)
	w.beat(t)
	if !w.store.ClockSuspect() {
		t.Error("it is not suspect after a beat")
	}
	third := p.watch(t) // a start within the jump
	for name, n := range map[string]*watching{"first": w, "other": other, "third": third} {
		if _, err := n.resolve(t.Context(), run, lasting.Ref); !errors.Is(err, blobd.ErrClockSuspect) {
			t.Errorf("%s node: %v", name, err)
		}
	}
	if state, err = w.store.ConfirmClock(t.Context(), tenant, "operator"); err != nil || state.Suspect() {
		t.Fatalf("confirm: %+v, %v", state, err)
	}
	w.wantNull(t, run, lasting.Ref)
	if _, err := other.resolve(t.Context(), run, lasting.Ref); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("a node before its beat: %v", err)
	}
	for _, n := range []*watching{other, third, p.watch(t)} {
		n.beat(t)
		n.wantNull(t, run, lasting.Ref)
		if n.store.ClockSuspect() {
			t.Error("suspect after the confirmation")
		}
	}
	want := []string{`{"act":"confirmed","actor":"` + w.actor(t, "operator") + `","now":"2028-01-04T12:00:00Z","trusted":"2026-11-30T12:00:00Z"}`}
	if d := cmp.Diff(want, w.confirmations(t)); d != "" {
		t.Errorf("evidence: -want +got\n%s", d)
	}
	if log := w.log.String(); strings.Count(log, "the clock is suspect:") != 1 || strings.Count(log, "not suspect any more") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

func (w *watching) actor(t *testing.T, id string) string {
	t.Helper()
	row, err := w.parts.ledger.Tenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	tag := evidence.Tag(row.NameKey, "blobd/v1/actor", id)
	return blobd.ExecutionTag(tag).String()
}

// confirmations are the bodies of the entries about the clock.
func (w *watching) confirmations(t *testing.T) (bodies []string) {
	t.Helper()
	all, err := w.parts.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Kind == ledger.EntryClock && json.Valid(e.Body) && e.Tenant == tenant {
			bodies = append(bodies, string(e.Body))
		}
	}
	return bodies
}

// A confirmation that meets another node's note is tried again, and one that the ledger
// does not take confirms nothing.
func TestAConfirmationThatTheLedgerDoesNotTake(t *testing.T) {
	w := memParts(t).watch(t)
	s := w.mustPut(t, run, "a text")
	w.jump(400 * day)
	w.node.ledger.Fail("noteclock", 1, ledgerfaulty.Before, blobd.ErrConflict)
	w.node.ledger.Fail("noteclock", 2, ledgerfaulty.Before, errDown)
	if _, err := w.store.ConfirmClock(t.Context(), tenant, "operator"); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("confirm: %v", err)
	}
	if _, err := w.resolve(t.Context(), run, s.Ref); !errors.Is(err, blobd.ErrClockSuspect) {
		t.Errorf("resolve: %v", err)
	}
	if _, err := w.store.ConfirmClock(t.Context(), tenant, "operator"); err != nil {
		t.Errorf("confirm again: %v", err)
	}
	w.wantNull(t, run, s.Ref)
	if n := len(w.confirmations(t)); n != 1 {
		t.Errorf("%d confirmations", n)
	}
}

// A restart within the bounds is none.
func TestAStartAfterALongStopIsSuspect(t *testing.T) {
	for stopped, suspect := range map[time.Duration]bool{6 * day: false, 8 * day: true, -30 * time.Minute: false, -2 * day: true} {
		p := memParts(t)
		w := p.watch(t)
		s := w.mustPut(t, run, "a text")
		w.setMaximum(t, 7*day)
		w.jump(stopped)
		w = p.watch(t)
		if w.store.ClockSuspect() != suspect {
			t.Errorf("after a stop of %v: suspect %v", stopped, !suspect)
		}
		_, err := w.resolve(t.Context(), run, s.Ref)
		if wants := stopped == 8*day; errors.Is(err, blobd.ErrClockSuspect) != wants || err != nil && !wants {
			t.Errorf("after a stop of %v: %v", stopped, err)
		}
	}
}

// What a grace keeps is not dropped early by a suspect clock, and what is tried meanwhile
// is not put off into a time that was wrong.
func TestTheEndOfAGraceIsByTheSteadyClock(t *testing.T) {
	w := memParts(t).watch(t)
	s := w.mustPut(t, run, "a text")
	w.mustPut(t, "at once", "a text")
	kept := w.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = run, 5*day })
	w.jump(300 * day)
	w.beat(t)
	once := w.mustErase(t, "at once")
	w.node.objects.Fail("erase", 1, backendfaulty.Before, errDown)
	work := func() {
		t.Helper()
		for worked := true; worked; {
			var err error
			if worked, err = w.erasures.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 4 {
		work()
		w.pass(time.Hour)
		w.beat(t)
	}
	if got := w.erasure(t, once.ID); got.State != ledger.ErasureErased {
		t.Errorf("an erasure at once, by a suspect clock: %s", got.State)
	}
	if got := w.erasure(t, kept.ID); got.State != ledger.ErasureGrace || w.liveRows(t, run) != 1 {
		t.Errorf("a grace by a suspect clock: %s, %d live", got.State, w.liveRows(t, run))
	}
	w.wantNull(t, run, s.Ref)
	w.jump(-300 * day)
	for range 4 {
		w.pass(2 * day)
		w.beat(t)
		work()
	}
	if got := w.erasure(t, kept.ID); got.State != ledger.ErasureErased {
		t.Errorf("once the grace is over: %s", got.State)
	}
}

// Nor is an old version of a KEK destroyed before its horizon.
func TestATrimIsByTheSteadyClock(t *testing.T) {
	w := memParts(t).watch(t)
	w.mustPut(t, run, "a text")
	e := w.rotate(t)
	epochs := retention.NewEpochs(w.store, w.node.ledger, "node", retention.EpochOptions{Horizon: horizon}, w.store.Now, slog.New(slog.DiscardHandler))
	work := func() {
		t.Helper()
		for worked := true; worked; {
			var err error
			if worked, err = epochs.RunOne(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.jump(horizon + day)
	w.beat(t)
	work()
	w.epoch(t, e.ID, ledger.EpochWaiting)
	w.jump(-horizon - day)
	w.pass(horizon + day)
	w.beat(t)
	work()
	w.epoch(t, e.ID, ledger.EpochTrimmed)
}
