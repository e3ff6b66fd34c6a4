package api_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
)

// table reads CSV as RFC 4180 has it: lines end with CR LF.
func (a answer) table(t *testing.T) (header []string, rows []map[string]string) {
	t.Helper()
	a.want(t, http.StatusOK, "")
	if got := a.header.Get("Content-Type"); got != "text/csv; charset=utf-8; header=present" {
		t.Errorf("Content-Type = %q", got)
	}
	if strings.Count(string(a.body), "\n") != strings.Count(string(a.body), "\r\n") || !strings.HasSuffix(string(a.body), "\r\n") {
		t.Errorf("lines do not end with CR LF: %q", a.body)
	}
	r := csv.NewReader(strings.NewReader(string(a.body)))
	all, err := r.ReadAll()
	must(t, err)
	for _, cells := range all[1:] {
		row := make(map[string]string)
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return all[0], rows
}

// Two are erased after 2 and 3 days, one is denied after 4 and too late, one is
// cancelled, which nobody answered, one is open and overdue. The figures are those of a
// calendar, worked out by hand.
func TestTheReportOfErasures(t *testing.T) {
	e := newEnv(t)
	e.clock.add(time.Date(2031, 3, 10, 12, 0, 0, 0, time.UTC).Sub(e.clock.now()))
	ask := func(execution, received, more string) wire.Erasure {
		e.clock.add(time.Second)
		return e.erase(`{"executionId":"`+execution+`"}`, `,"regime":"ccpa","receivedAt":"`+received+`"`+more)
	}
	e.put("a", canaryText)
	a := ask("a", "2031-03-08T23:00:00Z", `,"externalRef":"=HYPERLINK(1)","dueAt":"2031-04-20T00:00:00Z"`)
	b := ask("b", "2031-03-07T01:00:00Z", `,"dueAt":"2031-03-08T00:00:00Z"`)
	e.runErasures()
	e.needApprovals("1")
	c := ask("c", "2031-03-06T10:00:00Z", `,"dueAt":"2031-03-09T00:00:00Z"`)
	e.clock.add(time.Date(2031, 3, 10, 13, 0, 0, 0, time.UTC).Sub(e.clock.now()))
	e.ask("approver", "POST", "/v1/erasures/"+c.ID+"/deny", `{"code":"CCPA_105_D"}`).want(t, http.StatusOK, "")
	withdrawn := ask("e", "2031-03-01T10:00:00Z", `,"dueAt":"2031-05-09T00:00:00Z"`)
	e.ask("dpo", "POST", "/v1/erasures/"+withdrawn.ID+"/cancel", "").want(t, http.StatusOK, "")
	d := ask("d", "2031-03-01T00:00:00Z", `,"dueAt":"2031-03-09T00:00:00Z"`)

	got := e.ask("dpo", "GET", "/v1/reports/erasures", "")
	got.want(t, http.StatusOK, "")
	var report wire.ErasuresReport
	got.into(t, &report)
	mean, median := 3.0, 3.0
	want := wire.ErasureSummary{
		Received: 5, States: map[string]int64{"erased": 2, "denied": 1, "cancelled": 1, "awaiting_approval": 1},
		Outcomes: map[string]int64{"complied": 2, "denied": 1, "cancelled": 1, "open": 1}, Denials: map[string]int64{"CCPA_105_D": 1},
		Overdue: 3, MeanDays: &mean, MedianDays: &median,
	}
	if diff := cmp.Diff(want, report.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if report.Report.Report != "erasures" || report.Tenant != "default" || report.From != nil || len(report.Items) != 5 {
		t.Errorf("report: %s", got.body)
	}

	header, rows := e.ask("dpo", "GET", "/v1/reports/erasures", "", "Accept", "text/csv").table(t)
	if diff := cmp.Diff(strings.Split("id,type,scope,regime,externalRef,received,due,completed,state,outcome,basis,days,overdue,blobs,erased,kept,requestedBy,approvedBy,deltaBlobs", ","), header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	byID := make(map[string]map[string]string)
	for _, row := range rows {
		byID[row["id"]] = row
	}
	for id, want := range map[string]map[string]string{
		a.ID: {
			"type": "erasure", "scope": "execution", "regime": "ccpa", "externalRef": "'=HYPERLINK(1)", "received": "2031-03-08T23:00:00Z",
			"due": "2031-04-20T00:00:00Z", "state": "erased", "outcome": "complied", "basis": "", "days": "2", "overdue": "false",
			"blobs": "1", "erased": "1", "kept": "0", "deltaBlobs": "",
		},
		b.ID:         {"days": "3", "overdue": "true", "outcome": "complied", "blobs": "0"},
		c.ID:         {"state": "denied", "outcome": "denied", "basis": "CCPA_105_D", "days": "4", "completed": "2031-03-10T13:00:00Z", "overdue": "true"},
		withdrawn.ID: {"state": "cancelled", "outcome": "cancelled", "days": "9", "completed": "2031-03-10T13:00:01Z", "overdue": "false"},
		d.ID:         {"state": "awaiting_approval", "outcome": "open", "overdue": "true", "days": ""},
	} {
		for name, value := range want {
			if byID[id][name] != value {
				t.Errorf("%s of %s = %q, want %q", name, byID[id]["received"], byID[id][name], value)
			}
		}
	}

	for query, want := range map[string][]string{
		"?from=2031-03-07&to=2031-03-09":                  {b.ID, a.ID},
		"?from=2031-03-07T01:00:00.000001Z":               {a.ID},
		"?to=2031-03-07T01:00:00Z":                        {d.ID, withdrawn.ID, c.ID},
		"?from=2031-03-11":                                nil,
		"?from=2031-03-01T01:00:00%2B01:00&to=2031-03-02": {d.ID, withdrawn.ID},
	} {
		var report wire.ErasuresReport
		e.ask("dpo", "GET", "/v1/reports/erasures"+query, "").into(t, &report)
		var ids []string
		for _, line := range report.Items {
			ids = append(ids, line.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}

	_, rows = e.ask("dpo", "GET", "/v1/erasures?state=erased", "", "Accept", "application/json;q=0.5, text/csv").table(t)
	if len(rows) != 2 {
		t.Errorf("the listing of what is erased has %d lines, want 2", len(rows))
	}
	if _, rows = e.ask("dpo", "GET", "/v1/erasures?limit=1", "", "Accept", "text/csv").table(t); len(rows) != 1 {
		t.Errorf("a listing of one has %d lines", len(rows))
	}
	refuseCanaries(t, "the report", string(got.body), e)
}

// A cell that a spreadsheet would take for a formula begins with an apostrophe, and
// what has commas, quotes or line breaks is quoted. A carriage return alone goes.
func TestReportsAreNoFormulas(t *testing.T) {
	e := newEnv(t)
	for matter, cell := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'x",
		"a=1": "a=1", "'=1": "'=1", `say "no", twice`: `say "no", twice`, "ä": "ä",
	} {
		body := `{"scope":{"executionId":"x"},"matter":` + quoted(matter) + `,"reason":"r","owner":"o"}`
		e.ask("holds", "POST", "/v1/holds", body).want(t, http.StatusCreated, "")
		a := e.ask("dpo", "GET", "/v1/reports/holds", "", "Accept", "text/csv")
		if _, rows := a.table(t); rows[0]["matter"] != cell { // the newest
			t.Errorf("%q is written as %q", matter, rows[0]["matter"])
		}
		e.clock.add(time.Hour)
	}
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\r", `\r`).Replace(s) + `"`
}

func TestTheRegisterOfHolds(t *testing.T) {
	e := newEnv(t)
	e.clock.add(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).Sub(e.clock.now()))
	e.put("x", canaryText, subjects(canarySubject)...)
	first := e.hold(`{"subjects":["` + canarySubject + `"]}`)
	e.clock.add(48 * time.Hour)
	second := e.hold(`{"class":"reasoning"}`)
	e.clock.add(48 * time.Hour)
	e.release(first.ID)
	for query, want := range map[string][]string{
		"":                                {second.ID, first.ID},
		"?to=2031-01-03":                  {first.ID},
		"?from=2031-01-06":                {second.ID},
		"?from=2031-01-02&to=2031-01-04":  {second.ID, first.ID},
		"?from=2030-01-01&to=2030-12-31":  nil,
		"?from=2031-01-05T00:00:00Z":      {second.ID, first.ID},
		"?from=2031-01-05T00:00:00.0001Z": {second.ID},
	} {
		a := e.ask("dpo", "GET", "/v1/reports/holds"+query, "")
		var report wire.HoldsReport
		a.into(t, &report)
		if diff := cmp.Diff(want, idsOf(report.Items)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
		refuseCanaries(t, "the register", string(a.body), e)
	}
	_, rows := e.ask("dpo", "GET", "/v1/reports/holds", "", "Accept", "text/csv").table(t)
	if rows[0]["class"] != "reasoning" || rows[0]["blobs"] != "1" || rows[1]["subjects"] != "1" || rows[1]["state"] != "released" || rows[1]["releaseReason"] != "settled" {
		t.Errorf("register: %v", rows)
	}
}

func TestTheReportsOfRetentionAndSweeps(t *testing.T) {
	e := newEnv(t)
	e.clock.add(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).Sub(e.clock.now()))
	e.setPolicy("notes", `{"period":"P1M","floor":"P7D","legalBasis":"a law, § 3","startEvent":"executionEnded","onExpiry":"review","existing":true}`)
	e.put("x", canaryText)
	e.clock.add(time.Hour)
	e.put("x", "second")
	e.ask("runtime", "POST", "/v1/executions/x/blobs?class=notes", "a note").want(t, http.StatusCreated, "")
	a := e.ask("dpo", "GET", "/v1/reports/retention", "")
	var report wire.RetentionReport
	a.into(t, &report)
	want := []wire.RetentionLine{
		{
			Class: "notes", StartEvent: "executionEnded", Period: "P1M", Floor: "P7D", LegalBasis: "a law, § 3", OnExpiry: "review",
			Since: report.Items[0].Since, Blobs: 1,
		},
		{Class: "reasoning", Default: true, StartEvent: "captured", Period: "P1Y", OnExpiry: "erase", Blobs: 2},
	}
	if diff := cmp.Diff(want, report.Items); diff != "" || report.Items[0].Since == nil {
		t.Errorf("retention (-want +got):\n%s", diff)
	}
	_, rows := e.ask("dpo", "GET", "/v1/reports/retention?from=2031-01-01&to=2031-01-01T00:30:00Z", "", "Accept", "text/csv").table(t)
	if len(rows) != 2 || rows[0]["blobs"] != "0" || rows[0]["floor"] != "P7D" || rows[1]["blobs"] != "1" || rows[1]["class"] != "reasoning" {
		t.Errorf("retention of a span: %v", rows)
	}

	e.clock.add(400 * 24 * time.Hour)
	s := e.sweep(`{}`)
	e.runSweeps()
	a = e.ask("dpo", "GET", "/v1/reports/sweeps", "")
	var sweeps wire.SweepsReport
	a.into(t, &sweeps)
	if len(sweeps.Items) != 1 || sweeps.Items[0].ID != s.ID || sweeps.Items[0].Erased != 2 {
		t.Errorf("sweeps: %s", a.body)
	}
	_, rows = e.ask("dpo", "GET", "/v1/reports/sweeps?to=2031-06-01", "", "Accept", "text/csv").table(t)
	if len(rows) != 0 {
		t.Errorf("sweeps of another span: %v", rows)
	}
}

// A ledger that fails before the first line is a problem and no empty report.
func TestAReportThatFailsIsNoReport(t *testing.T) {
	e := newEnv(t)
	e.reports.shut(errors.Join(blobd.ErrUnavailable, errors.New(canaryText)))
	for _, name := range []string{"erasures", "holds"} {
		for _, accept := range []string{"application/json", "text/csv"} {
			a := e.ask("dpo", "GET", "/v1/reports/"+name, "", "Accept", accept)
			a.want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
			if strings.Contains(string(a.body), canaryText) {
				t.Errorf("%s: the problem tells the cause", name)
			}
		}
	}
}

// A report that is cut short never looks whole: the answer breaks off.
func TestAReportThatIsCutShortBreaksOff(t *testing.T) {
	e := newEnv(t)
	for i := range 501 { // one more than a page
		e.erase(fmt.Sprintf(`{"executionId":"x%d"}`, i), "")
	}
	_, rows := e.ask("dpo", "GET", "/v1/reports/erasures", "", "Accept", "text/csv").table(t)
	if len(rows) != 501 {
		t.Errorf("%d lines, want 501", len(rows))
	}
	e.later.shut(blobd.ErrUnavailable)
	for _, accept := range []string{"application/json", "text/csv"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", e.url+"/v1/reports/erasures", nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+e.tokens["dpo"])
		r.Header.Set("Accept", accept)
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(r)
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK || len(got) == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: status %d, %d bytes, then %v", accept, resp.StatusCode, len(got), err)
		}
	}
}

// The figures of metrics are those of the last count.
func TestTheCensus(t *testing.T) {
	var census *api.Census
	e := newEnv(t, func(c *api.Config) { c.Census = func() api.CensusStats { return census.Stats() } })
	census = api.NewCensus(e.ledger, time.Hour, e.clock.now, nil)
	e.ask("holds", "POST", "/v1/holds", `{"scope":{"executionId":"x"},"matter":"m","reason":"r","owner":"o","reviewAt":"`+
		e.clock.now().Add(time.Minute).Format(time.RFC3339Nano)+`"}`).want(t, http.StatusCreated, "")
	e.release(e.hold(`{"class":"notes"}`).ID)
	e.put("x", canaryText)
	e.erase(`{"executionId":"x"}`, "")
	e.erase(`{"executionId":"y"}`, `,"graceSeconds":600`)
	must(t, second(e))
	dpo := e.newToken("second", "dpo")
	e.ask(dpo, "POST", "/v1/erasures", `{"scope":{"executionId":"z"},"reason":"r"}`).want(t, http.StatusAccepted, "")
	if metrics := string(e.ask("", "GET", "/metrics", "").body); !strings.Contains(metrics, "blobd_census_timestamp_seconds 0\n") {
		t.Error("before the first count: no census")
	}
	e.clock.add(time.Hour)
	must(t, census.Count(t.Context()))
	metrics := string(e.ask("", "GET", "/metrics", "").body)
	for _, line := range []string{
		`blobd_holds{state="open"} 1`, `blobd_holds{state="released"} 1`, "blobd_holds_review_overdue 1",
		`blobd_erasure_requests{state="running"} 1`, `blobd_erasure_requests{state="grace"} 1`,
		`blobd_erasure_requests{state="deferred"} 1`, `blobd_erasure_requests{state="partial"} 0`,
		`blobd_erasure_requests{state="awaiting_approval"} 0`, "blobd_erasures_open 3", "blobd_suppressed_writes_total 0",
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}
