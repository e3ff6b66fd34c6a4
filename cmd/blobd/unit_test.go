package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

func problem(statusCode int, code wire.Code) error {
	return fmt.Errorf("op: %w", &client.Error{Status: statusCode, Problem: wire.Problem{Code: code}})
}

// The exit codes of the contract: 0 ok, 1 error, 2 partly done, 3 refused, 4 not
// ready or no definite answer, 5 definitive null.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"anything", errors.New("anything"), 1},
		{"invalid", problem(400, wire.CodeInvalid), 1},
		{"unauthenticated", problem(401, wire.CodeUnauthenticated), 1},
		{"forbidden", problem(403, wire.CodeForbidden), 1},
		{"not found", problem(404, wire.CodeNotFound), 1},
		{"conflict", problem(409, wire.CodeConflict), 1},
		{"not implemented", problem(501, wire.CodeNotImplemented), 1},
		{"partly", status(exitPartly), 2},
		{"policy", problem(422, wire.CodePolicyForbids), 3},
		{"held", problem(409, wire.CodeHeld), 3},
		{"plan drift", problem(409, wire.CodePlanDrift), 3},
		{"restricted", problem(409, wire.CodeRestricted), 3},
		{"erasure pending", problem(409, wire.CodeErasurePending), 3},
		{"execution erased", problem(410, wire.CodeExecutionErased), 3},
		{"blob erased", problem(410, wire.CodeBlobErased), 3},
		{"held, offline", fmt.Errorf("op: %w", blobd.ErrHeld), 3},
		{"unavailable", problem(503, wire.CodeUnavailable), 4},
		{"corrupt", problem(500, wire.CodeCorrupt), 4},
		{"missing", problem(500, wire.CodeBlobMissing), 4},
		{"key missing", problem(500, wire.CodeKeyMissing), 4},
		{"rate limited", problem(429, wire.CodeRateLimited), 4},
		{"a proxy's 404", &client.Error{Status: 404, Foreign: true}, 4},
		{"a proxy's 200", &client.Error{Status: 200, Foreign: true}, 4},
		{"damaged on its way", fmt.Errorf("op: %w", client.ErrDamaged), 4},
		{"nobody answers", &url.Error{Op: "Get", URL: "http://h", Err: errors.New("refused")}, 4},
		{"time is over", context.DeadlineExceeded, 4},
		{"unavailable, offline", fmt.Errorf("op: %w", blobd.ErrUnavailable), 4},
		{"null", fmt.Errorf("resolve: %w", client.ErrNull), 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.err); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestNulls(t *testing.T) {
	part := func(status string) wire.ResolvedPart { return wire.ResolvedPart{Status: status} }
	for _, c := range []struct {
		name  string
		parts []wire.ResolvedPart
		want  int
	}{
		{"all ok", []wire.ResolvedPart{part("ok"), part("ok")}, 0},
		{"one null", []wire.ResolvedPart{part("ok"), part("null")}, 2},
		{"all null", []wire.ResolvedPart{part("null"), part("null")}, 5},
	} {
		if got := nulls(wire.Resolved{Parts: c.parts}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestErasureCodes(t *testing.T) {
	for state, want := range map[string]int{
		"erased": 0, "running": 0, "grace": 0, "partial": 2, "deferred": 3, "denied": 3, "cancelled": 3, "awaiting_approval": 3,
	} {
		if got := erasureCode(state); got != want {
			t.Errorf("%s: %d, want %d", state, got, want)
		}
	}
}

// Variables that Kubernetes makes for a Service called blobd are no settings.
func TestForeignVariables(t *testing.T) {
	for _, name := range []string{
		"BLOBD_SERVICE_HOST", "BLOBD_SERVICE_PORT", "BLOBD_SERVICE_PORT_HTTP", "BLOBD_PORT", "BLOBD_PORT_8080_TCP",
		"BLOBD_PORT_8080_TCP_ADDR",
	} {
		if _, err := loadConfig(layers{Environ: []string{name + "=tcp://10.0.0.1:8080"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"BLOBD_", "BLOBD_PORTS", "BLOBD_SERVICE", "BLOBD_LISTENER"} {
		if _, err := loadConfig(layers{Environ: []string{name + "=1"}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every variable of the contract is known, and every key has its own variable.
func TestSettingsKnowTheContract(t *testing.T) {
	contract := strings.Fields(`
		BLOBD_LISTEN BLOBD_DATA_DIR BLOBD_LOG_LEVEL BLOBD_BACKEND BLOBD_BACKEND_ENDPOINT BLOBD_BACKEND_BUCKET
		BLOBD_BACKEND_REGION BLOBD_BACKEND_ACCESS_KEY BLOBD_BACKEND_SECRET_KEY BLOBD_BACKEND_PATH_STYLE
		BLOBD_BACKEND_PREFIX BLOBD_BACKEND_TLS_CA BLOBD_BACKEND_CACHE BLOBD_LEDGER_DSN BLOBD_KEYS BLOBD_VAULT_ADDR
		BLOBD_VAULT_TOKEN BLOBD_VAULT_TOKEN_FILE BLOBD_VAULT_MOUNT BLOBD_VAULT_NAMESPACE BLOBD_VAULT_ROLE_ID
		BLOBD_VAULT_SECRET_ID_FILE BLOBD_VAULT_K8S_ROLE BLOBD_VAULT_CACERT BLOBD_KEYS_CACHE_TTL BLOBD_KEYS_HORIZON
		BLOBD_KEYS_ROTATE_CRON BLOBD_SWEEP_CRON BLOBD_PUT_MARGIN BLOBD_OIDC_ISSUER BLOBD_TLS_CERT BLOBD_TLS_KEY
		BLOBD_SERVER BLOBD_TOKEN BLOBD_JOURNAL_DIR`)
	var known, keys []string
	for _, s := range settings() {
		if slices.Contains(known, s.Env) || slices.Contains(keys, s.Key) {
			t.Errorf("%s %s stands twice", s.Key, s.Env)
		}
		known, keys = append(known, s.Env), append(keys, s.Key)
	}
	for _, name := range contract {
		if !slices.Contains(known, name) {
			t.Errorf("%s is unknown", name)
		}
	}
}

func TestPlainSilencesTerminals(t *testing.T) {
	for in, want := range map[string]string{
		"tab\tand\nline":          "tab\tand\nline",
		"\x1b[31mred\x1b[0m":      "\ufffd[31mred\ufffd[0m",
		"bell\a back\b cr\r":      "bell\ufffd back\ufffd cr\ufffd",
		"csi \u009b31m":           "csi \ufffd31m",
		"turned \u202etxt.exe":    "turned \ufffdtxt.exe",
		"caf\u00e9 \u65e5 \u2713": "caf\u00e9 \u65e5 \u2713",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestConfirm(t *testing.T) {
	for in, want := range map[string]bool{
		"agent-1\n": true, "agent-1": true, "agent-1\r\n": true, "": false, "\n": false, "y\n": false, "agent-2\n": false, " agent-1\n": false,
	} {
		var stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(in), stderr: &stderr}
		if err := a.confirm("Sure", "agent-1"); (err == nil) != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestWriteSecretReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(path, []byte("a longer line than the new one\n"), 0o644))
	must(t, writeSecret(path, "short"))
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "short\n" {
		t.Errorf("%q %v", b, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestMakeFolderClosesOnlyWhatIsEmpty(t *testing.T) {
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		must(t, err)
		return info.Mode().Perm()
	}
	dir := t.TempDir()
	deep, empty, used := filepath.Join(dir, "a", "b"), filepath.Join(dir, "empty"), filepath.Join(dir, "used")
	for _, d := range []string{empty, used} {
		must(t, os.Mkdir(d, 0o755))
		must(t, os.Chmod(d, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(used, "file"), nil, 0o644))
	for path, want := range map[string]os.FileMode{deep: 0o700, empty: 0o700, used: 0o755} {
		must(t, makeFolder(path))
		if got := mode(path); got != want {
			t.Errorf("%s: mode %o, want %o", path, got, want)
		}
	}
}

// run is the program: a test calls it like any other caller.
func TestRunReturnsCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--help"}, 0}, {[]string{"version"}, 0}, {nil, 1}, {[]string{"put"}, 1}, {[]string{"config", "check"}, 0},
	} {
		var out, errOut bytes.Buffer
		got := run(t.Context(), c.args, nil, strings.NewReader(""), &out, &errOut)
		if got != c.want {
			t.Errorf("%q: %d, want %d (%s)", c.args, got, c.want, errOut.String())
		}
		if got == 0 && out.Len() == 0 || got != 0 && errOut.Len() == 0 {
			t.Errorf("%q: said nothing", c.args)
		}
	}
}

// A signal that arrives while a client command waits ends it soon, and not as a
// null.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	ref := "sha256:" + strings.Repeat("0", 64)
	got := run(ctx, []string{"resolve", "x", ref, "--server", "http://127.0.0.1:1"}, []string{"BLOBD_TOKEN=t"}, strings.NewReader(""), &out, &errOut)
	if got != exitUnsure {
		t.Errorf("%d %s", got, errOut.String())
	}
}
