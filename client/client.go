// Package client talks to a blobd server.
//
// It promises that a null is ErrNull only if the server said so itself: a 404
// of a proxy, a timeout or anything else that is not definite is an error and
// never a null. It repeats a request only where repeating is safe: reads, puts
// and captures (idempotent by their bytes), and what carries an
// Idempotency-Key. It checks the digest of what it reads. It never prints a
// token or a text.
package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// Options tune a Client. Server and Token are required.
type Options struct {
	Server string // base URL, such as http://127.0.0.1:8080
	Token  string
	Tenant string // for admin tokens that must name it
	HTTP   *http.Client
	// RetryFor bounds how long a safe request is repeated; 0 is DefaultRetryFor,
	// less than 0 is once only.
	RetryFor time.Duration
}

// DefaultRetryFor is how long a safe request is repeated.
const DefaultRetryFor = 30 * time.Second

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base     string // without a slash at its end
	http     *http.Client
	header   http.Header
	retryFor time.Duration
}

// New builds a client. It asks nobody.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.Server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" ||
		base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, errors.New("server: want an http or https URL without query or user")
	}
	c := &Client{base: strings.TrimRight(o.Server, "/"), http: o.HTTP, header: make(http.Header), retryFor: o.RetryFor}
	if c.http == nil {
		c.http = &http.Client{}
	}
	// A redirect is no answer of blobd's, and would carry the token elsewhere.
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	if c.retryFor == 0 {
		c.retryFor = DefaultRetryFor
	}
	if o.Token != "" {
		c.header.Set("Authorization", "Bearer "+o.Token)
	}
	if o.Tenant != "" {
		c.header.Set(wire.HeaderTenant, o.Tenant)
	}
	return c, nil
}

// ErrNull is the definitive null.
var ErrNull = errors.New("definitively nothing")

// ErrDamaged: what arrived does not have the digest that the server named.
var ErrDamaged = errors.New("the answer arrived damaged")

// Error is an answer that is not a success and not a null.
type Error struct {
	Status  int
	Problem wire.Problem // zero where the answer was not blobd's
	// Foreign: the answer was not a problem document of blobd's, so something in
	// between spoke.
	Foreign bool
	after   time.Duration // Retry-After
}

// Error implements error.
func (e *Error) Error() string {
	if e.Foreign {
		return fmt.Sprintf("status %d, not from blobd", e.Status)
	}
	return fmt.Sprintf("%s (%d): %s [request %s]", e.Problem.Code, e.Status, e.Problem.Detail, e.Problem.RequestID)
}

// CodeOf returns the code of a problem in err, "" if there is none.
func CodeOf(err error) wire.Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Problem.Code
	}
	return ""
}

// newKey makes an Idempotency-Key.
func newKey() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Put is a text to keep.
type Put struct {
	StepID      string
	Attempt     int64 // 0: the server's default
	Class       string
	Kind        string
	Provider    string
	Model       string
	ContentType string // "": text/plain in UTF-8
	Subjects    []string
	Audience    []wire.Principal
	Text        []byte
}

// Put keeps one text. created is false for a repeat.
func (c *Client) Put(ctx context.Context, executionID string, p Put) (stored wire.Stored, created bool, err error) {
	r, err := p.request(executionID)
	if err != nil {
		return wire.Stored{}, false, fmt.Errorf("put: %w", err)
	}
	status, err := c.do(ctx, r, &stored)
	if err != nil {
		return wire.Stored{}, false, fmt.Errorf("put: %w", err)
	}
	return stored, status == http.StatusCreated, nil
}

// Capture keeps the reasoning of one model call, all or nothing.
func (c *Client) Capture(ctx context.Context, executionID string, q wire.CaptureRequest) (wire.Captured, error) {
	return post[wire.Captured](ctx, c, "capture", executionPath(executionID, "captures"), q)
}

// Resolve asks for one blob.
type Resolve struct {
	StepID    string
	Origin    string
	Digest    string // the digest to expect; another is ErrNull
	Principal *wire.Principal
}

// Blob is what a ref resolves to.
type Blob struct {
	Bytes       []byte
	ContentType string
	Digest      string
	Kind        string
	Class       string
}

// Resolve returns a blob's exact bytes, or ErrNull.
func (c *Client) Resolve(ctx context.Context, executionID, ref string, q Resolve) (Blob, error) {
	r := request{method: http.MethodGet, path: executionPath(executionID, "blobs", ref), safe: true, header: make(http.Header)}
	r.addQuery("stepId", q.StepID)
	r.addQuery("origin", q.Origin)
	if q.Digest != "" {
		r.header.Set(wire.HeaderExpectDigest, q.Digest)
	}
	if q.Principal != nil {
		if err := r.setJSONHeader(wire.HeaderPrincipal, q.Principal); err != nil {
			return Blob{}, fmt.Errorf("resolve: %w", err)
		}
	}
	var b Blob
	if _, err := c.do(ctx, r, &b); err != nil {
		return Blob{}, fmt.Errorf("resolve: %w", err)
	}
	return b, nil
}

// ResolveBatch asks for many blobs at once: bytes or null for every part, or one
// error for all.
func (c *Client) ResolveBatch(ctx context.Context, executionID string, q wire.ResolveRequest) (wire.Resolved, error) {
	return post[wire.Resolved](ctx, c, "resolve", executionPath(executionID, "resolve"), q)
}

// Read reads reasoning as a person; the purpose is recorded.
func (c *Client) Read(ctx context.Context, executionID string, q wire.ReadRequest) (wire.ReadAnswer, error) {
	return post[wire.ReadAnswer](ctx, c, "read", executionPath(executionID, "reasoning", "read"), q)
}

// Execution returns an execution's metadata.
func (c *Client) Execution(ctx context.Context, executionID string) (wire.ExecutionSummary, error) {
	return get[wire.ExecutionSummary](ctx, c, "execution", executionPath(executionID))
}

// Ready asks for readiness, dependency by dependency. While the server is not
// ready, the error is a problem whose Checks say why.
func (c *Client) Ready(ctx context.Context) (wire.Ready, error) {
	var out wire.Ready
	r := request{method: http.MethodGet, path: "/readyz"}
	r.addQuery("verbose", "1")
	_, err := c.do(ctx, r, &out)
	return out, err
}

func executionPath(executionID string, rest ...string) string {
	path := "/v1/executions/" + segment(executionID)
	for _, s := range rest {
		path += "/" + segment(s)
	}
	return path
}

// segment escapes one path segment; "." and ".." would be cleaned away.
func segment(s string) string {
	switch s {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(s)
}

func base64JSON(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
