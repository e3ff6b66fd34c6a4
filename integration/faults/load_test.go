package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobd/blobd"
)

// load is what writers and readers do to a world while it is ill.
type load struct {
	*world
	within time.Duration // the deadline of every call while the fault lasts
	size   int           // of texts, in bytes

	failed   atomic.Int64 // puts that failed
	refused  atomic.Int64 // resolves that failed
	peak     atomic.Uint64
	baseline uint64

	progress news // puts that ended

	mu    sync.Mutex
	acked []kept // guarded by mu
	lost  []kept // guarded by mu; puts that were not acknowledged
}

// kept is a text and where it is.
type kept struct {
	execution string
	text      []byte
	ref       blobd.Ref
}

const (
	writers = 6
	readers = 3
)

func newLoad(w *world, within time.Duration, size int) *load {
	runtime.GC()
	return &load{world: w, within: within, size: size, baseline: heap()}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// write puts one text; it is remembered as acknowledged or not.
func (l *load) write(within time.Duration, writer, number int) {
	k := kept{execution: fmt.Sprintf("execution-%d", writer), text: sample(writer, number, l.size)}
	var err error
	if k.ref, err = l.put(l.t.Context(), within, k.execution, k.text); err != nil {
		l.failed.Add(1)
		if !errors.Is(err, blobd.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			l.t.Errorf("a put during an outage fails as %v", err)
		}
	}
	l.peak.Store(max(l.peak.Load(), heap()))
	defer l.progress.tell()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.lost = append(l.lost, k)
		return
	}
	l.acked = append(l.acked, k)
}

// read resolves one acknowledged text: its bytes or an error, never a null.
func (l *load) read(within time.Duration, random *mathrand.Rand) {
	l.mu.Lock()
	if len(l.acked) == 0 {
		l.mu.Unlock()
		return
	}
	k := l.acked[random.IntN(len(l.acked))]
	l.mu.Unlock()
	text, null, err := l.resolve(l.t.Context(), within, k.execution, k.ref)
	switch {
	case err != nil:
		l.refused.Add(1)
		if errors.Is(err, blobd.ErrMissing) || errors.Is(err, blobd.ErrNotFound) {
			l.t.Errorf("a resolve during an outage says that the object is absent: %v", err)
		}
	case null:
		l.t.Errorf("%s of %s: a wrong null", k.ref, k.execution)
	case !bytes.Equal(text, k.text):
		l.t.Errorf("%s of %s: other bytes", k.ref, k.execution)
	}
}

// run has writers put n texts each, while readers read, until the writers end.
func (l *load) run(within time.Duration, from, n int) {
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for r := range readers {
		reading.Go(func() {
			random := mathrand.New(mathrand.NewPCG(uint64(from), uint64(r)))
			for {
				l.read(within, random) // at least once
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			for i := range n {
				l.write(within, w, from+i)
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
}

// judge runs once the fault is gone: every acknowledged text is there, every
// other put can be repeated, and memory was bounded all along.
func (l *load) judge() {
	l.t.Helper()
	for _, k := range l.lost {
		l.repeat(k)
	}
	for _, k := range l.acked {
		text, null, err := l.resolve(l.t.Context(), patience, k.execution, k.ref)
		if err != nil || null || !bytes.Equal(text, k.text) {
			l.t.Errorf("%s of %s: null %t, %d bytes of %d, %v", k.ref, k.execution, null, len(text), len(k.text), err)
		}
	}
	if grown := int64(l.peak.Load()) - int64(l.baseline); grown > memoryBudget {
		l.t.Errorf("memory grew by %d MiB", grown>>20)
	}
	l.t.Logf("%d acknowledged, %d puts and %d resolves failed", len(l.acked)-len(l.lost), l.failed.Load(), l.refused.Load())
}

// repeat puts a text again until that succeeds: a server may need a moment to
// see that it is well.
func (l *load) repeat(k kept) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for {
		ref, err := l.put(ctx, patience, k.execution, k.text)
		if err == nil {
			k.ref = ref
			l.acked = append(l.acked, k)
			return
		}
		if ctx.Err() != nil || !errors.Is(err, blobd.ErrUnavailable) {
			l.t.Errorf("a put that failed cannot be repeated: %v", err)
			return
		}
	}
}

// memoryBudget is far above what the calls in flight hold, and far below what
// a buffer that is never given back would take.
const memoryBudget = 128 << 20

// sample is text of at least half the size, which a writer and a number always
// give.
func sample(writer, number, size int) []byte {
	random := mathrand.New(mathrand.NewPCG(uint64(writer), uint64(number)))
	text := make([]byte, size/2+random.IntN(size/2))
	for i := range text {
		text[i] = ' ' + byte(random.IntN(95))
	}
	return text
}
