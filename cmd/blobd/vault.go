package main

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys/transit"
)

// vaultConfig says where the Vault of the key driver transit is, and how to log
// in there.
type vaultConfig struct {
	Addr         string
	Mount        string
	Namespace    string
	CACert       string // PEM file
	Token        blobd.Text
	TokenFile    string
	RoleID       blobd.Text
	SecretIDFile string
	K8sRole      string
}

// decodeVault reads the keys of a Vault. Given to a driver that has none they
// are errors: the KEKs would silently be elsewhere.
func (c *config) decodeVault() []error {
	var errs []error
	text := func(key string) string { return c.values.String("vault." + key) }
	wrong := func(key, problem string) { errs = append(errs, c.wrong("vault."+key, problem)) }
	if c.Keys != "transit" {
		for _, key := range []string{"addr", "mount", "namespace", "caCert", "token", "tokenFile", "roleID", "secretIDFile", "k8sRole"} {
			if text(key) != "" && c.Keys != "" {
				wrong(key, "is of the driver transit, and keys.driver is another")
			}
		}
		return errs
	}
	c.Vault = vaultConfig{
		Addr: text("addr"), Mount: text("mount"), Namespace: text("namespace"), CACert: text("caCert"),
		Token: blobd.TextOf([]byte(text("token"))), TokenFile: text("tokenFile"),
		RoleID: blobd.TextOf([]byte(text("roleID"))), SecretIDFile: text("secretIDFile"), K8sRole: text("k8sRole"),
	}
	if u, err := url.Parse(c.Vault.Addr); err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		wrong("addr", "wants a URL like https://vault.example:8200")
	}
	if (text("roleID") == "") != (text("secretIDFile") == "") {
		wrong("roleID", "and vault.secretIDFile go together")
	}
	ways := 0
	for _, key := range []string{"token", "tokenFile", "roleID", "k8sRole"} {
		if text(key) != "" {
			ways++
		}
	}
	if ways != 1 {
		wrong("token", "or vault.tokenFile or vault.roleID or vault.k8sRole: wants exactly one of them")
	}
	return errs
}

func (v vaultConfig) login() transit.Login {
	switch {
	case v.TokenFile != "":
		return transit.TokenFile(v.TokenFile)
	case v.RoleID.Len() > 0:
		return transit.AppRole(string(v.RoleID.Bytes()), v.SecretIDFile)
	case v.K8sRole != "":
		return transit.Kubernetes(v.K8sRole, "")
	}
	return transit.Token(string(v.Token.Bytes()))
}

// openTransit builds the key service and asks Vault nothing yet: whether it
// answers is for readiness to say.
func openTransit(v vaultConfig, now func() time.Time, log *slog.Logger) (*transit.Keyring, error) {
	return transit.New(transit.Options{
		Address: v.Addr, Mount: v.Mount, Namespace: v.Namespace, CACert: v.CACert,
		Login: v.login(), Now: now, Log: log,
	})
}
