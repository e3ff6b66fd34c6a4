package servers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
)

// VaultOptions are what a test may want of Vault; the zero value is plain.
type VaultOptions struct {
	CertFile, KeyFile string // PEM of the listener; "": no TLS
	// Join makes this a second node of another's cluster.
	Join *VaultServer
}

// VaultServer is a Vault with one unseal key, initialised and unsealed. Its
// storage survives Kill and Start; then it is sealed until Unseal.
type VaultServer struct {
	*Process
	Address string // https:// with a certificate, http:// otherwise
	Token   string // of root

	t       testing.TB
	options VaultOptions
	dir     string
	client  *api.Client
	key     string
}

// Vault starts a Vault.
func Vault(t testing.TB, o VaultOptions) *VaultServer {
	t.Helper()
	v := &VaultServer{t: t, options: o, dir: t.TempDir()}
	port, cluster := freePort(t), freePort(t)
	scheme := "http"
	if o.CertFile != "" {
		scheme = "https"
	}
	v.Address = scheme + "://" + loopback(port)
	v.configure(port, cluster)
	v.Process = start(t, command{
		path: program(t, "vault"), args: []string{"server", "-config=" + filepath.Join(v.dir, "config.hcl"), "-log-level=warn"},
		env: bareEnv("HOME=" + v.dir), dir: v.dir, ready: v.answers,
	})
	v.client = v.As("")
	if o.Join != nil {
		v.key, v.Token = o.Join.key, o.Join.Token
		v.client.SetToken(v.Token)
		v.Until("joined", v.tryUnseal)
		return v
	}
	v.initialise()
	v.Unseal()
	return v
}

func (v *VaultServer) configure(port, cluster int) {
	v.t.Helper()
	v.must(os.MkdirAll(v.data(), 0o700))
	tls := `tls_disable = true`
	if v.options.CertFile != "" {
		tls = fmt.Sprintf("tls_cert_file = %q\n tls_key_file = %q", v.options.CertFile, v.options.KeyFile)
	}
	join := ""
	if v.options.Join != nil {
		join = fmt.Sprintf("retry_join { leader_api_addr = %q }", v.options.Join.Address)
	}
	config := fmt.Sprintf("storage \"raft\" {\n path = %q\n node_id = %q\n performance_multiplier = 1\n %s\n}\nlistener \"tcp\" {\n address = %q\n cluster_address = %q\n %s\n}\napi_addr = %q\ncluster_addr = %q\ndisable_mlock = true\n",
		v.data(), strconv.Itoa(port), join, loopback(port), loopback(cluster), tls, v.Address, "https://"+loopback(cluster))
	v.must(os.WriteFile(filepath.Join(v.dir, "config.hcl"), []byte(config), 0o600))
}

// Dir is the folder of everything that the server keeps.
func (v *VaultServer) Dir() string { return v.dir }

func (v *VaultServer) data() string { return filepath.Join(v.dir, "data") }

// answers is true for a Vault in any state, sealed too.
func (v *VaultServer) answers(ctx context.Context) error {
	c := v.As("")
	r, err := c.Sys().HealthWithContext(ctx)
	if err == nil && r == nil {
		err = fmt.Errorf("no health")
	}
	return err
}

func (v *VaultServer) initialise() {
	v.t.Helper()
	made, err := v.client.Sys().InitWithContext(v.t.Context(), &api.InitRequest{SecretShares: 1, SecretThreshold: 1})
	v.must(err)
	v.key, v.Token = made.Keys[0], made.RootToken
	v.client.SetToken(v.Token)
}

// As returns a client with a token. It trusts any certificate.
func (v *VaultServer) As(token string) *api.Client {
	v.t.Helper()
	c := api.DefaultConfig()
	v.must(c.Error)
	v.must(c.ConfigureTLS(&api.TLSConfig{Insecure: true}))
	c.Address, c.MaxRetries, c.Timeout = v.Address, 0, 10*time.Second
	client, err := api.NewClient(c)
	v.must(err)
	client.SetToken(token)
	v.t.Cleanup(c.HttpClient.CloseIdleConnections)
	return client
}

// Root returns the client of root.
func (v *VaultServer) Root() *api.Client { return v.client }

// Seal seals the Vault.
func (v *VaultServer) Seal() {
	v.t.Helper()
	v.must(v.client.Sys().SealWithContext(v.t.Context()))
}

// Unseal unseals the Vault, and waits until it serves.
func (v *VaultServer) Unseal() {
	v.t.Helper()
	v.must(v.tryUnseal(v.t.Context()))
	v.Until("active", func(ctx context.Context) error {
		h, err := v.client.Sys().HealthWithContext(ctx)
		if err == nil && (h.Sealed || h.Standby) {
			err = fmt.Errorf("sealed %v, standby %v", h.Sealed, h.Standby)
		}
		return err
	})
}

func (v *VaultServer) tryUnseal(ctx context.Context) error {
	status, err := v.client.Sys().UnsealWithContext(ctx, v.key)
	if err == nil && status.Sealed {
		err = fmt.Errorf("still sealed")
	}
	return err
}

// Until waits until try succeeds.
func (v *VaultServer) Until(what string, try func(context.Context) error) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), readyTime)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			v.t.Fatalf("vault is not %s: %v", what, err)
		case <-again.C:
		}
	}
}

// Restart starts the Vault again after Kill, and unseals it.
func (v *VaultServer) Restart() {
	v.t.Helper()
	v.Start()
	v.Unseal()
}

// Backup returns a folder with a copy of all that the Vault stores. The Vault is
// restarted for it.
func (v *VaultServer) Backup() string {
	v.t.Helper()
	v.Kill()
	to := filepath.Join(v.t.TempDir(), "backup")
	v.must(os.CopyFS(to, os.DirFS(v.data())))
	v.Restart()
	return to
}

// Restore brings back what Backup copied.
func (v *VaultServer) Restore(from string) {
	v.t.Helper()
	v.Kill()
	v.must(os.RemoveAll(v.data()))
	v.must(os.CopyFS(v.data(), os.DirFS(from)))
	v.Restart()
}

// FreshTransit mounts an empty Transit engine at a path, in place of what was
// mounted there.
func (v *VaultServer) FreshTransit(mount string) {
	v.t.Helper()
	v.must(v.client.Sys().UnmountWithContext(v.t.Context(), mount))
	v.must(v.client.Sys().MountWithContext(v.t.Context(), mount, &api.MountInput{Type: "transit"}))
}

// Policy writes a policy.
func (v *VaultServer) Policy(name, rules string) {
	v.t.Helper()
	v.must(v.client.Sys().PutPolicyWithContext(v.t.Context(), name, rules))
}

// NewToken makes a token that has one policy and nothing else.
func (v *VaultServer) NewToken(policy, ttl string) string {
	v.t.Helper()
	renewable := true
	made, err := v.client.Auth().Token().CreateOrphanWithContext(v.t.Context(), &api.TokenCreateRequest{
		Policies: []string{policy}, NoDefaultPolicy: true, TTL: ttl, Renewable: &renewable,
	})
	v.must(err)
	return made.Auth.ClientToken
}

// AppRole makes a role whose tokens have one policy and nothing else, and
// returns its id and a secret id.
func (v *VaultServer) AppRole(policy, ttl, maxTTL string) (roleID, secretID string) {
	v.t.Helper()
	auths, err := v.client.Sys().ListAuthWithContext(v.t.Context())
	v.must(err)
	if auths["approle/"] == nil {
		v.must(v.client.Sys().EnableAuthWithOptionsWithContext(v.t.Context(), "approle", &api.EnableAuthOptions{Type: "approle"}))
	}
	v.Write("auth/approle/role/blobd", map[string]any{
		"token_policies": policy, "token_no_default_policy": true, "token_ttl": ttl, "token_max_ttl": maxTTL,
	})
	id, err := v.client.Logical().ReadWithContext(v.t.Context(), "auth/approle/role/blobd/role-id")
	v.must(err)
	secret := v.Write("auth/approle/role/blobd/secret-id", nil)
	return id.Data["role_id"].(string), secret.Data["secret_id"].(string)
}

// Write writes as root.
func (v *VaultServer) Write(path string, data map[string]any) *api.Secret {
	v.t.Helper()
	made, err := v.client.Logical().WriteWithContext(v.t.Context(), path, data)
	v.must(err)
	return made
}

// Health returns the status of /v1/sys/health: 200 active, 429 standby, 503
// sealed.
func (v *VaultServer) Health() int {
	v.t.Helper()
	resp, err := v.client.CloneConfig().HttpClient.Get(v.Address + "/v1/sys/health")
	v.must(err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotFound {
		v.t.Fatal("not a Vault")
	}
	return resp.StatusCode
}

func (v *VaultServer) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}
