package api_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

const eraseX = `{"scope":{"executionId":"x"},"reason":"r"}`

func TestIdempotencyKey(t *testing.T) {
	e := newEnv(t)
	first := e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k1")
	first.want(t, http.StatusAccepted, "")
	again := e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k1")
	again.want(t, http.StatusAccepted, "")
	if string(first.body) != string(again.body) || first.header.Get("Location") != again.header.Get("Location") {
		t.Errorf("again: %s, want %s", again.body, first.body)
	}
	e.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"y"},"reason":"r"}`, wire.HeaderIdempotencyKey, "k1").
		want(t, http.StatusUnprocessableEntity, wire.CodeKeyReused)
	token := e.ask("admin", "POST", "/v1/tokens", `{"roles":["dpo"]}`, wire.HeaderIdempotencyKey, "k1")
	token.want(t, http.StatusCreated, "") // another route, another scope
	same := e.ask("admin", "POST", "/v1/tokens", `{"roles":["dpo"]}`, wire.HeaderIdempotencyKey, "k1")
	if string(same.body) != string(token.body) {
		t.Errorf("a token again: %s, want %s", same.body, token.body)
	}
	must(t, second(e))
	other := e.ask(e.newToken("second", "dpo"), "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k1")
	other.want(t, http.StatusAccepted, "")
	if string(other.body) == string(first.body) {
		t.Error("another tenant got the first answer")
	}
	e.clock.add(25 * time.Hour)
	later := e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k1")
	later.want(t, http.StatusAccepted, "")
	if string(later.body) == string(first.body) {
		t.Error("the answer was kept for more than 24 h")
	}
}

// Of two at once one runs, and the other is told so.
func TestIdempotencyKeyRace(t *testing.T) {
	e := newEnv(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.onFence = func() {
		once.Do(func() {
			close(entered)
			<-release
		})
	}
	done := make(chan answer)
	go func() { done <- e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k") }()
	<-entered
	e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k").want(t, http.StatusConflict, wire.CodeConflict)
	close(release)
	first := <-done
	first.want(t, http.StatusAccepted, "")
	again := e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k")
	if string(again.body) != string(first.body) {
		t.Errorf("again: %s, want %s", again.body, first.body)
	}
}

// A request that failed frees its key.
func TestIdempotencyKeyAfterFailure(t *testing.T) {
	e := newEnv(t)
	e.ask("dpo", "GET", "/v1/erasures", "").want(t, http.StatusOK, "") // the token is known
	e.gate.shut(blobd.ErrUnavailable)
	e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k").want(t, http.StatusServiceUnavailable, wire.CodeUnavailable)
	e.gate.shut(nil)
	e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k").want(t, http.StatusAccepted, "")
}

// A claim left by a node that ended in between does not refuse a repeat for ever.
func TestIdempotencyKeyAfterCrash(t *testing.T) {
	e := newEnv(t)
	ask := func() answer {
		return e.ask("dpo", "POST", "/v1/erasures", eraseX, wire.HeaderIdempotencyKey, "k")
	}
	claim, seal, err := e.store.RequestKeys(t.Context(), "default", "POST /v1/erasures", "k", []byte(eraseX))
	must(t, err)
	seal.Wipe()
	if _, found, err := e.ledger.Begin(t.Context(), claim, time.Time{}); err != nil || found {
		t.Fatal(found, err)
	}
	ask().want(t, http.StatusConflict, wire.CodeConflict)
	e.clock.add(2 * time.Minute)
	ask().want(t, http.StatusAccepted, "")
}
