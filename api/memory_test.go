package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// stuckReader is a resolver whose answers wait once they hold their memory.
type stuckReader struct {
	api.Reader
	entered chan<- struct{}
	release <-chan struct{}
}

func (s stuckReader) wait(room func(context.Context, int64) error) func(context.Context, int64) error {
	return func(ctx context.Context, n int64) error {
		if err := room(ctx, n); err != nil {
			return err
		}
		s.entered <- struct{}{}
		<-s.release
		return nil
	}
}

func (s stuckReader) Resolve(ctx context.Context, q resolver.Request) (resolver.Answer, error) {
	if q.Origin == "stuck" {
		q.Room = s.wait(q.Room)
	}
	return s.Reader.Resolve(ctx, q)
}

// stuckEnv is a server with a budget of bytes, one blob of 300,000 bytes and one
// of 10, and with puts to the execution "stuck" and reads of the origin "stuck"
// that wait until they are let go.
func stuckEnv(t *testing.T, budget int64) (e *env, large, small wire.Stored, entered <-chan struct{}, letGo func()) {
	enter, release := make(chan struct{}), make(chan struct{})
	e = newEnv(t, func(c *api.Config) {
		c.MaxInFlight, c.MemoryWait = budget, 20*time.Millisecond
		inner := c.Store
		c.Store = stuckCore{inner, func(ctx context.Context, r store.PutRequest) (store.Stored, error) {
			if r.ExecutionID == "stuck" {
				enter <- struct{}{}
				<-release
			}
			return inner.Put(ctx, r)
		}}
		c.Resolver = stuckReader{c.Resolver, enter, release}
	})
	large = e.put("x", strings.Repeat("l", 300_000))
	small = e.put("x", "small text")
	done := false
	letGo = func() {
		if !done {
			close(release)
		}
		done = true
	}
	t.Cleanup(letGo) // before the server is closed, which waits for them
	return e, large, small, enter, letGo
}

// wantFull wants the 429 of a full memory.
func wantFull(t *testing.T, a answer) {
	t.Helper()
	a.want(t, http.StatusTooManyRequests, wire.CodeRateLimited)
	if a.header.Get("Retry-After") == "" || a.header.Get(wire.HeaderResolution) != "" {
		t.Errorf("headers of a 429: %v", a.header)
	}
}

// Whatever holds the memory, a request that moves much is told to come again,
// one that moves little and one that is null are answered, and later all are.
func TestMemoryBudget(t *testing.T) {
	const budget = 700_000
	batchOf := func(ref string) string { return fmt.Sprintf(`{"origin":"stuck","parts":[{"ref":%q}]}`, ref) }
	for name, hold := range map[string]func(e *env, large string) answer{
		"put": func(e *env, _ string) answer {
			return e.ask("runtime", "POST", "/v1/executions/stuck/blobs", strings.Repeat("x", 600_000))
		},
		"resolve": func(e *env, large string) answer {
			return e.ask("runtime", "GET", "/v1/executions/x/blobs/"+large+"?origin=stuck", "")
		},
		"batch": func(e *env, large string) answer {
			return e.ask("runtime", "POST", "/v1/executions/x/resolve", batchOf(large))
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Every share below is cut to what there is: nothing is left.
			e, large, small, entered, letGo := stuckEnv(t, budget)
			held := make(chan answer, 1)
			go func() { held <- hold(e, large.Ref) }()
			<-entered
			checks := map[string]func() answer{
				"put":     func() answer { return e.ask("runtime", "POST", "/v1/executions/x/blobs", strings.Repeat("y", 600_000)) },
				"resolve": func() answer { return e.ask("runtime", "GET", "/v1/executions/x/blobs/"+large.Ref, "") },
				"batch": func() answer {
					return e.ask("runtime", "POST", "/v1/executions/x/resolve", fmt.Sprintf(`{"parts":[{"ref":%q}]}`, large.Ref))
				},
				"read": func() answer {
					return e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"a check","maxBytes":1000000}`)
				},
				"capture": func() answer {
					body, _ := json.Marshal(wire.CaptureRequest{Reasoning: []wire.Reasoning{{Kind: "text", Signature: strings.Repeat("s", 300_000)}}})
					return e.ask("runtime", "POST", "/v1/executions/x/captures", string(body))
				},
			}
			for what, ask := range checks {
				t.Run(what, func(t *testing.T) { wantFull(t, ask()) })
			}
			e.ask("runtime", "GET", "/v1/executions/x/blobs/"+anyRef, "").want(t, http.StatusNotFound, wire.CodeNull)
			e.ask("runtime", "GET", "/v1/executions/elsewhere/blobs/"+large.Ref, "").want(t, http.StatusNotFound, wire.CodeNull)
			e.ask("runtime", "GET", "/v1/executions/x/blobs/"+small.Ref, "").want(t, http.StatusOK, "")
			m := string(e.ask("", "GET", "/metrics", "").body)
			for _, want := range []string{
				fmt.Sprintf("blobd_memory_budget_bytes %d\n", budget), fmt.Sprintf("blobd_memory_refused_total %d\n", len(checks)),
			} {
				if !strings.Contains(m, want) {
					t.Errorf("no %q in the metrics", want)
				}
			}
			letGo()
			if a := <-held; a.status >= 300 {
				t.Errorf("the one that held: %d %s", a.status, a.body)
			}
			for what, ask := range checks {
				if a := ask(); a.status >= 300 {
					t.Errorf("%s after all was given back: %d %.200s", what, a.status, a.body)
				}
			}
			wantNothingHeld(t, e)
		})
	}
}

// wantNothingHeld waits for the ends of requests that were answered already.
func wantNothingHeld(t *testing.T, e *env) {
	t.Helper()
	for range 1000 {
		if m := string(e.ask("", "GET", "/metrics", "").body); strings.Contains(m, "blobd_memory_held_bytes 0\n") {
			return
		}
	}
	t.Error("memory is held by nobody")
}

// A request that needs more than there is has it alone, and gives it back.
func TestMemoryOfOneLargeRequest(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.MaxInFlight = 1000 })
	text := strings.Repeat("x", 2<<20)
	for range 2 {
		s := e.put("x", text)
		a := e.ask("runtime", "GET", "/v1/executions/x/blobs/"+s.Ref, "")
		if a.status != http.StatusOK || string(a.body) != text {
			t.Fatalf("resolve: %d with %d bytes", a.status, len(a.body))
		}
	}
	wantNothingHeld(t, e)
}

// An audit read with a long log holds memory for it too, and gives it back.
func TestMemoryOfALongLog(t *testing.T) {
	e := newEnv(t)
	s := e.put("x", "read by a person")
	event := fmt.Sprintf(`{"stepId":"","attempt":1,"parts":[{"kind":"text","ref":%q,"digest":%q,"size":%d}]}`, s.Ref, s.Digest, s.Size)
	for _, others := range []int{0, 2000, 99_000} {
		log := `{"purpose":"a check","events":[` + event + strings.Repeat(`,{"stepId":"other"}`, others) + `]}`
		var out wire.ReadAnswer
		a := e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", log)
		a.want(t, http.StatusOK, "")
		a.into(t, &out)
		if len(out.Parts) != 1 || out.Parts[0].Content == nil || string(out.Parts[0].Content.Text.Bytes()) != "read by a person" {
			t.Errorf("%d other events: %s", others, a.body)
		}
	}
	log := `{"purpose":"a check","events":[{}` + strings.Repeat(`,{}`, 100_000) + `]}`
	e.ask("auditor", "POST", "/v1/executions/x/reasoning/read", log).want(t, http.StatusRequestEntityTooLarge, wire.CodeTooLarge)
	wantNothingHeld(t, e)
}
