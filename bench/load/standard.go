package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// standard is a client of package net/http with a connection of its own.
type standard struct {
	transport *http.Transport
	deadline  time.Time
	body      bytes.Buffer
}

// standardRequest is a request that was parsed once.
type standardRequest struct{ template *http.Request }

// Standard is the usual driver: package net/http.
func Standard(context.Context, string) (Client, error) {
	return &standard{transport: &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
		WriteBufferSize:     16 << 10,
		ReadBufferSize:      16 << 10,
	}}, nil
}

func (s *standard) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// SetDeadline is checked between exchanges only: a timer per request would be
// a cost that the raw driver does not have.
func (s *standard) SetDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *standard) Do(r *Request, body []byte) (ans Answer, err error) {
	if !s.deadline.IsZero() && time.Now().After(s.deadline) {
		return ans, context.DeadlineExceeded
	}
	req, err := r.standard(body)
	if err != nil {
		return ans, err
	}
	start := time.Now()
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return ans, fmt.Errorf("round trip: %w", err)
	}
	defer res.Body.Close()
	s.body.Reset()
	if _, err := s.body.ReadFrom(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return ans, fmt.Errorf("read answer: %w", err)
	}
	return Answer{
		Status: res.StatusCode,
		Body:   s.body.Bytes(),
		Null:   res.Header.Get("Blobd-Resolution") == "null",
		Took:   time.Since(start),
	}, nil
}

// standard returns the request with a body.
func (r *Request) standard(body []byte) (*http.Request, error) {
	if r.std == nil {
		req, err := http.NewRequest(r.Method, "http://"+r.Host+r.Target, nil)
		if err != nil {
			return nil, err
		}
		for _, f := range r.Header {
			req.Header.Set(f.Name, f.Value)
		}
		r.std = &standardRequest{req}
	}
	req := *r.std.template
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return &req, nil
}
