package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// runSweeps runs every sweep to its end, past the put margin.
func (e *env) runSweeps() {
	e.t.Helper()
	o := retention.SweepOptions{Breaker: store.Breaker{Percent: 50, Never: 100}}
	runner := retention.NewSweeps(e.store, e.ledger, "test", o, e.clock.now, slog.New(slog.DiscardHandler))
	for range 2 {
		for {
			again, err := runner.RunOne(e.t.Context())
			must(e.t, err)
			if !again {
				break
			}
		}
		e.clock.add(store.DefaultPutMargin)
	}
}

func (e *env) setPolicy(class, body string) wire.Policy {
	e.t.Helper()
	a := e.ask("dpo", "PUT", "/v1/policies/"+class, body)
	a.want(e.t, http.StatusOK, "")
	var p wire.Policy
	a.into(e.t, &p)
	return p
}

func (e *env) sweep(body string) wire.Sweep {
	e.t.Helper()
	a := e.ask("operator", "POST", "/v1/sweeps", body)
	a.want(e.t, http.StatusAccepted, "")
	var s wire.Sweep
	a.into(e.t, &s)
	if got := a.header.Get("Location"); got != "/v1/sweeps/"+s.ID {
		e.t.Errorf("Location = %q", got)
	}
	return s
}

// R16, R17, R18: a policy is simulated, set, swept, and the figures are the same.
func TestFromAPolicyToASweep(t *testing.T) {
	e := newEnv(t)
	for i := range 3 {
		e.put(fmt.Sprint("run-", i), canaryText)
	}
	e.ask("runtime", "POST", "/v1/executions/run-0/blobs?class=notes", "of another class").want(t, 201, "")
	e.clock.add(48 * time.Hour)
	const policy = `{"period":"P1D","startEvent":"captured","onExpiry":"erase","existing":true}`
	simulate := e.ask("dpo", "POST", "/v1/policies/reasoning/simulate", policy)
	simulate.want(t, http.StatusOK, "")
	var simulated wire.PolicySimulation
	simulate.into(t, &simulated)
	if simulated.Due != 3 || simulated.Erased != 3 || simulated.DueBefore != 0 || simulated.Bytes != 3*int64(len(canaryText)) {
		t.Errorf("simulation: %s", simulate.body)
	}
	e.ask("operator", "POST", "/v1/sweeps", `{"dryRun":true}`).want(t, http.StatusOK, "") // nothing was changed
	p := e.setPolicy("reasoning", policy)
	if p.Default || p.Version == 0 || p.Period != "P1D" || !p.Existing || p.Simulation == nil || *p.Simulation != simulated {
		t.Errorf("policy: %+v, simulation %+v", p, p.Simulation)
	}
	dry := e.ask("operator", "POST", "/v1/sweeps", `{"dryRun":true}`)
	dry.want(t, http.StatusOK, "")
	var planned wire.Sweep
	dry.into(t, &planned)
	if planned.ID != "" || planned.Due != 3 || planned.Erased != 3 || strings.Contains(string(dry.body), `"id"`) {
		t.Errorf("dry run: %s", dry.body)
	}
	started := e.sweep(`{}`)
	if started.State != "running" || started.Trigger != "manual" || started.StartedAt == nil {
		t.Errorf("started: %+v", started)
	}
	e.ask("operator", "POST", "/v1/sweeps", `{}`).want(t, http.StatusConflict, wire.CodeConflict)
	e.runSweeps()
	a := e.ask("dpo", "GET", "/v1/sweeps/"+started.ID, "")
	a.want(t, http.StatusOK, "")
	var done wire.Sweep
	a.into(t, &done)
	if done.State != "done" || done.Due != 3 || done.Erased != 3 || done.Failed != 0 || done.FinishedAt == nil {
		t.Errorf("done: %s", a.body)
	}
	for _, field := range []string{"id", "state", "scanned", "due", "erased", "held", "floor", "failed", "startedAt", "finishedAt", "trigger", "nextRun"} {
		if !strings.Contains(string(a.body), `"`+field+`"`) {
			t.Errorf("a sweep has no %s", field)
		}
	}
	var page wire.Sweeps
	list := e.ask("operator", "GET", "/v1/sweeps?state=done", "")
	list.into(t, &page)
	if len(page.Items) != 1 || !cmp.Equal(page.Items[0], done) {
		t.Errorf("listed: %s", list.body)
	}
	again := e.put("run-0", canaryText)
	if again.CreatedAt.Before(*done.StartedAt) {
		t.Error("what was swept is not new")
	}
	if e.logs.String() == "" || strings.Contains(e.logs.String(), canaryText) {
		t.Error("the logs hold a text, or nothing")
	}
}

// Expiry holds at read time, at its microsecond, swept or not.
func TestExpiryAtItsMicrosecond(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("reasoning", `{"period":"PT2S","startEvent":"captured","onExpiry":"erase","existing":false}`)
	s := e.put("run", canaryText)
	if s.ExpiresAt == nil || !s.ExpiresAt.Equal(s.CreatedAt.Add(2*time.Second)) {
		t.Fatalf("stored: %+v", s)
	}
	read := func() answer { return e.ask("runtime", "GET", "/v1/executions/run/blobs/"+s.Ref, "") }
	e.clock.add(s.ExpiresAt.Add(-time.Microsecond).Sub(e.clock.now()))
	read().want(t, http.StatusOK, "")
	e.clock.add(time.Microsecond)
	read().want(t, http.StatusNotFound, wire.CodeNull)
	e.sweep(`{}`)
	e.runSweeps()
	read().want(t, http.StatusNotFound, wire.CodeNull)
}

func TestPoliciesAreShownWithWhatTheyGovern(t *testing.T) {
	e := newEnv(t)
	get := func(class string) (p wire.Policy) {
		a := e.ask("dpo", "GET", "/v1/policies/"+class, "")
		a.want(t, http.StatusOK, "")
		a.into(t, &p)
		return p
	}
	if p := get("unseen"); !p.Default || p.Period != "P1Y" || p.StartEvent != "captured" || p.OnExpiry != "erase" || p.Version != 0 || p.Since != nil {
		t.Errorf("a class without a policy: %+v", p)
	}
	e.put("run", canaryText)
	e.setPolicy("notes", `{"period":"P2W","floor":"P7D","legalBasis":"a law, § 3","slack":"PT1H","onExpiry":"review","startEvent":"executionEnded","existing":true}`)
	p := get("notes")
	if p.Default || p.Period != "P14D" || *p.Floor != "P7D" || *p.LegalBasis != "a law, § 3" || *p.Slack != "PT1H" ||
		p.OnExpiry != "review" || p.StartEvent != "executionEnded" || len(p.Earlier) != 0 {
		t.Errorf("policy: %+v", p)
	}
	var page wire.Policies
	e.ask("dpo", "GET", "/v1/policies?limit=1", "").into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Class != "notes" || page.Next == nil {
		t.Fatalf("first page: %+v", page)
	}
	e.ask("dpo", "GET", "/v1/policies?limit=1&cursor="+*page.Next, "").into(t, &page)
	if len(page.Items) != 1 || page.Items[0].Class != "reasoning" || !page.Items[0].Default || page.Next != nil {
		t.Errorf("second page: %+v", page)
	}
	e.clock.add(time.Minute)
	e.setPolicy("notes", `{"period":"P1M","existing":false}`)
	p = get("notes")
	if p.Period != "P1M" || len(p.Earlier) != 1 || p.Earlier[0].Period != "P14D" || !p.Earlier[0].CapturedBefore.Equal(*p.Since) {
		t.Errorf("with an earlier version: %+v", p)
	}
	e.ask("dpo", "DELETE", "/v1/policies/notes", "").want(t, http.StatusNoContent, "")
	if p = get("notes"); !p.Default || p.Period != "P1Y" || len(p.Earlier) == 0 {
		t.Errorf("after it was removed: %+v", p)
	}
	e.clock.add(time.Minute)
	e.ask("dpo", "DELETE", "/v1/policies/notes?existing=true", "").want(t, http.StatusNoContent, "")
	if p = get("notes"); !p.Default || len(p.Earlier) != 0 {
		t.Errorf("after it was removed for all: %+v", p)
	}
}

func TestPoliciesThatAreRefused(t *testing.T) {
	e := newEnv(t)
	for body, code := range map[string]wire.Code{
		`{"period":"P30D"}`:                                     wire.CodeInvalid, // existing is not said
		`{"existing":true}`:                                     wire.CodeInvalid,
		`{"period":"30d","existing":true}`:                      wire.CodeInvalid,
		`{"period":"P0D","existing":true}`:                      wire.CodeInvalid,
		`{"period":"P1.5D","existing":true}`:                    wire.CodeInvalid,
		`{"period":"-P1D","existing":true}`:                     wire.CodeInvalid,
		`{"period":"P1D","existing":true,"floor":"P2D"}`:        wire.CodeInvalid,
		`{"period":"P1D","existing":true,"legalBasis":"a law"}`: wire.CodeInvalid,
		`{"period":"P1D","existing":true,"startEvent":"never"}`: wire.CodeInvalid,
		`{"period":"P1D","existing":true,"onExpiry":"archive"}`: wire.CodeInvalid,
		`{"period":"P1D","existing":true,"owner":"me"}`:         wire.CodeUnknownField,
		`{"period":"P1D","existing":"yes"}`:                     wire.CodeInvalid,
		`{"period":"P1D","existing":true,"floor":"P1D","legalBasis":"` + strings.Repeat("x", 1025) + `"}`: wire.CodeInvalid,
	} {
		e.ask("dpo", "PUT", "/v1/policies/reasoning", body).want(t, http.StatusBadRequest, code)
		e.ask("dpo", "POST", "/v1/policies/reasoning/simulate", body).want(t, http.StatusBadRequest, code)
	}
	e.ask("dpo", "PUT", "/v1/policies/Upper", `{"period":"P1D","existing":true}`).want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("dpo", "GET", "/v1/policies/a_b", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("dpo", "DELETE", "/v1/policies/reasoning?existing=maybe", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("operator", "POST", "/v1/sweeps", `{"confirm":-1}`).want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("operator", "GET", "/v1/sweeps?state=odd", "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	e.ask("operator", "GET", "/v1/sweeps/unknown", "").want(t, http.StatusNotFound, wire.CodeNotFound)
	for _, cursor := range []string{"x", "!", b64(" 1/x"), b64("UPPER 1/1"), b64("nothing")} {
		e.ask("operator", "GET", "/v1/debt?cursor="+cursor, "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	}
}

func TestTheEndOfAnExecutionIsAStartEvent(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("reasoning", `{"period":"PT1H","startEvent":"executionEnded","onExpiry":"erase","existing":true}`)
	s := e.put("run", canaryText)
	if s.ExpiresAt != nil {
		t.Errorf("expires at %v before the execution ended", s.ExpiresAt)
	}
	e.clock.add(2 * time.Hour)
	e.ask("runtime", "GET", "/v1/executions/run/blobs/"+s.Ref, "").want(t, http.StatusOK, "")
	var plan wire.Sweep
	e.ask("operator", "POST", "/v1/sweeps", `{"dryRun":true}`).into(t, &plan)
	if plan.Due != 0 || plan.Waiting != 1 {
		t.Errorf("before the end: %+v", plan)
	}
	a := e.ask("runtime", "POST", "/v1/executions/run/end", "")
	a.want(t, http.StatusOK, "")
	var first, second wire.Ended
	a.into(t, &first)
	e.clock.add(time.Minute)
	e.ask("runtime", "POST", "/v1/executions/run/end", "{}").into(t, &second) // nothing is said in it
	if first.ExecutionID != "run" || first != second {
		t.Errorf("ended: %+v, then %+v", first, second)
	}
	e.clock.add(time.Hour)
	e.ask("runtime", "GET", "/v1/executions/run/blobs/"+s.Ref, "").want(t, http.StatusNotFound, wire.CodeNull)
	unknown := e.ask("runtime", "POST", "/v1/executions/unknown/end", "")
	unknown.want(t, http.StatusNotFound, wire.CodeNotFound)
	if unknown.header.Get(wire.HeaderResolution) != "" {
		t.Error("an unknown execution reads as a null")
	}
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"run"},"reason":"r"}`).want(t, 202, "")
	e.ask("runtime", "POST", "/v1/executions/run/end", "").want(t, http.StatusGone, wire.CodeExecutionErased)
}

// R21: debt is listed with its reason, page by page, and is a metric.
func TestDebtIsListedAndMeasured(t *testing.T) {
	var runner *retention.Sweeps
	e := newEnv(t, func(c *api.Config) {
		c.Retention = func() api.RetentionStats {
			s := runner.Stats()
			debt := map[string]int64{}
			for reason, n := range s.Debt {
				debt[string(reason)] = n
			}
			return api.RetentionStats{Debt: debt, CountedAt: s.CountedAt, LastSweep: s.LastDone}
		}
	})
	runner = retention.NewSweeps(e.store, e.ledger, "test", retention.SweepOptions{}, e.clock.now, slog.New(slog.DiscardHandler))
	e.setPolicy("reasoning", `{"period":"PT1H","floor":"P30D","legalBasis":"a law","existing":true}`)
	e.setPolicy("notes", `{"period":"PT1H","slack":"PT1H","existing":true}`)
	stored := e.put("run", canaryText)
	for i := range 3 {
		e.ask("runtime", "POST", "/v1/executions/run/blobs?class=notes", fmt.Sprint("note ", i)).want(t, 201, "")
	}
	e.clock.add(90 * time.Minute)
	var all []wire.Debt
	for cursor := ""; ; {
		a := e.ask("dpo", "GET", "/v1/debt?limit=2&cursor="+cursor, "")
		a.want(t, http.StatusOK, "")
		var page wire.Debts
		a.into(t, &page)
		all = append(all, page.Items...)
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if len(all) != 4 || all[0].Class != "notes" || all[0].Reason != "sweep" {
		t.Fatalf("debt: %+v", all)
	}
	last := all[3]
	if last.Ref != stored.Ref || last.Reason != "floor" || *last.ExecutionID != "run" || !last.ExpiredAt.Equal(*stored.ExpiresAt) ||
		!last.Until.Equal(stored.CreatedAt.Add(30*24*time.Hour)) {
		t.Errorf("debt of a floor: %+v", last)
	}
	e.clock.add(time.Hour)
	must(t, runner.CountDebt(t.Context()))
	metrics := string(e.ask("", "GET", "/metrics", "").body)
	for _, line := range []string{
		`blobd_retention_debt_blobs{reason="overdue"} 3`, `blobd_retention_debt_blobs{reason="floor"} 1`,
		`blobd_retention_debt_blobs{reason="held"} 0`, "blobd_sweep_last_done_timestamp_seconds 0",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

// The next run of the schedule is told with every sweep.
func TestASweepTellsTheNextRun(t *testing.T) {
	next := time.Date(2031, 1, 2, 3, 4, 0, 0, time.UTC)
	e := newEnv(t, func(c *api.Config) {
		c.NextSweep = func(context.Context, ledger.Tenant) (time.Time, error) { return next, nil }
	})
	if s := e.sweep(`{}`); s.NextRun == nil || !s.NextRun.Equal(next) {
		t.Errorf("next run: %v", s.NextRun)
	}
}
