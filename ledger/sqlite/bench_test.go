package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchLedger is a ledger of executions with blobs in them.
func benchLedger(b *testing.B, executions, blobs int) (*Ledger, *rand.ChaCha8) {
	b.Helper()
	l, err := Open(filepath.Join(b.TempDir(), "ledger.db"), Options{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	ctx := context.Background()
	if err := l.CreateTenant(ctx, ledger.Tenant{ID: "t", CreatedAt: time.Now()}, ledger.Entry{Kind: ledger.EntryTenant}); err != nil {
		b.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	for range blobs {
		var items []*commit
		for x := range executions {
			items = append(items, &commit{capture: benchCapture(random, x)})
		}
		commitAll(b, l, items)
	}
	return l, random
}

func commitAll(b *testing.B, l *Ledger, items []*commit) {
	b.Helper()
	l.commitBatch(items)
	for _, i := range items {
		if i.err != nil {
			b.Fatal(i.err)
		}
	}
}

func benchTag(x int) (t blobd.ExecutionTag) {
	binary.BigEndian.PutUint64(t[:], uint64(x)*0x9e3779b97f4a7c15)
	return t
}

func benchCapture(random *rand.ChaCha8, x int) ledger.Capture {
	b := ledger.NewBlob{
		Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain; charset=utf-8", Size: 8192, SealedSize: 8500,
		WrappedKey: make([]byte, 60),
	}
	_, _ = random.Read(b.Ref[:])
	_, _ = random.Read(b.Repeat[:])
	_, _ = random.Read(b.WrappedKey)
	return ledger.Capture{
		Tenant: "t", Tag: benchTag(x), ExecutionID: fmt.Sprint("run/", x), At: time.Now(),
		Key:   ledger.WrappedKey{ID: [16]byte{1}, Version: 1, Ciphertext: make([]byte, 120)},
		Blobs: []ledger.NewBlob{b}, Parts: []ledger.Part{{Kind: blobd.KindText, Status: ledger.PartKept}},
		Provider: "anthropic", Model: "claude", StepID: "turn:1:model", Attempt: 1,
		Entry: ledger.Entry{Tenant: "t", Kind: ledger.EntryPut, At: time.Now(), Body: make([]byte, 200)},
	}
}

// BenchmarkCommit reports the time and the processor time of one put of a new
// blob into a known execution, as part of a batch.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			l, random := benchLedger(b, 256, 8)
			var items []*commit
			for range b.N {
				items = append(items, &commit{capture: benchCapture(random, int(random.Uint64()%256))})
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			for len(items) > 0 {
				n := min(size, len(items))
				commitAll(b, l, items[:n])
				items = items[n:]
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/put")
		})
	}
}

// BenchmarkLookup reports the time of one call for refs of one execution.
func BenchmarkLookup(b *testing.B) {
	for _, refs := range []int{1, 64} {
		b.Run(fmt.Sprint("refs=", refs), func(b *testing.B) {
			l, random := benchLedger(b, 64, 100)
			scanned, err := l.ScanBlobs(context.Background(), ledger.Position{}, 10_000)
			if err != nil {
				b.Fatal(err)
			}
			byTag := map[blobd.ExecutionTag][]blobd.Ref{}
			for _, s := range scanned {
				byTag[s.Tag] = append(byTag[s.Tag], s.Ref)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			for range b.N {
				tag := benchTag(int(random.Uint64() % 64))
				if _, err := l.Lookup(context.Background(), tag, byTag[tag][:refs]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
