package retention_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	backendfs "github.com/blobd/blobd/backends/fs"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keysmem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// BenchmarkSweep erases what is due on the embedded drivers, every fsync on: a
// thousand blobs of 8 KiB, beside as many rows that are not due. Its ns/op is of one
// sweep from its claim to its end; compare the sizes: the time follows what is due.
func BenchmarkSweep(b *testing.B) {
	for _, c := range []struct{ due, stored int }{{1000, 0}, {1000, 100_000}, {1000, 1_000_000}, {10_000, 1_000_000}} {
		b.Run(fmt.Sprintf("%d due of %d", c.due, max(c.stored, c.due)), func(b *testing.B) { benchSweep(b, c.due, c.stored) })
	}
}

func benchSweep(b *testing.B, due, stored int) {
	if stored > 100_000 && testing.Short() {
		b.Skip("a million rows take a while")
	}
	now := time.Now().UTC()
	clock := func() time.Time { return now }
	dir := b.TempDir()
	l, err := sqlite.Open(filepath.Join(dir, "ledger.db"), sqlite.Options{Now: clock})
	must(b, err)
	b.Cleanup(func() { must(b, l.Close()) })
	objects, err := backendfs.Open(filepath.Join(dir, "blobs"), backendfs.Options{Now: clock})
	must(b, err)
	b.Cleanup(func() { must(b, objects.Close()) })
	s := store.New(store.Config{
		Ledger: l, Objects: objects, Journal: evidence.NewJournal(l, objects), Now: clock, Random: rand.Reader,
		Keys: keys.NewCore(keysmem.New(nil), keys.Options{Now: clock}), PutMargin: margin, Log: slog.New(slog.DiscardHandler),
	})
	_, err = l.Identity(b.Context(), "00112233445566778899aabbccddeeff")
	must(b, err)
	must(b, s.Start(b.Context()))
	_, err = s.CreateTenant(b.Context(), tenant, "")
	must(b, err)
	_, err = s.SetPolicy(b.Context(), ledger.Policy{
		Tenant: tenant, Class: "reasoning", Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Days: 30}},
	})
	must(b, err)
	text := make([]byte, 8<<10)
	w := retention.NewSweeps(s, l, "node", retention.SweepOptions{}, clock, slog.New(slog.DiscardHandler))
	fill(b, l, stored, now.Add(40*24*time.Hour)) // never due here
	for b.Loop() {
		b.StopTimer()
		for i := range due {
			_, _ = rand.Read(text)
			_, err := s.Put(b.Context(), store.PutRequest{
				Attempt: store.Attempt{Tenant: tenant, ExecutionID: fmt.Sprint("due ", i%50)},
				Content: store.Content{Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Text: blobd.TextOf(text)},
			})
			must(b, err)
		}
		now = now.Add(31 * 24 * time.Hour)
		started, err := s.StartSweep(b.Context(), store.NewSweep{Tenant: tenant})
		must(b, err)
		b.StartTimer()
		_, err = w.RunOne(b.Context())
		must(b, err)
		b.StopTimer()
		done, err := l.Sweep(b.Context(), tenant, started.ID)
		must(b, err)
		if done.Erased != int64(due) {
			b.Fatalf("erased %d: %+v", done.Erased, done)
		}
		now = now.Add(-31 * 24 * time.Hour) // what is stored stays young
		b.StartTimer()
	}
	b.ReportMetric(float64(due)/(b.Elapsed().Seconds()/float64(b.N)), "blobs/s")
}

// fill commits rows that have no objects: a sweep does not look at what is not due.
func fill(b *testing.B, l ledger.Ledger, rows int, at time.Time) {
	for n := 0; n < rows; {
		var tag blobd.ExecutionTag
		binary.BigEndian.PutUint64(tag[:], uint64(n)+1<<40)
		c := ledger.Capture{
			Tenant: tenant, Tag: tag, ExecutionID: fmt.Sprint("young ", n), At: at, StepID: "step", Attempt: 1,
			Key:   ledger.WrappedKey{ID: [16]byte{1}, Version: 1, Ciphertext: make([]byte, 80)},
			Entry: ledger.Entry{Tenant: tenant, Kind: ledger.EntryPut, At: at, Body: []byte(`{}`)},
		}
		for i := 0; i < 256 && n < rows; i++ {
			n++
			blob := ledger.NewBlob{Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Size: 8192, SealedSize: 8500, WrappedKey: make([]byte, 60)}
			binary.BigEndian.PutUint64(blob.Ref[:], uint64(n)*0x9e3779b97f4a7c15)
			binary.BigEndian.PutUint64(blob.Repeat[:], uint64(n)*0xc2b2ae3d27d4eb4f)
			c.Parts = append(c.Parts, ledger.Part{Index: i, Kind: blobd.KindText, Status: ledger.PartKept, Blob: i})
			c.Blobs = append(c.Blobs, blob)
		}
		_, err := l.Commit(b.Context(), c)
		must(b, err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
