package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// life is what the callers of one execution know. One goroutine owns it while
// the load runs.
type life struct {
	run     string
	acked   map[string]string // ref → text
	pending map[string]bool   // texts whose put got no answer: they may have landed
	asked   bool              // an erasure was asked for
	erased  bool              // and acknowledged
}

// load drives a server until it dies, and records what was acknowledged.
type load struct {
	mu    sync.Mutex
	lives []*life // guarded by mu
	acks  atomic.Int64
}

// work runs one client: executions of a few puts, a capture, sometimes an
// erasure, until the server is gone.
func (l *load) work(s *server, name string) {
	for i := 0; ; i++ {
		x := &life{run: fmt.Sprintf("%s/%d", name, i), acked: make(map[string]string), pending: make(map[string]bool)}
		l.mu.Lock()
		l.lives = append(l.lives, x)
		l.mu.Unlock()
		for j := range 6 {
			if !l.put(s, x, fmt.Sprintf("%s text %d", x.run, j)) {
				return
			}
		}
		if !l.capture(s, x) {
			return
		}
		if i%3 == 0 && !l.erase(s, x) {
			return
		}
	}
}

func (l *load) put(s *server, x *life, text string) bool {
	x.pending[text] = true
	out, err := s.put(x.run, []byte(text))
	if err != nil {
		if definite(err) {
			s.t.Errorf("put: %v", err)
		}
		return false
	}
	l.acks.Add(1)
	x.acked[out.Ref] = text
	delete(x.pending, text)
	return true
}

func (l *load) capture(s *server, x *life) bool {
	var parts []map[string]string
	for j := range 3 {
		text := fmt.Sprintf("%s part %d", x.run, j)
		x.pending[text] = true
		parts = append(parts, map[string]string{"kind": "text", "text": text})
	}
	a := s.post(execution(x.run)+"/captures", map[string]any{"stepId": "captured", "attempt": 1, "provider": "p", "reasoning": parts})
	var out struct {
		Parts []struct {
			TextRef string `json:"textRef"`
		} `json:"parts"`
	}
	if a.status != http.StatusCreated || json.Unmarshal(a.body, &out) != nil {
		return false
	}
	for j, p := range out.Parts {
		x.acked[p.TextRef] = parts[j]["text"]
		delete(x.pending, parts[j]["text"])
	}
	l.acks.Add(1)
	return true
}

func (l *load) erase(s *server, x *life) bool {
	x.asked = true
	if _, err := s.erase(x.run); err != nil {
		return false
	}
	x.erased = true
	l.acks.Add(1)
	return true
}

// check holds what a restarted server says against what was acknowledged.
func (x *life) check(s *server) {
	s.t.Helper()
	readable := x.readable(s)
	for ref, text := range x.acked {
		got, ok := readable[ref]
		delete(readable, ref)
		switch {
		case ok && x.erased:
			s.t.Errorf("%s: readable after an acknowledged erasure", x.run)
		case ok && got != text:
			s.t.Errorf("%s: other bytes", x.run)
		case !ok && !x.asked:
			s.t.Errorf("%s: an acknowledged text is gone", x.run)
		}
		if !ok && x.asked {
			x.erased = true // it landed: from here on all of it must be null
		}
	}
	captured := 0
	for _, text := range readable {
		if !x.pending[text] {
			s.t.Errorf("%s: a text is readable that nobody put", x.run)
		}
		if strings.Contains(text, " part ") {
			captured++
		}
	}
	if captured != 0 && captured != 3 {
		s.t.Errorf("%s: %d of 3 parts of a capture are readable", x.run, captured)
	}
	if x.erased {
		if len(readable) > 0 {
			s.t.Errorf("%s: %d texts are readable beside an erasure", x.run, len(readable))
		}
		if _, err := s.put(x.run, []byte("again")); err != (refused{http.StatusGone, "execution_erased"}) {
			s.t.Errorf("%s: a put after the erasure: %v", x.run, err)
		}
	}
}

// readable is every text of the execution that can be read: what our refs
// resolve to, and what blobd itself knows of.
func (x *life) readable(s *server) map[string]string {
	s.t.Helper()
	out := make(map[string]string)
	a := s.post(execution(x.run)+"/reasoning/read", map[string]any{"purpose": "a check"})
	var read struct {
		Parts []struct {
			Ref, Status string
			Content     *struct{ Text string }
		}
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &read) != nil {
		s.t.Errorf("%s: read: %d %s %v", x.run, a.status, a.problem().Code, a.err)
	}
	for _, p := range read.Parts {
		switch {
		case p.Status == "ok":
			out[p.Ref] = p.Content.Text
		case p.Status != "erased":
			s.t.Errorf("%s: a part is %s", x.run, p.Status)
		}
	}
	if len(x.acked) == 0 {
		return out
	}
	var refs []string
	for ref := range x.acked {
		refs = append(refs, ref)
	}
	b, a := s.batch(x.run, refs...)
	if a.status != http.StatusOK || a.err != nil {
		s.t.Errorf("%s: batch: %d %s %v", x.run, a.status, a.problem().Code, a.err)
	}
	for _, p := range b.Parts {
		if known, ok := out[p.Ref]; ok != (p.Status == "ok") || ok && known != *p.Text {
			s.t.Errorf("%s: resolve and read disagree", x.run)
		}
	}
	return out
}

// TestKilledUnderLoad kills the server again and again while clients put,
// capture and erase: whatever was acknowledged holds, nothing else is readable,
// and erasures end by themselves.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel() // it waits for the leases of the killed
	const rounds, clients = 10, 6
	dir := t.TempDir()
	var all, last []*life
	total := int64(0)
	for round := range rounds {
		s := start(t, dir)
		checkAll(s, last)
		l := new(load)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() { l.work(s, fmt.Sprintf("round %d client %d", round, c)) })
		}
		enough := int64(100 + 37*round) // a kill at another moment each time
		s.eventually(20*time.Second, "the load", func() bool { return l.acks.Load() >= enough })
		s.kill()
		wg.Wait()
		total += l.acks.Load()
		all, last = append(all, l.lives...), l.lives
	}
	s := start(t, dir)
	checkAll(s, last)
	s.waitAllErased() // a killed process holds its lease for a minute
	checkAll(s, all)
	s.stop()
	wantVerified(t, dir)
	t.Logf("%d acknowledgements over %d kills", total, rounds)
}

func checkAll(s *server, lives []*life) {
	s.t.Helper()
	const workers = 16
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(lives); i += workers {
				lives[i].check(s)
			}
		})
	}
	wg.Wait()
}
