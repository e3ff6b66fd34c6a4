package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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

// trialVault is a Vault of the files in deploy/vault.
type trialVault struct {
	address, config, keys, login string
	process                      *exec.Cmd
}

func startVault(t *testing.T) *trialVault {
	t.Helper()
	dir := t.TempDir()
	v := &trialVault{config: filepath.Join(dir, "vault.hcl"), keys: filepath.Join(dir, "keys"), login: filepath.Join(dir, "login")}
	api, cluster := freeAddress(t), freeAddress(t)
	v.address = "http://" + api
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	config := readFile(t, filepath.Join(repository, "deploy/vault/vault.hcl"))
	for from, to := range map[string]string{"/vault/file": data, "0.0.0.0:8200": api, "http://vault:8200": v.address, "http://vault:8201": "http://" + cluster} {
		if strings.Count(config, from) != 1 {
			t.Fatalf("vault.hcl names %s %d times", from, strings.Count(config, from))
		}
		config = strings.Replace(config, from, to, 1)
	}
	config = strings.Replace(config, `tls_disable = true`, fmt.Sprintf("tls_disable = true\n  cluster_address = %q", cluster), 1)
	if err := os.WriteFile(v.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	v.start(t)
	return v
}

func (v *trialVault) start(t *testing.T) {
	t.Helper()
	v.process = startProgram(t, []string{"HOME=" + filepath.Dir(v.config)}, tool(t, "vault"), "server", "-config="+v.config, "-log-level=warn")
}

func (v *trialVault) end() {
	_ = v.process.Process.Kill()
	_ = v.process.Wait()
}

// init runs the step that the compose file runs.
func (v *trialVault) init(t *testing.T) {
	t.Helper()
	env := composeEnv(t, "vault-init")
	env["VAULT_ADDR"], env["KEYS_DIR"], env["LOGIN_DIR"] = v.address, v.keys, v.login
	env["POLICY"] = filepath.Join(repository, "deploy/vault/blobd-policy.hcl")
	env["HOME"] = filepath.Dir(v.config)
	env["PATH"] = filepath.Dir(tool(t, "vault")) + ":" + os.Getenv("PATH")
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(repository, "deploy/vault/init.sh"))
	cmd.Env = environ(env)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Vault is ready") {
		t.Fatalf("init.sh: %v\n%s", err, out)
	}
	if keys := readFile(t, filepath.Join(v.keys, "init.txt")); strings.Contains(string(out), strings.TrimSpace(keys)) {
		t.Error("init.sh prints the keys")
	}
}

// startMinIO returns the endpoint.
func startMinIO(t *testing.T) string {
	t.Helper()
	env := composeEnv(t, "minio")
	env["MINIO_ADDRESS"], env["MINIO_DATA"], env["HOME"] = freeAddress(t), t.TempDir(), t.TempDir()
	env["MINIO_CI_CD"] = "on" // a folder on the system's disk will do
	env["PATH"] = filepath.Dir(tool(t, "minio")) + ":" + os.Getenv("PATH")
	startProgram(t, environ(env), "sh", filepath.Join(repository, "deploy/minio/start.sh"))
	endpoint := "http://" + env["MINIO_ADDRESS"]
	awaitStatus(t, endpoint+"/minio/health/ready", http.StatusOK)
	return endpoint
}

// startBalancer starts the load balancer over one node; the other two are away.
// It returns its URL.
func startBalancer(t *testing.T, node string) string {
	t.Helper()
	config := readFile(t, filepath.Join(repository, "deploy/haproxy/haproxy.cfg"))
	address := freeAddress(t)
	for from, to := range map[string]string{
		"bind :8080": "bind " + address, "blobd1:8080": node, "blobd2:8080": freeAddress(t), "blobd3:8080": freeAddress(t),
	} {
		if strings.Count(config, from) != 1 {
			t.Fatalf("haproxy.cfg names %q %d times", from, strings.Count(config, from))
		}
		config = strings.Replace(config, from, to, 1)
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, nil, "/usr/sbin/haproxy", "-db", "-f", path)
	return "http://" + address
}

// startBlobd returns the URL that it serves on.
func startBlobd(t *testing.T, env map[string]string) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	cmd := program(t, environ(env), "blobd", "serve")
	cmd.Stdout = write
	startCommand(t, cmd)
	_ = write.Close()
	if err := read.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("blobd said %q, %v\n%s", line, err, cmd.Stderr.(*bytes.Buffer).String())
	}
	return url
}

// command runs blobd to its end and returns what it printed.
func command(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "blobd", args...)
	cmd.Env = environ(env)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		t.Fatalf("blobd %s: %v", args[0], err)
	}
	return string(out)
}

func program(t *testing.T, env []string, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = env
	cmd.Stderr = new(bytes.Buffer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// startCommand starts a program and ends it with the test.
func startCommand(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%s", cmd.Path, cmd.Stderr)
		}
	})
}

func startProgram(t *testing.T, env []string, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, env, path, args...)
	startCommand(t, cmd)
	return cmd
}

// tool is the path of a program that `make tools` installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	cache := os.Getenv("BLOBD_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "blobd-tools")
	}
	path := filepath.Join(cache, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing: `make tools` installs what the tests need (%v)", name, err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// awaitStatus asks until a URL answers with a status.
func awaitStatus(t *testing.T, url string, want int) {
	t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	for last := ""; ; {
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == want {
				return
			}
			last = resp.Status
		} else {
			last = err.Error()
		}
		select {
		case <-late.C:
			t.Fatalf("%s: want %d, last %s", url, want, last)
		case <-again.C:
		}
	}
}
