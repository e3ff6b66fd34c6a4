// Package transit is a key service over the Transit engine of HashiCorp Vault
// (or OpenBao): one Transit key per tenant, which never leaves Vault.
//
// It promises that whatever Vault does instead of answering (sealed, standby,
// a refused token or policy, a missing mount, a quota, a fault, silence) is an
// error and never an absence; that wrapping never creates a key; that the
// variables VAULT_* have no say; and that neither a token nor a key appears in
// an error.
//
// A destroyed KEK is one that Vault says so of: Destroy first writes a marker,
// a small Transit key named after the tenant, and then deletes the KEK. ErrErased
// for a whole KEK is said only where the KEK is gone and its marker is there. A
// key that is merely absent (deleted by hand, a mount made anew, a Vault restored
// from before the tenant) has no marker and is ErrNotFound, which package keys
// reports as a loss. So not even a Vault that forgot can turn a text into a null:
// that is the ledger's word alone.
//
// What it cannot do: a Vault restored from an older snapshot has the versions and
// KEKs again that were destroyed since. docs/keys.md says what follows.
package transit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/blobd/blobd"
)

// Defaults of Options.
const (
	DefaultMount   = "transit"
	DefaultTimeout = 8 * time.Second
)

// Options say where Vault is and how to log in. Address and Login are required.
type Options struct {
	Address   string // http:// or https://, host and port
	Mount     string // of the Transit engine; "": DefaultMount
	Namespace string // "": none
	CACert    string // PEM file of the CAs to trust; "": the system's
	Login     Login

	// Timeout bounds one method, whatever it asks of Vault. Not above 0:
	// DefaultTimeout.
	Timeout time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Transport, if set, wraps the connection to Vault, to count or trace.
	Transport func(http.RoundTripper) http.RoundTripper
	// Log gets what happens to the login; nil: nothing.
	Log *slog.Logger
}

// Keyring is a keys.Keyring. Close it. Its methods try a call once and report
// what came of it; only a call that a dead token caused to fail is made again,
// after one new login.
type Keyring struct {
	client    *api.Client
	transport *http.Transport
	session   *session
	mount     string
	timeout   time.Duration
	proved    atomic.Bool // the mount was seen to be a Transit engine
}

// New builds a keyring and asks Vault nothing: the first call logs in. Options
// that cannot work are ErrInvalid, a CA file that cannot be read too.
//
// New removes the variables VAULT_* from this process's environment: Vault's SDK
// reads them in many places, and some would send keys elsewhere.
func New(o Options) (*Keyring, error) {
	k, err := newKeyring(o)
	if err != nil {
		return nil, fmt.Errorf("transit: %w", err)
	}
	return k, nil
}

func newKeyring(o Options) (*Keyring, error) {
	o = o.withDefaults()
	if !o.Login.valid() {
		return nil, fmt.Errorf("no way to log in: %w", blobd.ErrInvalid)
	}
	if err := checkMount(o.Mount); err != nil {
		return nil, err
	}
	hideEnvironment()
	transport, err := newTransport(o)
	if err != nil {
		return nil, err
	}
	var through http.RoundTripper = transport
	if o.Transport != nil {
		through = o.Transport(through)
	}
	// The SDK follows one redirect of a standby node itself.
	shared := &http.Client{Transport: limited{through}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	client, err := newClient(o, shared, 0)
	if err != nil {
		return nil, err
	}
	logins, err := newClient(o, shared, loginTimeout)
	if err != nil {
		return nil, err
	}
	return &Keyring{
		client: client, transport: transport, mount: o.Mount, timeout: o.Timeout,
		session: newSession(o, client, logins),
	}, nil
}

func (o Options) withDefaults() Options {
	if o.Mount == "" {
		o.Mount = DefaultMount
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run keeps the login alive until ctx ends; then it returns nil. Without it a
// call that finds the token dead logs in again.
func (k *Keyring) Run(ctx context.Context) error { return k.session.run(ctx) }

// Close closes idle connections.
func (k *Keyring) Close() error {
	k.transport.CloseIdleConnections()
	return nil
}

// Format hides the token from every verb of package fmt.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[transit]") }

// LogValue hides the token from package log/slog.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue("[transit]") }

// begin bounds a method and refuses a context that has ended before anything is
// asked.
func (k *Keyring) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, classifyContext(err)
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	return ctx, cancel, nil
}
