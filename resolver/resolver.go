// Package resolver is the read decision: bytes, null or error, and never a
// guess.
//
// It promises that a null is decided by the ledger alone, before any object or
// key is asked for (only an expected digest may need a key); that a live row
// whose object or key is absent, or whose bytes do not authenticate, is an
// error; and that no byte is returned unless the whole call is definite and
// its deadline still stands. It never writes a blob's state.
//
// decide.go holds the decision as a pure function; resolve.go is the runtime's
// read, read.go and events.go the auditor's.
package resolver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/seal"
	"github.com/blobd/blobd/store"
)

// The defaults of the contract.
const (
	DefaultDeadline  = store.DependencyTimeout
	DefaultMaxParts  = 256
	DefaultMaxBytes  = 16 << 20
	DefaultReadParts = 256
	DefaultReadBytes = 1 << 20
)

// parallelOpens bounds the object reads of one call.
const parallelOpens = 8

// Options tune a Resolver. Zero fields take the defaults.
type Options struct {
	// Deadline bounds a read from the ledger's answer to its first byte, so an
	// erasure knows when the reads before it have ended.
	Deadline time.Duration
	MaxParts int
	MaxBytes int64 // readable bytes of one batch
	Now      func() time.Time
	Random   io.Reader
	Log      *slog.Logger
}

// Resolver answers reads. It is safe for concurrent use.
type Resolver struct {
	Options
	store  *store.Store
	ledger ledger.Ledger
}

// New builds a resolver over a store and its ledger.
func New(s *store.Store, l ledger.Ledger, o Options) *Resolver {
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.MaxParts == 0 {
		o.MaxParts = DefaultMaxParts
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &Resolver{Options: o, store: s, ledger: l}
}

// opened is a text that authenticated, with its metadata.
type opened struct {
	text blobd.Text
	meta seal.Metadata
}

// openAll opens the rows that are not nil, in order. On an error every text is
// wiped; refs of blobs that are missing or corrupt are gathered into one error.
func (r *Resolver) openAll(ctx context.Context, t ledger.Tenant, x *ledger.Execution, rows []*ledger.Blob) ([]opened, error) {
	out := make([]opened, len(rows))
	if x == nil { // no row is to be opened: they would be errors by now
		return out, nil
	}
	failures := make([]error, len(rows))
	o := r.store.Opener(t, x)
	defer o.Close()
	eachOf(rows, func(i int) { out[i].text, out[i].meta, failures[i] = o.Open(ctx, rows[i]) })
	if err := joined(failures); err != nil {
		wipe(out)
		return nil, err
	}
	return out, nil
}

// eachOf calls do with the index of every row that is not nil. A few workers,
// the caller among them, take the next row until there is none; one row, the
// single resolve, needs neither goroutine nor counter.
func eachOf(rows []*ledger.Blob, do func(i int)) {
	if len(rows) == 1 && rows[0] != nil {
		do(0)
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(rows) {
				return
			}
			if rows[i] != nil {
				do(i)
			}
		}
	}
	var others sync.WaitGroup
	for range min(parallelOpens, len(rows)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

func wipe(texts []opened) {
	for _, o := range texts {
		o.text.Wipe()
	}
}

// timely reports whether the answer may still be given: the deadline is checked
// before the first byte.
func timely(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	return nil
}
