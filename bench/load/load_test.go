package load_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/blobd/blobd/bench/load"
)

func drivers() map[string]load.Driver {
	return map[string]load.Driver{"raw": load.Raw, "net/http": load.Standard}
}

// Both drivers must see the same answer, whatever way the server frames it.
func TestDriversReadEveryFraming(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("X-Asked") != "yes" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
	mux.HandleFunc("GET /chunked", func(w http.ResponseWriter, _ *http.Request) {
		for part := range slices.Chunk(big, 5000) {
			_, _ = w.Write(part)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("GET /closing", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte("last"))
	})
	mux.HandleFunc("GET /empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /null", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Blobd-Resolution", "null")
		w.WriteHeader(http.StatusNotFound)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	host := srv.Listener.Addr().String()

	cases := []struct {
		method, target string
		send           []byte
		status         int
		body           []byte
		null           bool
	}{
		{"POST", "/echo?a=b", []byte("thought"), 201, []byte("thought"), false},
		{"POST", "/echo", []byte{}, 201, nil, false},
		{"GET", "/chunked", nil, 200, big, false},
		{"GET", "/closing", nil, 200, []byte("last"), false},
		{"GET", "/empty", nil, 204, nil, false},
		{"GET", "/null", nil, 404, nil, true},
		{"POST", "/echo", big, 201, big, false}, // the connection is still in step
	}
	for name, driver := range drivers() {
		t.Run(name, func(t *testing.T) {
			c, err := driver(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, tc := range cases {
				r := &load.Request{Method: tc.method, Host: host, Target: tc.target, Header: []load.Field{{Name: "X-Asked", Value: "yes"}}}
				for range 2 {
					ans, err := c.Do(r, tc.send)
					if err != nil {
						t.Fatalf("%s %s: %v", tc.method, tc.target, err)
					}
					if ans.Status != tc.status || ans.Null != tc.null || !bytes.Equal(ans.Body, tc.body) {
						t.Errorf("%s %s: status %d, null %t, %d bytes; want %d, %t, %d bytes", tc.method, tc.target,
							ans.Status, ans.Null, len(ans.Body), tc.status, tc.null, len(tc.body))
					}
				}
			}
		})
	}
}

func TestBodiesAreTextAndNeverRepeat(t *testing.T) {
	seen := map[string]bool{}
	for _, source := range []*load.Bodies{load.NewBodies(1, 0), load.NewBodies(1, 1), load.NewBodies(2, 0)} {
		for range 100 {
			b := make([]byte, load.BodySize)
			source.Fill(b)
			if !utf8.Valid(b) || bytes.ContainsAny(b, "\x00\"\\<>&") {
				t.Fatal("a body is no text without escapes")
			}
			if seen[string(b)] {
				t.Fatal("a body came twice")
			}
			seen[string(b)] = true
		}
	}
}

func TestRunCountsOperationsAndProcessorTime(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	var reads int
	cell := load.Cell{
		Driver: load.Raw, Addr: srv.Listener.Addr().String(), Clients: 3, Duration: 50 * time.Millisecond,
		New: func(context.Context, int, load.Client) (load.Op, error) {
			return func(load.Client) (time.Duration, error) { return 7 * time.Millisecond, nil }, nil
		},
		CPU:    func() (time.Duration, error) { reads++; return time.Duration(reads) * time.Hour, nil },
		OwnCPU: func() (time.Duration, error) { return 0, nil },
	}
	r, err := load.Run(t.Context(), cell)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops == 0 || r.P50 != 7*time.Millisecond || r.P99 != 7*time.Millisecond {
		t.Errorf("result %+v: want operations of 7 ms", r)
	}
	if got := r.ServerCPU * time.Duration(r.Ops); got > time.Hour || got < time.Hour-time.Duration(r.Ops) {
		t.Errorf("server used %s, want the hour between the two readings", got)
	}
}

func TestRunEndsWithTheFirstError(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	broken := errors.New("broken")
	cell := load.Cell{
		Driver: load.Raw, Addr: srv.Listener.Addr().String(), Clients: 2, Duration: time.Hour,
		New: func(_ context.Context, client int, _ load.Client) (load.Op, error) {
			return func(load.Client) (time.Duration, error) {
				if client == 1 {
					return 0, broken
				}
				return 0, nil
			}, nil
		},
		CPU:    func() (time.Duration, error) { return 0, nil },
		OwnCPU: func() (time.Duration, error) { return 0, nil },
	}
	if _, err := load.Run(t.Context(), cell); !errors.Is(err, broken) {
		t.Errorf("error %v, want the client's", err)
	}
}

func TestQuantile(t *testing.T) {
	ten := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, tc := range []struct {
		of   []int
		q    float64
		want int
	}{{ten, 0.5, 5}, {ten, 0.99, 10}, {ten, 0.1, 1}, {ten, 0, 1}, {ten, 1, 10}, {[]int{4}, 0.5, 4}, {nil, 0.5, 0}} {
		if got := load.Quantile(tc.of, tc.q); got != tc.want {
			t.Errorf("Quantile(%v, %g) = %d, want %d", tc.of, tc.q, got, tc.want)
		}
	}
	if got := load.Median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("Median = %g, want 5", got)
	}
}
