package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
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
		if status == http.StatusServiceUnavailable { // a folder in use starts while it listens
			r.becomesReady(t)
			status, answer = r.ask(t, "POST", putPath, strings.NewReader("one thought"))
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
	for step := range 12 {
		folder := filepath.Join(t.TempDir(), "data")
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(step)*8*time.Millisecond)
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
	head := "POST " + putPath + " HTTP/1.1\r\nHost: blobd\r\nAuthorization: Bearer " + token +
		"\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
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
	// Without its second place, or with it: both start.
	again := start(t, cfg)
	again.becomesReady(t)
	again.end(t)
}

func TestListenersAside(t *testing.T) {
	metrics, debug := freePort(t), freePort(t)
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), map[string]string{"metricsListen": metrics, "debugListen": debug})
	r := start(t, cfg)
	for _, c := range []struct {
		url    string
		status int
	}{
		{r.url + "/metrics", http.StatusNotFound},
		{r.url + "/debug/pprof/", http.StatusNotFound},
		{"http://" + metrics + "/metrics", http.StatusOK},
		{"http://" + metrics + "/debug/pprof/", http.StatusNotFound},
		{"http://" + debug + "/debug/pprof/", http.StatusOK},
		{"http://" + debug + "/metrics", http.StatusNotFound},
	} {
		if status, _ := ask(t, http.DefaultClient, "GET", c.url, "", nil); status != c.status {
			t.Errorf("%s: %d, want %d", c.url, status, c.status)
		}
	}
	r.end(t)
	if cfg := testConfig(t, "x", nil); cfg.DebugListen != "" {
		t.Errorf("profiles are on by default: %q", cfg.DebugListen)
	}
}

// freePort names a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	cert, key, pool := selfSigned(t)
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), map[string]string{"tls.cert": cert, "tls.key": key})
	r := start(t, cfg)
	if !strings.HasPrefix(r.url, "https://127.0.0.1:") {
		t.Errorf("url %s", r.url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	status, _ := ask(t, &http.Client{Transport: transport}, "GET", r.url+"/livez", "", nil)
	if status != http.StatusOK {
		t.Errorf("livez: %d", status)
	}
	r.end(t)

	must(t, os.WriteFile(key, []byte("no key"), 0o600))
	if err := serve(t.Context(), cfg, quiet(), func(string) { t.Error("it serves") }); err == nil {
		t.Error("a broken key was taken")
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile, pool
}
