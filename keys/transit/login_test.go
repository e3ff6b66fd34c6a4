package transit_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/transit"
)

// requests sees every request to Vault: its path and its token.
type requests struct{ seen chan request }

type request struct {
	verb, path, token, namespace string
	status                       int // 0: no answer
}

func newRequests() *requests { return &requests{make(chan request, 10_000)} }

func (q *requests) option(o *transit.Options) { o.Transport = q.transport }

func (q *requests) transport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		got := request{r.Method, r.URL.Path, r.Header.Get("X-Vault-Token"), r.Header.Get("X-Vault-Namespace"), 0}
		if err == nil {
			got.status = resp.StatusCode
		}
		q.seen <- got
		return resp, err
	})
}

// all returns what was seen since it was last asked.
func (q *requests) all() []request {
	var got []request
	for {
		select {
		case r := <-q.seen:
			got = append(got, r)
		default:
			return got
		}
	}
}

func count(all []request, path string) int {
	n := 0
	for _, r := range all {
		if strings.HasPrefix(r.path, "/v1/"+path) {
			n++
		}
	}
	return n
}

// await waits until a request to path was answered by 200.
func (q *requests) await(t *testing.T, path string) request {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		select {
		case r := <-q.seen:
			if r.path == "/v1/"+path && r.status == http.StatusOK {
				return r
			}
		case <-late.C:
			t.Fatalf("nobody asked for %s", path)
		}
	}
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func appRole(t *testing.T, v *servers.VaultServer, ttl, maxTTL string) transit.Login {
	t.Helper()
	role, secretID := v.AppRole("blobd", ttl, maxTTL)
	return transit.AppRole(role, file(t, "secret-id", secretID+"\n"))
}

func TestAppRoleLogsInAgainWhenItsTokenDied(t *testing.T) {
	v := vault(t)
	at, q := newClock(), newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login, o.Now = appRole(t, v, "1h", "2h"), at.now })
	w := acme(t, k)
	for range 3 {
		opens(t, k, w)
	}
	all := q.all()
	if n := count(all, "auth/approle/login"); n != 1 {
		t.Fatalf("%d logins, want 1", n)
	}
	must(t, v.Root().Auth().Token().RevokeTreeWithContext(t.Context(), all[len(all)-1].token))
	at.move(time.Minute)
	opens(t, k, w)
	opens(t, k, w)
	if n := count(q.all(), "auth/approle/login"); n != 1 {
		t.Fatalf("%d logins after the token died, want 1", n)
	}
}

// A policy that refuses is no dead token: logging in again would not help.
func TestAPolicyThatRefusesCausesNoLogin(t *testing.T) {
	v := vault(t)
	at, q := newClock(), newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login, o.Now = appRole(t, v, "1h", "2h"), at.now })
	w := acme(t, k)
	q.all()
	v.Policy("blobd", `path "auth/token/lookup-self" { capabilities = ["read"] }`)
	for range 5 {
		at.move(time.Minute)
		wantOnly(t, "Unwrap", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), blobd.ErrDenied)
	}
	if n := count(q.all(), "auth/approle/login"); n != 0 {
		t.Errorf("%d logins", n)
	}
	// Where not even the token can be looked at, logins are tried and rare.
	v.Policy("blobd", `path "nothing" { capabilities = ["read"] }`)
	at.move(time.Minute)
	for range 5 {
		wantOnly(t, "Unwrap", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), blobd.ErrDenied)
	}
	if n := count(q.all(), "auth/approle/login"); n != 1 {
		t.Errorf("%d logins within a moment, want 1", n)
	}
}

func TestLoginsToADeadVaultAreBounded(t *testing.T) {
	v := vault(t)
	at, q := newClock(), newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login, o.Now = appRole(t, v, "1h", "2h"), at.now })
	v.Kill()
	for range 50 {
		wantOnly(t, "Check", k.Check(t.Context()), blobd.ErrUnavailable)
	}
	if n := len(q.all()); n != 1 {
		t.Errorf("%d requests for 50 calls, want 1", n)
	}
	v.Restart()
	at.move(time.Minute)
	must(t, k.Check(t.Context()))
}

func TestAWrongSecretIDIsDenied(t *testing.T) {
	v := vault(t)
	role, _ := v.AppRole("blobd", "1h", "2h")
	k := open(t, v, func(o *transit.Options) { o.Login = transit.AppRole(role, file(t, "id", "wrong")) })
	wantOnly(t, "Check", k.Check(t.Context()), blobd.ErrDenied)
	k = open(t, v, func(o *transit.Options) { o.Login = transit.AppRole(role, filepath.Join(t.TempDir(), "absent")) })
	err := k.Check(t.Context())
	wantOnly(t, "Check", err, blobd.ErrUnavailable)
}

// run runs a keyring until the test's end.
func run(t *testing.T, k *transit.Keyring) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Renewed while it can be, replaced when its longest life is over; no call fails
// meanwhile.
func TestRunKeepsAShortLoginAlive(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login = appRole(t, v, "2s", "4s") })
	w := acme(t, k)
	run(t, k)
	first := q.await(t, "auth/token/renew-self")
	opens(t, k, w)
	q.await(t, "auth/approle/login")
	opens(t, k, w)
	if second := q.await(t, "auth/token/renew-self"); second.token == first.token {
		t.Error("the second login has the token of the first")
	}
	opens(t, k, w)
}

func TestRunRenewsAGivenToken(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login = transit.Token(v.NewToken("blobd", "2s")) })
	w := acme(t, k)
	run(t, k)
	for range 3 {
		q.await(t, "auth/token/renew-self")
		opens(t, k, w)
	}
}

func TestRunEndsWhileVaultIsDown(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option, func(o *transit.Options) { o.Login = transit.AppRole("role", file(t, "id", "x")) })
	v.Kill()
	run(t, k)
	<-q.seen // it tried; the end of the test ends it
}

func TestATokenFileIsReadAgain(t *testing.T) {
	v := vault(t)
	first, second := v.NewToken("blobd", "1h"), v.NewToken("blobd", "1h")
	path, at := file(t, "token", first+"\n"), newClock()
	k := open(t, v, func(o *transit.Options) { o.Login, o.Now = transit.TokenFile(path), at.now })
	w := acme(t, k)
	must(t, v.Root().Auth().Token().RevokeTreeWithContext(t.Context(), first))
	at.move(time.Minute)
	wantOnly(t, "the same token", outcome(k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})), blobd.ErrDenied)
	must(t, os.WriteFile(path, []byte(second), 0o600))
	at.move(time.Minute)
	opens(t, k, w)
	must(t, os.Remove(path))
	opens(t, k, w)
}

// This Vault has no Kubernetes engine, so the login alone is answered here, as
// Vault documents it; all else is the real server.
func TestKubernetesSendsTheServiceAccountsToken(t *testing.T) {
	v := vault(t)
	path, at := file(t, "jwt", "jwt-1\n"), newClock()
	type login struct{ JWT, Role string }
	var logins []login
	var token string
	k := open(t, v, func(o *transit.Options) {
		o.Login, o.Now = transit.Kubernetes("blobd-role", path), at.now
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/v1/auth/kubernetes/login" {
					return next.RoundTrip(r)
				}
				var l login
				must(t, json.NewDecoder(r.Body).Decode(&l))
				logins, token = append(logins, l), v.NewToken("blobd", "1h")
				body, err := json.Marshal(map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": 3600, "renewable": true}})
				must(t, err)
				return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(body))}, nil
			})
		}
	})
	w := acme(t, k)
	must(t, os.WriteFile(path, []byte("jwt-2"), 0o600))
	must(t, v.Root().Auth().Token().RevokeTreeWithContext(t.Context(), token))
	at.move(time.Minute)
	opens(t, k, w)
	if len(logins) != 2 || logins[0] != (login{"jwt-1", "blobd-role"}) || logins[1] != (login{"jwt-2", "blobd-role"}) {
		t.Errorf("logins: %+v", logins)
	}
}

// No variable of Vault's SDK has a say: not where requests go, nor as whom, nor
// whether certificates are checked, and a senseless one breaks nothing.
func TestTheEnvironmentHasNoSay(t *testing.T) {
	v := vault(t)
	bogus, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = bogus.Close() }()
	elsewhere := "http://" + bogus.Addr().String()
	token := v.NewToken("blobd", "1h")
	for name, value := range map[string]string{
		"VAULT_ADDR": elsewhere, "VAULT_AGENT_ADDR": elsewhere, "VAULT_PROXY_ADDR": elsewhere, "VAULT_HTTP_PROXY": elsewhere,
		"HTTP_PROXY": elsewhere, "HTTPS_PROXY": elsewhere, "VAULT_TOKEN": "bogus", "VAULT_NAMESPACE": "bogus",
		"VAULT_SKIP_VERIFY": "perhaps", "VAULT_MAX_RETRIES": "9", "VAULT_CLIENT_TIMEOUT": "1ns", "VAULT_CACERT": "/nowhere",
		"VAULT_RATE_LIMIT": "0.001", "VAULT_HEADERS": `{"X-Bogus":"1"}`, "VAULT_WRAP_TTL": "5m", "VAULT_SRV_LOOKUP": "true",
	} {
		t.Setenv(name, value)
	}
	q := newRequests()
	k, err := transit.New(transit.Options{Address: v.Address, Login: transit.Token(token), Transport: q.transport})
	must(t, err)
	defer func() { must(t, k.Close()) }()
	opens(t, k, acme(t, k))
	for _, r := range q.all() {
		if r.token != token || r.namespace != "" {
			t.Errorf("%s %s as another or in a namespace %q", r.verb, r.path, r.namespace)
		}
	}
	if name, ok := os.LookupEnv("VAULT_ADDR"); ok {
		t.Errorf("VAULT_ADDR is left: %q", name)
	}
}

func TestTheNamespaceIsSent(t *testing.T) {
	q := newRequests()
	k, err := transit.New(transit.Options{
		Address: "http://127.0.0.1:1", Namespace: "team/blobd", Login: transit.Token("t"),
		Transport: func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				q.seen <- request{namespace: r.Header.Get("X-Vault-Namespace")}
				return nil, io.ErrUnexpectedEOF
			})
		},
	})
	must(t, err)
	wantOnly(t, "Check", k.Check(t.Context()), blobd.ErrUnavailable)
	if r := <-q.seen; strings.Trim(r.namespace, "/") != "team/blobd" {
		t.Errorf("namespace %q", r.namespace)
	}
}

func TestTLSTrustsTheGivenCAOnly(t *testing.T) {
	cert, key := certificate(t)
	other, _ := certificate(t)
	v := servers.Vault(t, servers.VaultOptions{CertFile: cert, KeyFile: key})
	prepare(t, v)
	k := open(t, v, func(o *transit.Options) { o.CACert = cert })
	opens(t, k, acme(t, k))
	for _, ca := range []string{"", other} {
		k := open(t, v, func(o *transit.Options) { o.CACert = ca })
		err := k.Check(t.Context())
		wantOnly(t, "Check", err, blobd.ErrUnavailable)
		if !strings.Contains(err.Error(), "certificate") {
			t.Errorf("it does not say why: %v", err)
		}
	}
}

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: serial.String()}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return file(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func TestOptionsThatCannotWork(t *testing.T) {
	good := transit.Options{Address: "https://vault.example:8200", Login: transit.Token("t")}
	if _, err := transit.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*transit.Options){
		"no address":            func(o *transit.Options) { o.Address = "" },
		"another scheme":        func(o *transit.Options) { o.Address = "unix:///tmp/x" },
		"no host":               func(o *transit.Options) { o.Address = "http://" },
		"a password":            func(o *transit.Options) { o.Address = "http://me:pw@host" },
		"a path":                func(o *transit.Options) { o.Address = "http://host/v1" },
		"no login":              func(o *transit.Options) { o.Login = transit.Login{} },
		"a mount that climbs":   func(o *transit.Options) { o.Mount = "../sys" },
		"a mount that asks":     func(o *transit.Options) { o.Mount = "transit?x" },
		"a mount with a slash":  func(o *transit.Options) { o.Mount = "transit/" },
		"a CA file that is not": func(o *transit.Options) { o.CACert = "/nowhere" },
		"a CA file of no CA":    func(o *transit.Options) { o.CACert = file(t, "ca", "none") },
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			change(&o)
			_, err := transit.New(o)
			wantOnly(t, "New", err, blobd.ErrInvalid)
			if strings.Contains(err.Error(), "pw") {
				t.Errorf("the error repeats the password: %v", err)
			}
		})
	}
}
