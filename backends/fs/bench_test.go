package fs_test

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/fs"
)

// benchStore returns a store in TMPDIR, which must be on a disk for the figures to
// mean anything.
func benchStore(b *testing.B) *fs.Store {
	s, err := fs.Open(b.TempDir(), fs.Options{Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func benchName(i int64) string {
	var r blobd.Ref
	copy(r[:], fmt.Sprintf("%032d", i))
	return backends.BlobName("tenant", blobd.ExecutionTag{byte(i), byte(i >> 8)}, r)
}

func BenchmarkPut8KiB(b *testing.B) {
	for _, clients := range []int{2, 16, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := benchStore(b)
			data := make([]byte, 8<<10)
			_, _ = rand.Read(data)
			var n atomic.Int64
			b.SetParallelism(max(1, clients/runtime.GOMAXPROCS(0)))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.Put(b.Context(), benchName(n.Add(1)), data); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkGet8KiB(b *testing.B) {
	s := benchStore(b)
	data := make([]byte, 8<<10)
	for i := range int64(2000) {
		if err := s.Put(b.Context(), benchName(i), data); err != nil {
			b.Fatal(err)
		}
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Get(b.Context(), benchName(n.Add(7)%2000)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
