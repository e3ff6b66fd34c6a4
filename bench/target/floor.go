package target

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"time"

	"github.com/blobd/blobd/bench/load"
)

// ServeFloor serves the least that any Go HTTP server of this contract does: a
// put reads its body and answers a small JSON document, a get answers BodySize
// bytes, a batch answers BatchParts times as many. It stores nothing.
func ServeFloor(ctx context.Context, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: floorHandler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	fmt.Fprintf(out, "%s%s\n", listening, l.Addr())
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func floorHandler() http.Handler {
	small := []byte(`{"ref":"sha256:` + string(bytes.Repeat([]byte("0"), 64)) + `","size":8192}`)
	one := make([]byte, load.BodySize)
	load.NewBodies(1, 0).Fill(one)
	many := bytes.Repeat(one, BatchParts)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/executions/{executionId}/blobs", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		answer(w, http.StatusCreated, "application/json", small)
	})
	mux.HandleFunc("GET /v1/executions/{executionId}/blobs/{ref}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "text/plain; charset=utf-8", one)
	})
	mux.HandleFunc("POST /v1/executions/{executionId}/resolve", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		answer(w, http.StatusOK, "application/json", many)
	})
	return mux
}

func answer(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Floor is the running floor.
type Floor struct {
	*Process
}

// StartFloor runs command (this program, told to be the floor) in dir.
func StartFloor(ctx context.Context, dir string, command ...string) (*Floor, error) {
	p, err := start(ctx, "floor", dir, exec.Command(command[0], command[1:]...))
	if err != nil {
		return nil, err
	}
	return &Floor{p}, nil
}

func (f *Floor) request(method, target string) *load.Request {
	return &load.Request{Method: method, Host: f.Addr, Target: target}
}

// Put stores nothing, again and again.
func (f *Floor) Put(_ context.Context, seed uint64, client int, _ load.Client) (load.Op, error) {
	return putOp(seed, client, f.request("POST", fmt.Sprintf("/v1/executions/floor-%d/blobs", client))), nil
}

// Get asks for the one body there is.
func (f *Floor) Get(_ context.Context, client int, c load.Client) (load.Op, error) {
	request := f.request("GET", fmt.Sprintf("/v1/executions/floor-%d/blobs/sha256:%064d", client, client))
	first, err := c.Do(request, nil)
	if err != nil {
		return nil, err
	}
	return getOp([]stored{{request, bytes.Clone(first.Body)}}), nil
}

// Batch asks for BatchParts bodies in one answer.
func (f *Floor) Batch(_ context.Context, client int, _ load.Client) (load.Op, error) {
	request := f.request("POST", fmt.Sprintf("/v1/executions/floor-%d/resolve", client))
	return batchOp(request, make([]byte, 100*BatchParts), nil), nil
}
