package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
)

// running is a server in this process.
type running struct {
	url    string
	folder string
	cancel context.CancelFunc
	ended  chan error
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testConfig is a configuration on a free port.
func testConfig(t *testing.T, folder string, more map[string]string) config {
	t.Helper()
	flags := map[string]string{"dataDir": folder, "listen": "127.0.0.1:0", "putMargin": "100ms"}
	for key, value := range more {
		flags[key] = value
	}
	cfg, err := loadConfig(layers{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start runs a server until the test ends or end is called.
func start(t *testing.T, cfg config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{folder: cfg.DataDir, cancel: cancel, ended: make(chan error, 1)}
	address := make(chan string, 1)
	go func() { r.ended <- serve(ctx, cfg, quiet(), func(url string) { address <- url }) }()
	select {
	case r.url = <-address:
	case err := <-r.ended:
		cancel()
		t.Fatalf("serve: %v", err)
	}
	t.Cleanup(cancel)
	return r
}

// end ends the server and wants a clean end.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// ask sends one request with the admin token of the folder.
func (r *running) ask(t *testing.T, method, path string, body io.Reader) (status int, answer string) {
	t.Helper()
	token, err := readToken(filepath.Join(r.folder, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return ask(t, http.DefaultClient, method, r.url+path, token, body)
}

func ask(t *testing.T, c *http.Client, method, url, token string, body io.Reader) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true // no idle connection outlives the request
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

const putPath = "/v1/executions/x/blobs"

func TestServeStartsAndEndsAgainAndAgain(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := filepath.Join(t.TempDir(), "deep", "data")
	var ref string
	for round := range 8 {
		r := start(t, testConfig(t, folder, nil))
		status, answer := r.ask(t, "POST", putPath, strings.NewReader("one thought"))
		want := http.StatusCreated
		if round > 0 {
			want = http.StatusOK
		}
		if status != want {
			t.Fatalf("round %d: put: %d %s", round, status, answer)
		}
		if ref == "" {
			ref = answer[strings.Index(answer, "sha256:"):][:71]
		}
		if status, answer := r.ask(t, "GET", putPath+"/"+ref, nil); status != http.StatusOK || answer != "one thought" {
			t.Fatalf("round %d: resolve: %d %q", round, status, answer)
		}
		r.end(t)
	}
}

// becomesReady polls until the server is ready.
func (r *running) becomesReady(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		if status, _ := r.ask(t, "GET", "/readyz", nil); status == http.StatusOK {
			return
		}
	}
	t.Fatal("not ready")
}

// An end at any moment of the start leaves a folder that starts.
func TestServeEndsAtAnyMoment(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for step := range 8 {
		folder := filepath.Join(t.TempDir(), "data")
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(step)*12*time.Millisecond)
		err := serve(ctx, testConfig(t, folder, nil), quiet(), func(string) {})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("step %d: %v", step, err)
		}
		cancel()
		r := start(t, testConfig(t, folder, nil))
		r.becomesReady(t)
		if status, answer := r.ask(t, "POST", putPath, strings.NewReader("text")); status != http.StatusCreated {
			t.Errorf("step %d: put: %d %s", step, status, answer)
		}
		r.end(t)
	}
}

// putHead is the head of a put of 8 bytes, which waits to be asked for them.
func putHead(token string) string {
	return "POST " + putPath + " HTTP/1.1\r\nHost: blobd\r\nAuthorization: Bearer " + token +
		"\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n"
}

// A request that runs when the end is asked for is answered.
func TestEndDrains(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	r := start(t, testConfig(t, filepath.Join(t.TempDir(), "data"), nil))
	token, err := readToken(filepath.Join(r.folder, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, putHead(token)); err != nil {
		t.Fatal(err)
	}
	// The server asks for the body only once the handler reads it.
	answer := make([]byte, 1024)
	n, err := c.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 100") {
		t.Fatalf("%q %v", answer[:n], err)
	}
	r.cancel()
	for { // until new connections are refused, so that the end has begun
		again, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			break
		}
		_ = again.Close()
	}
	if _, err := io.WriteString(c, "thoughts"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 201") {
		t.Errorf("the answer was %q, %v", rest, err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// A first start that was cut short at any step is completed by the next.
func TestFirstStartIsCompleted(t *testing.T) {
	for _, c := range []struct {
		name string
		done func(t *testing.T, c *core)
	}{
		{"the ledger is made", func(*testing.T, *core) {}},
		{"the identity is confirmed", func(t *testing.T, c *core) { must(t, c.store.Start(t.Context())) }},
		{"the tenant is made", func(t *testing.T, c *core) {
			must(t, c.store.Start(t.Context()))
			_, err := c.store.CreateTenant(t.Context(), defaultTenant, "")
			must(t, err)
		}},
		{"the token is written and not committed", func(t *testing.T, c *core) {
			must(t, c.store.Start(t.Context()))
			_, err := c.store.CreateTenant(t.Context(), defaultTenant, "")
			must(t, err)
			must(t, writeSecret(filepath.Join(c.config.DataDir, tokenFile), "blobd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
		}},
		{"the token file is half written", func(t *testing.T, c *core) {
			must(t, c.store.Start(t.Context()))
			must(t, os.WriteFile(filepath.Join(c.config.DataDir, tokenFile+".tmp"), []byte("blobd_"), 0o600))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), nil)
			part, err := buildCore(t.Context(), cfg, time.Now, quiet())
			must(t, err)
			c.done(t, part)
			must(t, part.Close())

			r := start(t, cfg)
			r.becomesReady(t)
			if status, answer := r.ask(t, "POST", putPath, strings.NewReader("text")); status != http.StatusCreated {
				t.Errorf("put: %d %s", status, answer)
			}
			r.end(t)
		})
	}
}

// A token that cannot be written down is not committed.
func TestFirstStartWritesBeforeItCommits(t *testing.T) {
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), nil)
	must(t, os.MkdirAll(filepath.Join(cfg.DataDir, tokenFile, "in the way"), 0o700))
	must(t, os.Chmod(cfg.DataDir, 0o700))
	if err := serve(t.Context(), cfg, quiet(), func(string) { t.Error("it serves") }); err == nil {
		t.Fatal("no error")
	}
	c, err := buildCore(t.Context(), cfg, time.Now, quiet())
	must(t, err)
	tokens, err := c.ledger.ListTokens(t.Context(), defaultTenant, "", 10)
	if err != nil || len(tokens) != 0 {
		t.Errorf("tokens: %v %v", tokens, err)
	}
	must(t, c.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFolderInUseIsRefused(t *testing.T) {
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), nil)
	r := start(t, cfg)
	if err := serve(t.Context(), cfg, quiet(), func(string) {}); !errors.Is(err, blobd.ErrConflict) {
		t.Errorf("second server: %v", err)
	}
	r.end(t)
}

// A store that was emptied under its ledger is never a null: the server says
// that it is not ready, and why.
func TestEmptiedStoreIsNotReady(t *testing.T) {
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), nil)
	start(t, cfg).end(t)
	must(t, os.RemoveAll(filepath.Join(cfg.DataDir, objectsDir)))
	r := start(t, cfg)
	status, answer := r.ask(t, "GET", "/readyz?verbose", nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(answer, "recovery") {
		t.Errorf("readyz: %d %s", status, answer)
	}
	ref := "/sha256:0000000000000000000000000000000000000000000000000000000000000000"
	if status, answer := r.ask(t, "GET", putPath+ref, nil); status != http.StatusServiceUnavailable {
		t.Errorf("resolve: %d %s", status, answer)
	}
	if status, _ := r.ask(t, "GET", "/livez", nil); status != http.StatusOK {
		t.Errorf("livez: %d", status)
	}
	r.end(t)
}

// The second place of the journal holds what the store's own copy holds.
func TestJournalHasASecondPlace(t *testing.T) {
	dir := t.TempDir()
	second := filepath.Join(dir, "journal")
	cfg := testConfig(t, filepath.Join(dir, "data"), map[string]string{"journal.dir": second})
	r := start(t, cfg)
	status, answer := r.ask(t, "POST", "/v1/erasures", strings.NewReader(`{"scope":{"executionId":"gone"},"reason":"test"}`))
	if status != http.StatusAccepted {
		t.Fatalf("erase: %d %s", status, answer)
	}
	r.end(t)
	places, err := os.ReadDir(second)
	if err != nil || len(places) == 0 {
		t.Errorf("second place: %v %v", places, err)
	}
	again := start(t, cfg)
	again.becomesReady(t)
	again.end(t)
	// Told that there is none any more, it starts without.
	without := start(t, testConfig(t, filepath.Join(dir, "data"), map[string]string{"journal.dir": "none"}))
	without.becomesReady(t)
	without.end(t)
}
