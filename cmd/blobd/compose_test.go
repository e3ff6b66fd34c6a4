package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/blobd/blobd/internal/servers"
)

// The tests of this file hold what is made for containers to what can be run
// without them.

const repository = "../.."

// composeEnv is the environment that the compose file gives to a service, with
// the defaults of what may be set outside.
func composeEnv(t *testing.T, service string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := yaml.Parser().Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	of, ok := tree["services"].(map[string]any)[service].(map[string]any)
	if !ok {
		t.Fatalf("no service %s", service)
	}
	outside := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)
	env := make(map[string]string)
	for name, value := range of["environment"].(map[string]any) {
		env[name] = outside.ReplaceAllString(fmt.Sprint(value), "$1")
	}
	return env
}

func environ(env map[string]string) (list []string) {
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// TestComposeGivesKnownSettings: what the compose file gives to blobd is known to
// this version, and is a configuration.
func TestComposeGivesKnownSettings(t *testing.T) {
	for _, service := range []string{"blobd1", "blobd2", "blobd3"} {
		env := composeEnv(t, service)
		if len(env) < 10 {
			t.Errorf("%s has %d variables", service, len(env))
		}
		for name := range env {
			if !slices.ContainsFunc(settings(), func(s setting) bool { return s.Env == name && !s.Later }) {
				t.Errorf("%s: %s is no setting of this version", service, name)
			}
		}
		cfg, err := loadConfig(layers{Environ: environ(env)})
		if err != nil {
			t.Errorf("%s: %v", service, err)
		}
		if cfg.LedgerURL == "" || cfg.Keys != "transit" || cfg.Backend != "minio" {
			t.Errorf("%s works on %q, %q, %q", service, cfg.LedgerURL, cfg.Keys, cfg.Backend)
		}
	}
}

// TestImageIsBuiltFromAllThatIsNeeded: what the program is made of is not left
// out of the build of the image.
func TestImageIsBuiltFromAllThatIsNeeded(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repository, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}} {{$.EmbedFiles}}{{end}}{{end}}",
		"./cmd/blobd", "./deploy/ready")
	cmd.Dir = repository
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/blobd/blobd"
	found := 0
	for line := range strings.Lines(string(out)) {
		path, embedded, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		folder, _, _ := strings.Cut(path, "/")
		if path == "" {
			folder = "*.go"
		}
		if !slices.Contains(lines, "!"+folder) && !slices.Contains(lines, "!"+path) {
			t.Errorf("package %q is left out", path)
		}
		if strings.Contains(embedded, "testdata") {
			t.Errorf("package %q embeds %s", path, embedded)
		}
		found++
	}
	if found < 15 {
		t.Errorf("%d packages were looked at", found)
	}
}

// TestComposeTopology runs what the compose file runs, as processes: Vault with
// the very configuration and init script, MinIO with its start script, blobd with
// the environment of the file, in which addresses and folders alone are others.
func TestComposeTopology(t *testing.T) {
	vault := startVault(t)
	vault.init(t)
	minio := startMinIO(t)
	database := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})

	env := composeEnv(t, "blobd1")
	env["BLOBD_LISTEN"] = "127.0.0.1:0"
	env["BLOBD_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	_, query, _ := strings.Cut(env["BLOBD_LEDGER_DSN"], "sslmode=disable")
	env["BLOBD_LEDGER_DSN"] = database.URL(database.Database(t)) + query
	env["BLOBD_BACKEND_ENDPOINT"] = minio
	env["BLOBD_VAULT_ADDR"] = vault.address
	env["BLOBD_VAULT_SECRET_ID_FILE"] = filepath.Join(vault.login, "secret-id")

	url := startBlobd(t, env)
	awaitStatus(t, url+"/readyz", http.StatusOK)
	env["BLOBD_SERVER"] = url // in the container it is the default
	token := strings.TrimSpace(command(t, env, "token", "create", "--role", "runtime", "--name", "me"))
	client := map[string]string{"BLOBD_SERVER": url, "BLOBD_TOKEN": token, "BLOBD_DATA_DIR": t.TempDir()}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("a thought of the topology"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(command(t, client, "put", "run-1", "--file", text, "--json"))
	if got := command(t, client, "resolve", "run-1", ref); got != "a thought of the topology" {
		t.Errorf("resolved %q", got)
	}

	balancer := startBalancer(t, strings.TrimPrefix(url, "http://"))
	awaitStatus(t, balancer+"/readyz", http.StatusOK)
	client["BLOBD_SERVER"] = balancer
	if got := command(t, client, "resolve", "run-1", ref); got != "a thought of the topology" {
		t.Errorf("resolved %q by way of the balancer", got)
	}

	// A Vault that was restarted is sealed. The step that set it up unseals it, and
	// changes nothing else.
	before := readFile(t, filepath.Join(vault.login, "secret-id"))
	vault.end()
	vault.start(t)
	awaitStatus(t, url+"/readyz", http.StatusServiceUnavailable)
	awaitStatus(t, balancer+"/livez", http.StatusServiceUnavailable) // no node is chosen
	vault.init(t)
	awaitStatus(t, url+"/readyz", http.StatusOK)
	awaitStatus(t, balancer+"/livez", http.StatusOK)
	if after := readFile(t, filepath.Join(vault.login, "secret-id")); after != before {
		t.Error("another secret id after a restart")
	}
	for path, want := range map[string]fs.FileMode{filepath.Join(vault.keys, "init.txt"): 0o600, filepath.Join(vault.login, "secret-id"): 0o640} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}
