package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/blobd/blobd/api/wire"
)

func TestPutThenResolve(t *testing.T) {
	e := newEnv(t)
	const path = "/v1/executions/run%2F1/blobs"
	first := e.ask("runtime", "POST", path+"?stepId=turn:1&attempt=2&class=notes&kind=summary&provider=p&model=m", canaryText)
	first.want(t, http.StatusCreated, "")
	var s wire.Stored
	first.into(t, &s)
	sum := sha256.Sum256([]byte(canaryText))
	if s.Digest != hex.EncodeToString(sum[:]) || s.Size != int64(len(canaryText)) || s.ExecutionID != "run/1" ||
		s.StepID != "turn:1" || s.Class != "notes" || s.ExpiresAt == nil || !s.ExpiresAt.Equal(s.CreatedAt.AddDate(1, 0, 0)) || !strings.HasPrefix(s.Ref, "sha256:") {
		t.Fatalf("stored = %+v", s)
	}
	if got, want := first.header.Get("Location"), path+"/"+s.Ref; got != want {
		t.Errorf("Location = %q, want %q", got, want)
	}

	again := e.ask("runtime", "POST", path+"?stepId=turn:9&class=notes&kind=summary", canaryText)
	again.want(t, http.StatusOK, "")
	var r wire.Stored
	again.into(t, &r)
	if r.Ref != s.Ref {
		t.Errorf("a repeat has ref %s, want %s", r.Ref, s.Ref)
	}

	get := e.ask("runtime", "GET", path+"/"+s.Ref+"?stepId=x&origin=reasoning", "")
	get.want(t, http.StatusOK, "")
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Content-Length": "37", "Blobd-Kind": "summary", "Blobd-Class": "notes",
		"Repr-Digest":   "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":",
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := get.header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if string(get.body) != canaryText {
		t.Errorf("body = %q", get.body)
	}

	head := e.ask("runtime", "HEAD", path+"/"+s.Ref, "")
	head.want(t, http.StatusOK, "")
	for _, name := range []string{"Content-Type", "Content-Length", "Repr-Digest", "Blobd-Kind", "Blobd-Class"} {
		if got, want := head.header.Get(name), get.header.Get(name); got != want {
			t.Errorf("HEAD: %s = %q, want %q", name, got, want)
		}
	}
	if len(head.body) != 0 {
		t.Errorf("HEAD has a body of %d bytes", len(head.body))
	}
}
