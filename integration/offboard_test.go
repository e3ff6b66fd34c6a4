package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd/internal/servers"
)

// A tenant is off-boarded with its KEK in Vault, under the policy file: its Transit
// key is destroyed, its marker stays, the other tenant notices nothing, and the
// next start needs no key of it.
func TestOffboardingDestroysTheTransitKey(t *testing.T) {
	v := servers.Vault(t, servers.VaultOptions{})
	settings, _ := vaultSettings(t, v)
	dir := t.TempDir()
	s := start(t, dir, settings...)
	text := []byte("a thought kept under a key of Vault")
	kept := s.mustPut("run", text)
	if a := s.post("/v1/tenants", map[string]string{"id": "leaver"}); a.status != http.StatusCreated {
		t.Fatalf("create a tenant: %d %s", a.status, a.body)
	}
	of := func(tenant string) []string { return []string{"Blobd-Tenant", tenant} }
	gone, err := s.put("run", []byte("to be erased"), of("leaver")...)
	must(t, err)
	resolve := func(tenant, ref string) answer { return s.get(execution("run")+"/blobs/"+ref, of(tenant)...) }
	wantOffboarded := func() {
		t.Helper()
		if a := resolve("leaver", gone.Ref); !a.isNull() {
			t.Errorf("resolve: %d %s, want the definitive null", a.status, a.problem().Code)
		}
		for _, run := range []string{"run", "never seen"} {
			a := s.do(http.MethodPost, execution(run)+"/blobs?stepId=step", text, of("leaver")...)
			if a.status != http.StatusGone || a.problem().Code != "execution_erased" {
				t.Errorf("put in %q: %d %s, want 410 execution_erased", run, a.status, a.problem().Code)
			}
		}
		if a := resolve("default", kept.Ref); a.status != http.StatusOK || string(a.body) != string(text) {
			t.Errorf("another tenant's resolve: %d %s", a.status, a.problem().Code)
		}
	}
	transitKeys := func() []string {
		t.Helper()
		list, err := v.Root().Logical().ListWithContext(t.Context(), "transit/keys")
		must(t, err)
		var names []string
		for _, name := range list.Data["keys"].([]any) {
			names = append(names, fmt.Sprint(name))
		}
		return names
	}
	if !slices.Contains(transitKeys(), "blobd.leaver.kek") {
		t.Fatalf("Transit holds %v", transitKeys())
	}

	if a := s.do(http.MethodDelete, "/v1/tenants/leaver", nil); a.status != http.StatusAccepted {
		t.Fatalf("off-board: %d %s", a.status, a.body)
	}
	wantOffboarded()
	state := func() string {
		var tenant struct {
			ErasureState string `json:"erasureState"`
		}
		must(t, json.Unmarshal(s.get("/v1/tenants/leaver").body, &tenant))
		return tenant.ErasureState
	}
	s.eventually(30*time.Second, "the off-boarding to end", func() bool { return state() == "erased" })
	wantOffboarded()
	left := transitKeys()
	if slices.Contains(left, "blobd.leaver.kek") || !slices.Contains(left, "blobd-destroyed.leaver.kek") || !slices.Contains(left, "blobd.default.kek") {
		t.Errorf("Transit holds %v", left)
	}

	s.kill()
	s = start(t, dir, settings...)
	wantOffboarded()
	if state() != "erased" {
		t.Errorf("after a restart the erasure is %s", state())
	}
	if a := s.post("/v1/tenants", map[string]string{"id": "leaver"}); a.status != http.StatusConflict {
		t.Errorf("the id is given again: %d %s", a.status, a.body)
	}
	s.kill()
	wantVerified(t, dir, settings...)
}
