package transit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/blobd/blobd"
)

const (
	dialTimeout = 3 * time.Second
	// maxAnswer bounds an answer of Vault, in bytes.
	maxAnswer = 32 << 20
)

// hideEnvironment removes VAULT_*: see New.
func hideEnvironment() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "VAULT_") {
			_ = os.Unsetenv(name) // fails for no valid name
		}
	}
}

// newTransport is a transport that goes to Vault directly: a proxy out of the
// environment would see keys where TLS is off.
func newTransport(o Options) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert != "" {
		pem, err := os.ReadFile(o.CACert)
		if err != nil {
			return nil, fmt.Errorf("CA certificates: %w: %w", blobd.ErrInvalid, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificates: %s holds none in PEM: %w", o.CACert, blobd.ErrInvalid)
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: config, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
	}, nil
}

// limited cuts off answers that no Vault gives, also where the SDK reads them.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		resp.Body = limitedBody{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

type limitedBody struct {
	io.Reader
	io.Closer
}

// newClient builds an SDK client that takes nothing from the environment and
// repeats nothing by itself.
func newClient(o Options, shared *http.Client, timeout time.Duration) (*api.Client, error) {
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}
	c, err := api.NewClient(&api.Config{Address: o.Address, HttpClient: shared, MaxRetries: 0, Timeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("address of Vault: %w: %w", blobd.ErrInvalid, err)
	}
	c.SetHeaders(http.Header{api.RequestHeaderName: {"true"}})
	c.ClearToken()
	c.ClearNamespace()
	if o.Namespace != "" {
		c.SetNamespace(o.Namespace)
	}
	c.SetWrappingLookupFunc(func(string, string) string { return "" })
	return c, nil
}

func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("address of Vault: want a URL like https://vault.example:8200: %w", blobd.ErrInvalid)
	}
	return nil
}

// checkMount accepts a path of names, so that it can neither climb nor ask.
func checkMount(mount string) error {
	for _, part := range strings.Split(mount, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, oddInMount) {
			return fmt.Errorf("mount of Transit: want names of letters, digits, \"-\", \"_\" and \".\", joined by \"/\": %w", blobd.ErrInvalid)
		}
	}
	return nil
}

func oddInMount(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// answer is what Vault said with a status below 400, or with a 400 that may
// speak of the items of a batch. Its body may hold keys: wipe it.
type answer struct {
	status int
	body   []byte
}

func (a answer) wipe() { clear(a.body) }

// verbs of Vault's API.
const (
	verbRead   = "read"
	verbList   = "list"
	verbWrite  = "write"
	verbDelete = "delete"
)

// call makes one request. Where it is refused because the token has died, it
// logs in and makes it once more.
func (k *Keyring) call(ctx context.Context, verb, path string, body []byte) (answer, error) {
	used, err := k.session.enter(ctx)
	if err != nil {
		return answer{}, err
	}
	a, err := k.send(ctx, verb, path, body)
	if !refused(err) {
		return a, err
	}
	fresh, loginErr := k.session.renewed(ctx, used)
	if loginErr != nil {
		return answer{}, fmt.Errorf("%w; log in again: %w", err, loginErr)
	}
	if !fresh {
		return answer{}, err
	}
	return k.send(ctx, verb, path, body)
}

func (k *Keyring) send(ctx context.Context, verb, path string, body []byte) (answer, error) {
	resp, err := k.request(ctx, verb, path, body)
	if resp == nil || resp.Response == nil {
		return answer{}, classify(verb, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err != nil && resp.StatusCode != http.StatusBadRequest {
		return answer{}, classify(verb, path, err)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return answer{}, classifyRedirect(verb, path, resp.StatusCode)
	}
	read, readErr := readAll(resp.Body, resp.ContentLength)
	if readErr != nil {
		return answer{}, classify(verb, path, readErr)
	}
	return answer{resp.StatusCode, read}, classify(verb, path, err)
}

func (k *Keyring) request(ctx context.Context, verb, path string, body []byte) (*api.Response, error) {
	l := k.client.Logical()
	switch verb {
	case verbRead:
		return l.ReadRawWithContext(ctx, path)
	case verbList:
		return l.ReadRawWithDataWithContext(ctx, path, map[string][]string{"list": {"true"}})
	case verbDelete:
		return l.DeleteRawWithContext(ctx, path)
	}
	return l.WriteRawWithContext(ctx, path, body)
}

// readAll reads a body and leaves no copy of a part of it behind. size is its
// length, or negative.
func readAll(r io.Reader, size int64) ([]byte, error) {
	b := make([]byte, 0, min(max(size, 0), maxAnswer)+512)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			clear(b)
			return nil, err
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), 2*cap(b))
			copy(grown, b)
			clear(b)
			b = grown
		}
	}
}
