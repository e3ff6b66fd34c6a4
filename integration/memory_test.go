package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	largest = 16 << 20 // bytes of one blob, and of one batch
	crowd   = 100      // requests at once
	// memoryBound is what docs/operations.md states for the defaults.
	memoryBound = 1280 << 20
)

// noise is the same bytes for the same seed, made while they are read: the test
// itself holds none of them.
func noise(seed, size int) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}), int64(size))
}

// same reports whether a body is the noise of a seed.
func same(body io.Reader, seed, size int) error {
	want := noise(seed, size)
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for read := 0; ; {
		n, err := io.ReadFull(body, a)
		m, _ := io.ReadFull(want, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return fmt.Errorf("other bytes after %d", read)
		}
		read += n
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// stream sends a body as it is made, and hands the answer over unread.
func (s *server) stream(method, path string, body io.Reader, size int, use func(*http.Response) error) error {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		return err
	}
	r.ContentLength = int64(size)
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/octet-stream")
	patient := *s.client
	patient.Timeout = 2 * time.Minute // a hundred large bodies share the machine
	answer, err := patient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return use(answer)
}

// errFull is the answer of a server that has no memory for a request now.
var errFull = errors.New("come again")

// orFull wants a status, or 429 or 503 with the time to come again.
func orFull(a *http.Response, want int) error {
	switch a.StatusCode {
	case want:
		return nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if a.Header.Get("Retry-After") != "" && a.Header.Get("Blobd-Resolution") == "" {
			return errFull
		}
	}
	b, _ := io.ReadAll(io.LimitReader(a.Body, 500))
	return fmt.Errorf("status %d, %v: %s", a.StatusCode, a.Header, b)
}

// all runs a crowd at once and returns who was answered; the others were told to
// come again.
func all(t *testing.T, what string, act func(i int) error) (served []int) {
	t.Helper()
	errs := make([]error, crowd)
	var g sync.WaitGroup
	for i := range crowd {
		g.Go(func() { errs[i] = act(i) })
	}
	g.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			served = append(served, i)
		case !errors.Is(err, errFull):
			t.Errorf("%s %d: %v", what, i, err)
		}
	}
	t.Logf("%s: %d of %d served at the first try", what, len(served), crowd)
	if len(served) == 0 {
		t.Fatalf("%s: nobody was served", what)
	}
	return served
}

// peak is the most memory that the process had resident, in bytes.
func (s *server) peak() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	must(s.t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	must(s.t, err)
	return n << 10
}

func (s *server) wantWithinMemory(after string) {
	s.t.Helper()
	n := s.peak()
	s.t.Logf("peak after %s: %d MiB", after, n>>20)
	if n > memoryBound {
		s.t.Errorf("peak after %s: %d MiB, more than %d", after, n>>20, memoryBound>>20)
	}
}

// TestMemoryStaysWithinItsBound: a hundred of the largest puts, resolves and
// batches at once are answered whole or told to come again, within the memory
// that serve states.
func TestMemoryStaysWithinItsBound(t *testing.T) {
	s := start(t, t.TempDir(), "BLOBD_PUT_MARGIN=30s")
	refs := make([]string, crowd)
	put := func(run string, seed, size int, ref *string) error {
		return s.stream(http.MethodPost, execution(run)+"/blobs", noise(seed, size), size, func(a *http.Response) error {
			if err := orFull(a, http.StatusCreated); err != nil {
				return err
			}
			var out stored
			err := json.NewDecoder(a.Body).Decode(&out)
			*ref = out.Ref
			return err
		})
	}
	kept := all(t, "puts", func(i int) error { return put("large", i, largest, &refs[i]) })
	s.wantWithinMemory("puts")

	all(t, "resolves", func(i int) error {
		seed := kept[i%len(kept)]
		return s.stream(http.MethodGet, execution("large")+"/blobs/"+refs[seed], http.NoBody, 0, func(a *http.Response) error {
			if err := orFull(a, http.StatusOK); err != nil {
				return err
			}
			return same(a.Body, seed, largest)
		})
	})
	s.wantWithinMemory("resolves")

	parts := make([]string, 64)
	for i := range parts {
		for {
			err := put("batch", i, largest/len(parts), &parts[i])
			if err == nil {
				break
			}
			if !errors.Is(err, errFull) {
				t.Fatal(err)
			}
		}
	}
	wanted := func(refs []string) string {
		return `{"parts":[{"ref":"` + strings.Join(refs, `"},{"ref":"`) + `"}]}`
	}
	all(t, "batches", func(int) error {
		body := wanted(parts)
		return s.stream(http.MethodPost, execution("batch")+"/resolve", strings.NewReader(body), len(body), func(a *http.Response) error {
			if err := orFull(a, http.StatusOK); err != nil {
				return err
			}
			return wantParts(a.Body, parts)
		})
	})
	s.wantWithinMemory("batches")

	// What is past the limit of a batch is refused before it is fetched.
	tooMany := make([]string, 64)
	for i := range tooMany {
		tooMany[i] = refs[kept[i%len(kept)]]
	}
	body := wanted(tooMany)
	err := s.stream(http.MethodPost, execution("large")+"/resolve", strings.NewReader(body), len(body), func(a *http.Response) error {
		return orFull(a, http.StatusRequestEntityTooLarge)
	})
	if err != nil {
		t.Errorf("a batch of 64 of the largest: %v", err)
	}
	// Nothing is stuck: alone, each of them is served.
	for _, i := range kept {
		err := s.stream(http.MethodGet, execution("large")+"/blobs/"+refs[i], http.NoBody, 0, func(a *http.Response) error {
			if a.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", a.StatusCode)
			}
			return same(a.Body, i, largest)
		})
		if err != nil {
			t.Errorf("afterwards, blob %d: %v", i, err)
		}
	}
	s.wantWithinMemory("all")
}

// wantParts reads a batch part by part: every one the bytes that were put.
func wantParts(body io.Reader, refs []string) error {
	d := json.NewDecoder(body)
	for range 3 { // { "parts" [
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	for i := range refs {
		var p struct {
			Ref, Status string
			Base64      []byte
		}
		if err := d.Decode(&p); err != nil {
			return err
		}
		if p.Ref != refs[i] || p.Status != "ok" {
			return fmt.Errorf("part %d is %s %s", i, p.Ref, p.Status)
		}
		if err := same(bytes.NewReader(p.Base64), i, largest/len(refs)); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	rest, err := io.ReadAll(io.MultiReader(d.Buffered(), body))
	if err == nil && strings.TrimSpace(string(rest)) != `],"firstHole":null}` {
		err = fmt.Errorf("the answer ends with %.100q", rest)
	}
	return err
}
