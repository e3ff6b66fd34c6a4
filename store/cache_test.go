package store_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// warmNode is a node that has the sealed bytes of texts in memory, having read
// them, beside the node that put them; gets counts its reads of the store.
func warmNode(t *testing.T, texts ...string) (writer, warm *node, refs []blobd.Ref, gets *atomic.Int64) {
	t.Helper()
	p := memParts(t)
	writer, warm = p.start(t), p.start(t)
	gets = new(atomic.Int64)
	warm.objects.OnCall(func(op, _ string) {
		if op == "get" {
			gets.Add(1)
		}
	})
	for _, text := range texts {
		refs = append(refs, writer.mustPut(t, run, text).Ref)
	}
	for range 2 {
		for i, text := range texts {
			warm.wantText(t, run, refs[i], text)
		}
	}
	if n := gets.Load(); n != int64(len(texts)) {
		t.Fatalf("%d texts read twice took %d reads of the store", len(texts), n)
	}
	return writer, warm, refs, gets
}

// TestErasedElsewhereIsNullAtOnceWithAWarmCache: the ledger decides before
// memory is looked at.
func TestErasedElsewhereIsNullAtOnceWithAWarmCache(t *testing.T) {
	for name, wholeExecution := range map[string]bool{"execution": true, "blob": false} {
		t.Run(name, func(t *testing.T) {
			writer, warm, refs, gets := warmNode(t, "erased elsewhere", "beside it")
			before := gets.Load()
			if wholeExecution {
				writer.mustErase(t, run)
			} else {
				writer.mustErase(t, run, refs[0])
			}
			warm.wantNull(t, run, refs[0])
			got, err := warm.resolve(t.Context(), run, refs...)
			if err != nil || got[0] != nil || (got[1] == nil) != wholeExecution {
				t.Errorf("batch: %v, %v", got, err)
			}
			writer.runJobs(t)
			warm.wantNull(t, run, refs[0])
			if gets.Load() != before {
				t.Error("a null asked the store")
			}
		})
	}
}

// TestABatchFromMemoryReadsNoObject: one ledger query, no object.
func TestABatchFromMemoryReadsNoObject(t *testing.T) {
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = strings.Repeat("x", i+1)
	}
	_, warm, refs, gets := warmNode(t, texts...)
	before, lookups := gets.Load(), new(atomic.Int64)
	warm.ledger.OnCall(func(string) { lookups.Add(1) })
	got, err := warm.resolve(t.Context(), run, refs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range got {
		if text == nil || *text != texts[i] {
			t.Errorf("part %d is another", i)
		}
	}
	if gets.Load() != before || lookups.Load() != 1 {
		t.Errorf("%d reads of the store and %d of the ledger, want 0 and 1", gets.Load()-before, lookups.Load())
	}
}

// TestCacheStats counts hits, misses and bytes; a put's own bytes are kept too.
func TestCacheStats(t *testing.T) {
	writer, warm, refs, _ := warmNode(t, "a text", "another")
	s := warm.store.Stats()
	if s.CacheHits != 2 || s.CacheMisses != 2 || s.CacheBytes < int64(len("a text")+len("another")) || s.CacheBytes > 2<<10 {
		t.Errorf("after two reads each of two texts: %+v", s)
	}
	writer.wantText(t, run, refs[0], "a text")
	if s := writer.store.Stats(); s.CacheHits != 1 || s.CacheMisses != 0 {
		t.Errorf("the node that put: %+v", s)
	}
}

// TestCacheSize: never more than its bound, and nothing where that is 0.
func TestCacheSize(t *testing.T) {
	for _, limit := range []int64{0, 100, 10_000} {
		n := memParts(t).start(t)
		c := n.store.Config
		c.CacheBytes = limit
		n.store = store.New(c)
		n.resolver = resolver.New(n.store, n.ledger, n.resolver.Options)
		if err := n.store.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			text := strings.Repeat("y", 20*i+1)
			n.wantText(t, run, n.mustPut(t, run, text).Ref, text)
			if got := n.store.Stats().CacheBytes; got > limit {
				t.Fatalf("limit %d: %d bytes", limit, got)
			}
		}
		s := n.store.Stats()
		if (s.CacheBytes > limit/2) != (limit == 10_000) || (s.CacheHits > 0) != (limit == 10_000) {
			t.Errorf("limit %d: %+v", limit, s)
		}
	}
}

// TestRoomIsAskedBeforeAnyFetch: a read asks for the memory of what it will
// fetch, by the ledger's sizes, before it fetches; not for nulls, and a refusal
// is the answer.
func TestRoomIsAskedBeforeAnyFetch(t *testing.T) {
	p := memParts(t)
	writer, n := p.start(t), p.start(t)
	long := strings.Repeat("z", 5000)
	a, b := writer.mustPut(t, run, long), writer.mustPut(t, run, "short")
	gets := 0
	n.objects.OnCall(func(op, _ string) {
		if op == "get" {
			gets++
		}
	})
	full := errors.New("full")
	var asked []int64
	room := func(_ context.Context, n int64) error {
		asked = append(asked, n)
		return full
	}
	nobody := resolver.Want{Ref: blobd.RefOf([]byte("nobody"))}
	for name, read := range map[string]func() error{
		"resolve": func() error {
			_, err := n.resolver.Resolve(t.Context(), resolver.Request{
				Tenant: tenant, ExecutionID: run, Room: room, Wants: []resolver.Want{{Ref: a.Ref}, nobody, {Ref: b.Ref}},
			})
			return err
		},
		"read": func() error {
			_, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: run, Purpose: "a check", Room: room})
			return err
		},
	} {
		asked = nil
		if err := read(); !errors.Is(err, full) {
			t.Errorf("%s: %v, want the refusal", name, err)
		}
		const texts = 5005
		if len(asked) != 1 || asked[0] < 2*texts || asked[0] > 3*texts || gets != 0 {
			t.Errorf("%s: asked for %v bytes, with %d reads of the store", name, asked, gets)
		}
	}
	asked = nil
	got, err := n.resolver.Resolve(t.Context(), resolver.Request{Tenant: tenant, ExecutionID: run, Room: room, Wants: []resolver.Want{nobody}})
	if err != nil || !got.Parts[0].Null || asked != nil {
		t.Errorf("a null: %+v, %v, asked for %v", got, err, asked)
	}
}
