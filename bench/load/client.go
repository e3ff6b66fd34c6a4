// Package load drives a server over HTTP/1.1 and measures it from outside.
//
// The load shares its processors with the server under test, so what a client
// costs shows in every figure. There are two drivers: Raw costs next to nothing,
// Standard is what a Go program usually has. Every server gets the same one.
package load

import (
	"context"
	"fmt"
	"time"
)

// maxAnswer bounds an answer's body in bytes: a larger one is an error.
const maxAnswer = 64 << 20

// Client is one keep-alive connection. It is not safe for concurrent use.
type Client interface {
	// Do sends one request and reads its whole answer; a nil body sends none.
	// A failed exchange is never sent again: a repeat would be measured as if
	// it were the first.
	Do(r *Request, body []byte) (Answer, error)
	// SetDeadline bounds every exchange that follows.
	SetDeadline(t time.Time) error
	Close() error
}

// Driver connects a client to addr ("host:port").
type Driver func(ctx context.Context, addr string) (Client, error)

// Answer is one response. Body is valid until the client's next exchange.
type Answer struct {
	Status int
	Body   []byte
	// Null tells that the answer carried "Blobd-Resolution: null".
	Null bool
	// Took is the time from the first byte written to the last byte read.
	Took time.Duration
}

// Request is everything of a request but its body. It must not change after
// its first use; using it often is cheaper than making it anew.
type Request struct {
	Method string
	Host   string // host:port
	Target string // path and query, escaped
	Header []Field
	head   []byte
	std    *standardRequest
}

// Field is one header.
type Field struct{ Name, Value string }

// rawHead returns the request's head but for Content-Length and the last line.
func (r *Request) rawHead() []byte {
	if r.head != nil {
		return r.head
	}
	r.head = fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Target, r.Host)
	for _, f := range r.Header {
		r.head = fmt.Appendf(r.head, "%s: %s\r\n", f.Name, f.Value)
	}
	return r.head
}
