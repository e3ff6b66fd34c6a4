package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slowPut is a put whose body comes in two halves.
type slowPut struct {
	run      string
	text     string
	finishes bool   // the second half is sent
	ref      string // when acknowledged
	err      error
}

// send sends the first half, and the second once release is closed.
func (p *slowPut) send(s *server, sent *sync.WaitGroup, release <-chan struct{}) {
	r, w := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+execution(p.run)+"/blobs", r)
	if err != nil {
		p.err = err
		sent.Done()
		return
	}
	request.ContentLength = int64(len(p.text))
	request.Header.Set("Authorization", "Bearer "+s.token)
	half := len(p.text) / 2
	go func() {
		_, _ = io.WriteString(w, p.text[:half])
		sent.Done()
		<-release
		if p.finishes {
			_, _ = io.WriteString(w, p.text[half:])
			_ = w.Close()
		}
		<-s.exited
		_ = w.CloseWithError(io.ErrClosedPipe)
	}()
	response, err := s.client.Do(request)
	if err != nil {
		p.err = err
		return
	}
	defer func() { _ = response.Body.Close() }()
	var out stored
	switch err := json.NewDecoder(response.Body).Decode(&out); {
	case response.StatusCode != http.StatusCreated:
		p.err = refused{response.StatusCode, ""}
	case err != nil:
		p.err = err
	default:
		p.ref = out.Ref
	}
}

// TestEndUnderSlowPuts: asked to end while a hundred puts are half sent, the
// server ends in time; a put is acknowledged and lasts, or nothing of it is
// readable.
func TestEndUnderSlowPuts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	puts := make([]*slowPut, 100)
	release := make(chan struct{})
	var sent, done sync.WaitGroup
	for i := range puts {
		puts[i] = &slowPut{run: fmt.Sprint("slow ", i), text: fmt.Sprintf("a slow text, number %d, in two halves", i), finishes: i%2 == 0}
		sent.Add(1)
		done.Go(func() { puts[i].send(s, &sent, release) })
	}
	sent.Wait()
	underWay := fmt.Sprintf("blobd_http_requests_in_flight %d\n", len(puts))
	underWayAndThis := fmt.Sprintf("blobd_http_requests_in_flight %d\n", len(puts)+1)
	s.eventually(20*time.Second, "the puts to be under way", func() bool {
		m := string(s.get("/metrics").body)
		return strings.Contains(m, underWay) || strings.Contains(m, underWayAndThis)
	})
	must(t, s.cmd.Process.Signal(syscall.SIGTERM))
	begin := time.Now()
	close(release)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end")
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("the server took %v to end", took)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, tail(s.stderr.String()))
	}
	done.Wait()

	s = start(t, dir)
	acknowledged := 0
	for _, p := range puts {
		readable := (&life{run: p.run}).readable(s)
		switch {
		case p.err == nil:
			acknowledged++
			s.wantText(p.run, p.ref, []byte(p.text))
		case !p.finishes && len(readable) > 0:
			t.Errorf("%s: half a text was kept", p.run)
		case definite(p.err) && len(readable) > 0:
			t.Errorf("%s: refused (%v) and readable", p.run, p.err)
		}
		for _, text := range readable {
			if text != p.text {
				t.Errorf("%s: other bytes", p.run)
			}
		}
	}
	if acknowledged != len(puts)/2 {
		t.Errorf("%d of %d puts that were under way and came to their end were acknowledged", acknowledged, len(puts)/2)
	}
	s.stop()
	wantVerified(t, dir)
}
