package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/dunglas/httpsfv"
	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// request is one request, which may be sent more than once if it is safe.
type request struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   []byte
	safe   bool
}

func (r *request) addQuery(key, value string) {
	if value == "" {
		return
	}
	if r.query == nil {
		r.query = make(url.Values)
	}
	r.query.Set(key, value)
}

func (r *request) setJSONHeader(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r.header.Set(name, base64JSON(b))
	return nil
}

// request is the put as it goes over the wire, with a digest of the text so that
// a damaged body stores nothing.
func (p Put) request(executionID string) (request, error) {
	r := request{
		method: http.MethodPost, path: executionPath(executionID, "blobs"), body: p.Text, safe: true,
		header: make(http.Header),
	}
	r.addQuery("stepId", p.StepID)
	if p.Attempt != 0 {
		r.addQuery("attempt", strconv.FormatInt(p.Attempt, 10))
	}
	r.addQuery("class", p.Class)
	r.addQuery("kind", p.Kind)
	r.addQuery("provider", p.Provider)
	r.addQuery("model", p.Model)
	if p.ContentType == "" {
		p.ContentType = "text/plain; charset=utf-8"
	}
	r.header.Set("Content-Type", p.ContentType)
	r.header.Set(wire.HeaderReprDigest, reprDigest(p.Text))
	if len(p.Subjects) > 0 {
		list, err := subjectList(p.Subjects)
		if err != nil {
			return r, err
		}
		r.header.Set(wire.HeaderSubjects, list)
	}
	if len(p.Audience) > 0 {
		return r, r.setJSONHeader(wire.HeaderAudience, p.Audience)
	}
	return r, nil
}

func reprDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// subjectList writes subjects as strings, or as display strings where they are
// not ASCII.
func subjectList(subjects []string) (string, error) {
	var list httpsfv.List
	for _, s := range subjects {
		if isASCII(s) {
			list = append(list, httpsfv.NewItem(s))
		} else {
			list = append(list, httpsfv.NewItem(httpsfv.DisplayString(s)))
		}
	}
	out, err := httpsfv.Marshal(list)
	if err != nil {
		return "", errors.New("a subject cannot be written as a header")
	}
	return out, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func post[A any](ctx context.Context, c *Client, op, path string, q any) (A, error) {
	var out A
	body, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("%s: the request cannot be written as JSON", op)
	}
	defer clear(body)
	r := request{method: http.MethodPost, path: path, body: body, safe: true, header: jsonHeader()}
	if _, err := c.do(ctx, r, &out); err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

func get[A any](ctx context.Context, c *Client, op, path string) (A, error) {
	var out A
	if _, err := c.do(ctx, request{method: http.MethodGet, path: path, safe: true}, &out); err != nil {
		return out, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {wire.TypeJSON}} }

// do sends a request, again and again while that is safe and may help, and reads
// the answer into out (a wire type, a *Blob, or nil).
func (c *Client) do(ctx context.Context, r request, out any) (status int, err error) {
	if !r.safe || c.retryFor < 0 {
		return c.once(ctx, r, out)
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 100 * time.Millisecond
	b.MaxInterval = 5 * time.Second
	return backoff.Retry(ctx, func() (int, error) {
		status, err := c.once(ctx, r, out)
		return status, worthAgain(r, err)
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(c.retryFor))
}

// worthAgain marks what a repeat cannot help.
func worthAgain(r request, err error) error {
	var answered *Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNull):
		return backoff.Permanent(err)
	case !errors.As(err, &answered):
		return err // the network, or a damaged answer
	}
	switch answered.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if answered.after > 0 {
			return errors.Join(err, backoff.RetryAfter(int(answered.after/time.Second)))
		}
		return err
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return err
	case http.StatusNotFound:
		if answered.Foreign {
			return err // a proxy spoke: an outage
		}
	case http.StatusConflict:
		if r.header.Get(wire.HeaderIdempotencyKey) != "" && answered.Problem.Code == wire.CodeConflict {
			return err // the first try is still running
		}
	}
	return backoff.Permanent(err)
}

// once sends a request and reads the answer.
func (c *Client) once(ctx context.Context, r request, out any) (status int, err error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return 0, errors.New("the request could not be built")
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return resp.StatusCode, fmt.Errorf("the answer broke off: %w", err)
	case len(body) > maxAnswer:
		return resp.StatusCode, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return resp.StatusCode, refusal(resp, body)
	}
	return resp.StatusCode, read(resp, body, out)
}

// refusal tells a null from every other answer that is not a success.
func refusal(resp *http.Response, body []byte) error {
	if resp.StatusCode == http.StatusNotFound && resp.Header.Get(wire.HeaderResolution) == wire.ResolutionNull {
		return ErrNull
	}
	e := &Error{Status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = time.Duration(seconds) * time.Second
	}
	err := json.Unmarshal(body, &e.Problem)
	e.Foreign = err != nil || resp.Header.Get(wire.HeaderRequestID) == "" || e.Problem.Code == ""
	return e
}

// read reads a success. One that is not blobd's own is an error.
func read(resp *http.Response, body []byte, out any) error {
	if resp.Header.Get(wire.HeaderRequestID) == "" {
		return &Error{Status: resp.StatusCode, Foreign: true}
	}
	switch o := out.(type) {
	case nil:
		return nil
	case *Blob:
		return o.read(resp, body)
	case *[]byte:
		*o = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("the answer is not the JSON of the contract")
	}
	return nil
}

func (b *Blob) read(resp *http.Response, body []byte) error {
	if resp.Header.Get(wire.HeaderReprDigest) != reprDigest(body) {
		return ErrDamaged
	}
	sum := sha256.Sum256(body)
	*b = Blob{
		Bytes: body, ContentType: resp.Header.Get("Content-Type"), Digest: fmt.Sprintf("%x", sum),
		Kind: resp.Header.Get(wire.HeaderKind), Class: resp.Header.Get(wire.HeaderClass),
	}
	return nil
}
