package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// While the clock is suspect, what only time would make null is 503 on every way to ask,
// all else is as before, and the service stays ready and says so; one call ends it.
func TestASuspectClock(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("short", `{"period":"P10D","existing":true}`)
	lasting := e.put("x", "a text")
	var short wire.Stored
	e.ask("runtime", "POST", "/v1/executions/x/blobs?class=short", "another text").into(t, &short)
	path := "/v1/executions/x/blobs/"
	batch := fmt.Sprintf(`{"parts":[{"ref":%q},{"ref":%q},{"ref":%q}]}`, lasting.Ref, short.Ref, anyRef)
	state := func() (s wire.LedgerClock) {
		a := e.ask("operator", "GET", "/v1/clock", "")
		a.want(t, http.StatusOK, "")
		a.into(t, &s)
		return s
	}
	figure := func(want string) {
		t.Helper()
		if m := string(e.ask("", "GET", "/metrics", "").body); !strings.Contains(m, "\nblobd_clock_suspect "+want+"\n") {
			t.Errorf("the metrics lack blobd_clock_suspect %s", want)
		}
	}
	before := e.clock.now()
	if s := state(); s.Suspect || !s.Watched || s.Since != nil || s.Trusted != nil || s.Why != "" || !s.Now.Equal(before.Truncate(time.Microsecond)) {
		t.Errorf("before: %+v", s)
	}
	figure("0")

	e.clock.jump(30 * 24 * time.Hour)
	doubtful := func(a answer) {
		t.Helper()
		a.want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
		p := a.problem(t)
		if a.header.Get("Retry-After") == "" || a.header.Get(wire.HeaderResolution) != "" ||
			!strings.Contains(p.Detail, "clock") || !strings.Contains(p.Detail, "GET /v1/clock") {
			t.Errorf("problem %+v with %v", p, a.header)
		}
		if strings.Contains(string(a.body), "text\"") {
			t.Errorf("a text in %s", a.body)
		}
	}
	one := e.ask("runtime", "GET", path+short.Ref, "")
	doubtful(one)
	if p := one.problem(t); len(p.Refs) != 1 || p.Refs[0] != short.Ref {
		t.Errorf("refs %q, want the one", p.Refs)
	}
	whole := e.ask("runtime", "POST", "/v1/executions/x/resolve", batch)
	doubtful(whole)
	if p := whole.problem(t); len(p.Refs) != 1 || p.Refs[0] != short.Ref {
		t.Errorf("refs of the batch %q, want the one", p.Refs)
	}
	doubtful(e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"p"}`))
	doubtful(e.ask("runtime", "POST", "/v1/executions/x/blobs?class=short", "another text"))
	if a := e.ask("runtime", "HEAD", path+short.Ref, ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("HEAD: %d", a.status)
	}
	e.ask("runtime", "GET", path+lasting.Ref, "").want(t, http.StatusOK, "")
	e.ask("runtime", "GET", path+anyRef, "").want(t, http.StatusNotFound, wire.CodeNull)

	s := state()
	if !s.Suspect || s.Trusted == nil || !s.Trusted.Equal(before.Truncate(time.Microsecond)) || s.Since == nil ||
		s.Why != "the ledger's clock is 720h0m0s ahead of what was seen of it" {
		t.Errorf("suspect: %+v", s)
	}
	figure("1")
	var ready wire.Ready
	a := e.ask("", "GET", "/readyz", "")
	a.want(t, http.StatusOK, "")
	if a.into(t, &ready); len(ready.Warnings) != 1 || ready.Warnings[0] != "clock_suspect" {
		t.Errorf("readyz: %s", a.body)
	}

	a = e.ask("admin", "POST", "/v1/clock/confirm", "")
	a.want(t, http.StatusOK, "")
	var confirmed wire.LedgerClock
	if a.into(t, &confirmed); confirmed.Suspect || confirmed.Since != nil {
		t.Errorf("confirmed: %s", a.body)
	}
	figure("0")
	e.ask("runtime", "GET", path+short.Ref, "").want(t, http.StatusNotFound, wire.CodeNull)
	e.ask("runtime", "POST", "/v1/executions/x/resolve", batch).want(t, http.StatusOK, "")
	if a := e.ask("", "GET", "/readyz", ""); strings.Contains(string(a.body), "warnings") {
		t.Errorf("readyz after it: %s", a.body)
	}
	e.ask("operator", "POST", "/v1/clock/confirm", "").want(t, http.StatusOK, "") // nothing left to confirm
}

// A clock that is behind: no bytes past the maximum by the time that was seen.
func TestAClockThatWentBack(t *testing.T) {
	e := newEnv(t)
	e.setPolicy("short", `{"period":"P10D","existing":true}`)
	var short wire.Stored
	e.ask("runtime", "POST", "/v1/executions/x/blobs?class=short", "a text").into(t, &short)
	path := "/v1/executions/x/blobs/" + short.Ref
	e.clock.add(11 * 24 * time.Hour)
	e.ask("runtime", "GET", path, "").want(t, http.StatusNotFound, wire.CodeNull)
	e.clock.jump(-5 * 24 * time.Hour)
	e.ask("runtime", "GET", path, "").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
	var s wire.LedgerClock
	if e.ask("operator", "GET", "/v1/clock", "").into(t, &s); s.Why != "the ledger's clock is 120h0m0s behind what was seen of it" {
		t.Errorf("why: %q", s.Why)
	}
	e.clock.jump(5 * 24 * time.Hour)
	e.ask("runtime", "GET", path, "").want(t, http.StatusNotFound, wire.CodeNull)
}
