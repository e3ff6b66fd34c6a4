package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What TestComposeTopology starts.

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
