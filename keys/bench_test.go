package keys_test

import (
	"testing"

	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/mem"
)

func BenchmarkExecutionCached(b *testing.B) {
	ctx := b.Context()
	ring := mem.New(nil)
	if err := ring.Create(ctx, acme); err != nil {
		b.Fatal(err)
	}
	core := keys.NewCore(ring, keys.Options{})
	k, w, err := core.NewExecution(ctx, acme, tagA)
	if err != nil {
		b.Fatal(err)
	}
	core.Adopt(acme, tagA, k)
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := core.Execution(ctx, acme, tagA, k.ID, w)
			if err != nil {
				b.Fatal(err)
			}
			got.Wipe()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				got, err := core.Execution(ctx, acme, tagA, k.ID, w)
				if err != nil {
					b.Error(err)
					return
				}
				got.Wipe()
			}
		})
	})
}

func BenchmarkNewExecution(b *testing.B) {
	ctx := b.Context()
	ring := mem.New(nil)
	if err := ring.Create(ctx, acme); err != nil {
		b.Fatal(err)
	}
	core := keys.NewCore(ring, keys.Options{})
	b.ReportAllocs()
	for b.Loop() {
		k, _, err := core.NewExecution(ctx, acme, tagA)
		if err != nil {
			b.Fatal(err)
		}
		k.Wipe()
	}
}
