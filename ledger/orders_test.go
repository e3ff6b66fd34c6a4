package ledger_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

var (
	tagA      = blobd.ExecutionTag{0xaa}
	refA      = blobd.Ref{0xcd}
	refB      = blobd.Ref{0xce}
	subjectA  = [32]byte{1}
	subjectB  = [32]byte{2}
	execution = ledger.Scope{Tenant: "acme", Tag: tagA, ExecutionID: "x"}
	refs      = ledger.Scope{Tenant: "acme", Tag: tagA, ExecutionID: "x", Refs: []blobd.Ref{refA}}
	subjects  = ledger.Scope{Tenant: "acme", Subjects: [][32]byte{subjectA, subjectB}}
	class     = ledger.Scope{Tenant: "acme", Class: "notes", CapturedBefore: noon}
	tenant    = ledger.Scope{Tenant: "acme", Tag: tagA, WholeTenant: true}
)

func TestFormsOfScopes(t *testing.T) {
	for _, c := range []struct {
		scope              ledger.Scope
		form               ledger.ScopeForm
		bounded, fenceable bool
	}{
		{execution, ledger.ScopeExecution, true, true},
		{ledger.Scope{Tenant: "acme", Tag: tagA}, ledger.ScopeExecution, true, true},
		{refs, ledger.ScopeRefs, true, true},
		{ledger.Scope{Tag: tagA, Refs: []blobd.Ref{refA}}, ledger.ScopeRefs, true, true},
		{subjects, ledger.ScopeSubjects, false, false},
		{class, ledger.ScopeClass, false, false},
		{ledger.Scope{Tenant: "acme", Class: "notes"}, ledger.ScopeClass, false, false},
		{tenant, ledger.ScopeTenant, false, true},
	} {
		if err := c.scope.Check(); err != nil {
			t.Errorf("%+v: %v", c.scope, err)
		}
		form := c.scope.Form()
		if form != c.form || form.Bounded() != c.bounded || form.Fenceable() != c.fenceable {
			t.Errorf("%+v: form %d, bounded %v, fenceable %v", c.scope, form, form.Bounded(), form.Fenceable())
		}
	}
	for i, s := range []ledger.Scope{
		{}, {Tenant: "acme"}, {Class: "notes"}, {Subjects: [][32]byte{subjectA}}, {WholeTenant: true},
		{Tenant: "acme", Class: "notes", Subjects: [][32]byte{subjectA}}, {Tenant: "acme", Class: "notes", ExecutionID: "x"},
		{Tenant: "acme", Class: "notes", WholeTenant: true}, {Tenant: "acme", WholeTenant: true, Refs: []blobd.Ref{refA}},
		{Tenant: "acme", Tag: tagA, ExecutionID: "x", Subjects: [][32]byte{subjectA}},
		{Tenant: "acme", Tag: tagA, ExecutionID: "x", CapturedBefore: noon},
	} {
		if err := s.Check(); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("scope %d: %v", i, err)
		}
	}
}

func TestWhatAScopeCovers(t *testing.T) {
	row := ledger.DueRow{Position: ledger.Position{Tag: tagA, Ref: refA}, Class: "notes", CreatedAt: noon.Add(-time.Microsecond)}
	with := func(change func(*ledger.DueRow)) ledger.DueRow { r := row; change(&r); return r }
	tagged := func(is ...[32]byte) func([32]byte) bool {
		return func(s [32]byte) bool { return len(is) > 0 && is[0] == s }
	}
	for i, c := range []struct {
		scope ledger.Scope
		row   ledger.DueRow
		has   func([32]byte) bool
		want  bool
	}{
		{execution, row, tagged(), true},
		{execution, with(func(r *ledger.DueRow) { r.Tag[0]++ }), tagged(), false},
		{refs, row, tagged(), true},
		{refs, with(func(r *ledger.DueRow) { r.Ref = refB }), tagged(), false},
		{refs, with(func(r *ledger.DueRow) { r.Tag[0]++ }), tagged(), false},
		{subjects, row, tagged(), false},
		{subjects, row, tagged(subjectB), true},
		{subjects, row, tagged([32]byte{9}), false},
		{class, row, tagged(), true},
		{class, with(func(r *ledger.DueRow) { r.CreatedAt = noon }), tagged(), false},
		{ledger.Scope{Tenant: "acme", Class: "notes"}, with(func(r *ledger.DueRow) { r.CreatedAt = noon }), tagged(), true},
		{class, with(func(r *ledger.DueRow) { r.Class = "other" }), tagged(), false},
		{tenant, with(func(r *ledger.DueRow) { r.Tag[0]++ }), tagged(), true},
	} {
		if got := c.scope.Covers(&c.row, c.has); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestWhatProtectsARow(t *testing.T) {
	floor := []ledger.Policy{{Existing: true, Rule: ledger.Rule{
		Maximum: ledger.Period{Days: 1}, Floor: ledger.Period{Days: 2}, LegalBasis: "a law",
	}}}
	ended := []ledger.Policy{{Existing: true, Rule: ledger.Rule{
		Start: ledger.StartEnded, Maximum: ledger.Period{Days: 1}, Floor: ledger.Period{Days: 2}, LegalBasis: "a law",
	}}}
	row := ledger.DueRow{CreatedAt: noon}
	held := ledger.DueRow{CreatedAt: noon, Held: true}
	over := ledger.DueRow{CreatedAt: noon, EndedAt: noon.AddDate(0, 0, 1)}
	end := noon.AddDate(0, 0, 2)
	for i, c := range []struct {
		row      ledger.DueRow
		versions []ledger.Policy
		now      time.Time
		verdict  ledger.Verdict
		until    time.Time
	}{
		{row, nil, noon, ledger.VerdictErase, time.Time{}},
		{held, nil, noon, ledger.VerdictHeld, time.Time{}},
		{held, floor, noon, ledger.VerdictHeld, time.Time{}},
		{row, floor, end.Add(-time.Microsecond), ledger.VerdictFloor, end},
		{row, floor, end, ledger.VerdictErase, end},
		{row, ended, end.AddDate(9, 0, 0), ledger.VerdictFloor, time.Time{}},
		{over, ended, end, ledger.VerdictFloor, end.AddDate(0, 0, 1)},
		{over, ended, end.AddDate(0, 0, 1), ledger.VerdictErase, end.AddDate(0, 0, 1)},
	} {
		if v, until := ledger.Protects(&c.row, c.versions, c.now); v != c.verdict || !until.Equal(c.until) {
			t.Errorf("case %d: %d until %v", i, v, until)
		}
	}
	if ledger.Floors(nil) || ledger.Floors([]ledger.Policy{{}}) || !ledger.Floors(append([]ledger.Policy{{}}, floor...)) {
		t.Error("floors")
	}
}

// A sweep asks the same of what is held: no policy deletes under a hold.
func TestASweepLeavesWhatIsHeld(t *testing.T) {
	row := ledger.DueRow{State: ledger.BlobLive, CreatedAt: noon, Held: true}
	if v, _ := ledger.Judge(&row, nil, noon.AddDate(5, 0, 0)); v != ledger.VerdictHeld {
		t.Errorf("verdict %d", v)
	}
}

func TestWhatOrdersClose(t *testing.T) {
	for kind, want := range map[ledger.OrderKind]ledger.CloseReason{
		ledger.OrderHold: 0, ledger.OrderRestriction: ledger.ClosedRestricted, ledger.OrderClosing: ledger.ClosedErasure,
		ledger.OrderSuppression: 0, 9: 0,
	} {
		if got := kind.Closes(); got != want {
			t.Errorf("%s closes by %d", kind, got)
		}
	}
}

func TestHowAnErasureStands(t *testing.T) {
	for _, c := range []struct {
		e    ledger.Erasure
		want ledger.ErasureState
	}{
		{ledger.Erasure{State: ledger.ErasureRunning}, ledger.ErasureRunning},
		{ledger.Erasure{State: ledger.ErasureRunning, Dropped: 1}, ledger.ErasureRunning},
		{ledger.Erasure{State: ledger.ErasureRunning, Progress: ledger.Progress{Failed: 1}}, ledger.ErasurePartial},
		{ledger.Erasure{State: ledger.ErasureDeferred}, ledger.ErasureDeferred},
		{ledger.Erasure{State: ledger.ErasureDeferred, Dropped: 1}, ledger.ErasurePartial},
		{ledger.Erasure{State: ledger.ErasureErased, Dropped: 1, Progress: ledger.Progress{Failed: 1}}, ledger.ErasureErased},
		{ledger.Erasure{State: ledger.ErasureCancelled, Dropped: 1}, ledger.ErasureCancelled},
	} {
		if got := c.e.Stands(); got != c.want {
			t.Errorf("%s with %d dropped: %s", c.e.State, c.e.Dropped, got)
		}
	}
}

// What orders write into journals; a change of it would orphan them.
func TestOrderRecordEncoding(t *testing.T) {
	for _, c := range []struct {
		record ledger.Record
		want   string
	}{
		{
			ledger.RecordOf(&ledger.Order{
				ID: "o", Kind: ledger.OrderHold, Scope: refs, Matter: "m", Reason: "r", Owner: "w", ReviewAt: noon, PlacedAt: noon, PlacedBy: "t",
			}, time.Time{}),
			`{"seq":7,"kind":"order","at":"2031-01-02T12:00:00.345678Z","tenant":"acme","tag":"aa000000000000000000000000000000",` +
				`"refs":["sha256:cd00000000000000000000000000000000000000000000000000000000000000"],"writes":0,` +
				`"orderId":"o","orderKind":1,"form":2}`,
		},
		{
			ledger.RecordOf(&ledger.Order{
				ID: "o", Kind: ledger.OrderSuppression, Scope: ledger.Scope{Tenant: "acme", Subjects: [][32]byte{subjectA}}, ErasureID: "e",
				Purposes: []string{"p"}, ExpiresAt: noon.Add(time.Hour), PlacedAt: noon,
			}, noon),
			`{"seq":7,"kind":"order","at":"2031-01-02T12:00:00.345678Z","tenant":"acme","erasureId":"e","writes":0,"orderId":"o","orderKind":4,` +
				`"form":3,"subjects":["0100000000000000000000000000000000000000000000000000000000000000"],"purposes":["p"],` +
				`"until":"2031-01-02T13:00:00.345678Z"}`,
		},
		{
			ledger.RecordOf(&ledger.Order{ID: "e", Kind: ledger.OrderClosing, Scope: class, ErasureID: "e", PlacedAt: noon}, noon.Add(time.Hour)),
			`{"seq":7,"kind":"order","at":"2031-01-02T12:00:00.345678Z","tenant":"acme","erasureId":"e","writes":0,"orderId":"e","orderKind":3,` +
				`"form":4,"class":"notes","before":"2031-01-02T12:00:00.345678Z","until":"2031-01-02T13:00:00.345678Z"}`,
		},
		{
			ledger.LiftRecordOf(&ledger.Order{
				ID: "o", Kind: ledger.OrderHold, Scope: refs, ErasureID: "e", PlacedAt: noon, LiftedAt: noon.Add(time.Hour), LiftedBy: "t", LiftReason: "r",
			}),
			`{"seq":7,"kind":"lift","at":"2031-01-02T13:00:00.345678Z","tenant":"acme","writes":0,"orderId":"o","orderKind":1}`,
		},
	} {
		c.record.Seq = 7
		got, err := c.record.Encode()
		if err != nil || string(got) != c.want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, c.want)
			continue
		}
		back, err := ledger.DecodeRecord(got)
		if err != nil || !reflect.DeepEqual(back, c.record) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, back, c.record)
		}
		for _, bad := range []string{`"subjects":["01"]`, `"subjects":["zz"]`, `"subjects":[]`} {
			if spoilt := strings.Replace(c.want, `"orderId"`, bad+`,"orderId"`, 1); spoilt != c.want {
				if _, err := ledger.DecodeRecord([]byte(spoilt)); !errors.Is(err, blobd.ErrCorrupt) {
					t.Errorf("%s: %v", spoilt, err)
				}
			}
		}
	}
}

func TestARecordTellsItsScope(t *testing.T) {
	for _, s := range []ledger.Scope{execution, refs, subjects, class, tenant} {
		r := ledger.RecordOf(&ledger.Order{ID: "o", Kind: ledger.OrderHold, Scope: s}, time.Time{})
		s.ExecutionID = ""
		if got := r.Scope(); !reflect.DeepEqual(got, s) || got.Form() != r.Form {
			t.Errorf("got  %+v\nwant %+v", got, s)
		}
	}
}

func TestProgressKeepsWhatIsKept(t *testing.T) {
	at := ledger.Position{Tag: tagA, Ref: refA}
	p := ledger.Progress{Held: 3, Floor: 200, Kept: []ledger.Kept{
		{Position: at, ExecutionID: "x", Verdict: ledger.VerdictHeld}, {Position: at, Verdict: ledger.VerdictFloor, Until: noon},
	}}
	b, err := p.Details()
	if err != nil {
		t.Fatal(err)
	}
	var back ledger.Progress
	if err := back.SetDetails(b); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, back, p)
	}
	for len(p.Kept) <= ledger.MaxKept {
		p.Kept = append(p.Kept, p.Kept[0])
	}
	b, err = p.Details()
	if err != nil {
		t.Fatal(err)
	}
	var many ledger.Progress
	if err := many.SetDetails(b); err != nil || len(many.Kept) != ledger.MaxKept || many.Floor != 200 {
		t.Errorf("%v: %d kept", err, len(many.Kept))
	}
	for _, bad := range []string{
		`{"kept":[{"execution":"aa","ref":"cd"}],"held":1}`,
		`{"kept":[{"execution":"aa000000000000000000000000000000","ref":"cd"}],"held":1}`,
	} {
		if err := new(ledger.Progress).SetDetails([]byte(bad)); !errors.Is(err, blobd.ErrCorrupt) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
