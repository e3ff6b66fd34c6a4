package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/internal/servers"
)

// vaultSettings start a Vault with exactly the policy that operators are given,
// and return how the program logs in there.
func vaultSettings(t *testing.T, v *servers.VaultServer) (settings []string, token string) {
	t.Helper()
	rules, err := os.ReadFile("../deploy/vault/blobd-policy.hcl")
	must(t, err)
	v.FreshTransit("transit")
	v.Policy("blobd", string(rules))
	token = v.NewToken("blobd", "1h")
	return []string{"BLOBD_KEYS=transit", "BLOBD_VAULT_ADDR=" + v.Address, "BLOBD_VAULT_TOKEN=" + token}, token
}

// check returns what readiness says of a dependency.
func (s *server) check(name string) (ok bool, status int) {
	s.t.Helper()
	a := s.get("/readyz?verbose")
	var p struct {
		Checks []struct {
			Name string `json:"name"`
			OK   bool   `json:"ok"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		s.t.Fatalf("readyz: %v: %s", err, a.body)
	}
	for _, c := range p.Checks {
		if c.Name == name {
			return c.OK, a.status
		}
	}
	s.t.Fatalf("readyz does not speak of %s: %s", name, a.body)
	return false, 0
}

func (s *server) wantUnavailable(what string, a answer) {
	s.t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		s.t.Errorf("%s: %d %s, %v, Retry-After %q; want 503 with Retry-After", what, a.status, a.problem().Code, a.err, a.header.Get("Retry-After"))
	}
}

// While Vault is down what is cached goes on until the cache's life ends, the
// rest is 503 with Retry-After, readiness says so, and no null is said.
func TestVaultGoesAndComesBack(t *testing.T) {
	v := servers.Vault(t, servers.VaultOptions{})
	settings, token := vaultSettings(t, v)
	life := 4 * time.Second
	s := start(t, t.TempDir(), append(settings, "BLOBD_KEYS_CACHE_TTL="+life.String())...)
	text := []byte("a thought kept under a key of Vault")
	put := s.mustPut("known", text)
	s.wantText("known", put.Ref, text)

	v.Seal()
	s.wantText("known", put.Ref, text)
	s.wantUnavailable("a put for a new execution", s.do(http.MethodPost, execution("new")+"/blobs?stepId=step", text))
	if ok, status := s.check("keys"); ok || status != http.StatusServiceUnavailable {
		t.Errorf("readyz with a sealed Vault: %d, keys ok: %v", status, ok)
	}
	s.eventually(30*time.Second, "the cache's life to end", func() bool {
		a := s.resolve("known", put.Ref)
		if a.isNull() {
			t.Fatal("a sealed Vault made a null")
		}
		return a.status != http.StatusOK
	})
	s.wantUnavailable("a resolve past the cache's life", s.resolve("known", put.Ref))

	v.Kill()
	s.wantUnavailable("a resolve without a Vault", s.resolve("known", put.Ref))
	v.Restart()
	s.waitReady()
	s.wantText("known", put.Ref, text)
	s.mustPut("new", text)

	if strings.Contains(s.stderr.String(), token) {
		t.Error("the log shows the token")
	}
}

// A node that starts beside a sealed Vault waits for it, and makes no key.
func TestStartBesideASealedVault(t *testing.T) {
	v := servers.Vault(t, servers.VaultOptions{})
	settings, _ := vaultSettings(t, v)
	dir := t.TempDir()
	s := start(t, dir, settings...)
	put := s.mustPut("run", []byte("before"))
	s.kill()

	v.Seal()
	s = listen(t, dir, settings...)
	s.wantUnavailable("readyz", s.get("/readyz"))
	s.wantUnavailable("a resolve", s.resolve("run", put.Ref))
	s.wantUnavailable("a put", s.do(http.MethodPost, execution("run")+"/blobs?stepId=step", []byte("after")))
	v.Unseal()
	s.waitReady()
	s.wantText("run", put.Ref, []byte("before"))
	s.kill()
	wantVerified(t, dir, settings...)

	list, err := v.Root().Logical().ListWithContext(t.Context(), "transit/keys")
	must(t, err)
	if got := fmt.Sprint(list.Data["keys"]); got != "[blobd.blobd_3aevidence.kek blobd.default.kek]" { // the log's and the tenant's
		t.Errorf("Transit holds %s", got)
	}
}

// The wrong Vault, or an empty one, is no reason for a null or a new key.
func TestAnotherVaultServesNothing(t *testing.T) {
	v := servers.Vault(t, servers.VaultOptions{})
	settings, _ := vaultSettings(t, v)
	dir := t.TempDir()
	s := start(t, dir, settings...)
	put := s.mustPut("run", []byte("text"))
	s.kill()
	if _, err := os.Stat(filepath.Join(dir, "keyring.json")); err == nil {
		t.Error("a local keyring was made")
	}

	v.FreshTransit("transit")
	s = listen(t, dir, settings...)
	s.wantUnavailable("readyz", s.get("/readyz"))
	s.wantUnavailable("a resolve", s.resolve("run", put.Ref))
	s.kill()

	// And a new folder does not take over keys in use.
	settings, _ = vaultSettings(t, v)
	start(t, t.TempDir(), settings...).kill()
	if code, out := offlineWith(t, settings, "serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"); code == 0 || !strings.Contains(out, "the key service holds keys of 1 tenants") {
		t.Errorf("a new ledger beside keys in use: exit %d, %s", code, out)
	}
}
