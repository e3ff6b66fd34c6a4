package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// commit is one capture on its way through a batch.
type commit struct {
	capture ledger.Capture
	done    ledger.Committed
	err     error
}

// Commit implements ledger.Blobs.
func (l *Ledger) Commit(ctx context.Context, c ledger.Capture) (ledger.Committed, error) {
	item := commit{capture: c}
	err := ctx.Err()
	if err == nil {
		err = checkCapture(&c)
	}
	if err == nil {
		err = l.commits.Do(ctx, &item)
	}
	if err == nil {
		err = item.err
	}
	if err != nil {
		return ledger.Committed{}, classify("commit", err)
	}
	return item.done, nil
}

func checkCapture(c *ledger.Capture) error {
	if len(c.Blobs) > maxRefs || len(c.Parts) < 1 || len(c.Parts) > maxRefs {
		return fmt.Errorf("%d blobs, %d parts: %w", len(c.Blobs), len(c.Parts), blobd.ErrInvalid)
	}
	for i := range c.Blobs {
		if c.Blobs[i].Class == "" {
			return fmt.Errorf("blob %d has no class: %w", i, blobd.ErrInvalid)
		}
	}
	for _, p := range c.Parts {
		if p.Blob >= len(c.Blobs) {
			return fmt.Errorf("a part names blob %d of %d: %w", p.Blob, len(c.Blobs), blobd.ErrInvalid)
		}
	}
	return nil
}

const (
	// batchWait is how long a batch waits for the writer.
	batchWait = 5 * time.Second
	// gather is how long it waits for the callers of the last one: less than the
	// sync that each of them would pay for otherwise.
	gather = 400 * time.Microsecond
)

// commitBatch runs captures in one transaction: one that is refused leaves the
// others whole; when the engine fails, none happened as far as anyone can say.
func (l *Ledger) commitBatch(items []*commit) {
	// A batch belongs to no single caller, so it waits for the writer by a bound
	// of its own.
	ctx, cancel := context.WithTimeout(context.Background(), batchWait)
	defer cancel()
	err := l.withWriter(ctx, func(w *conn) (bool, error) { return l.transactBatch(w, items) })
	if err == nil {
		return
	}
	for _, item := range items {
		item.err = err
	}
}

func (l *Ledger) transactBatch(w *conn, items []*commit) (broken bool, err error) {
	ctx := context.Background() // once begun it runs to its end
	var b *batch
	broken, err = l.transactAside(ctx, w, func(w *conn) (err error) {
		if b, err = l.applyAll(ctx, w, items); err != nil {
			return err
		}
		l.memo.committing(b.executions)
		return nil
	})
	switch {
	case err == nil:
		l.memo.committed()
		maps.Copy(l.classes, b.newClasses)
	case errors.Is(err, errNothing):
		err = nil
	default: // nobody can say what happened
		l.memo.close()
		l.memo.open()
	}
	return broken, err
}

// errNothing rolls back a batch in which every capture was refused.
var errNothing = errors.New("nothing to commit")

// refusal is an answer of the contract about one capture, not a failure.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func (l *Ledger) applyAll(ctx context.Context, w *conn, items []*commit) (*batch, error) {
	known, err := l.factsOn(ctx, w)
	if err != nil {
		return nil, err
	}
	b, err := newBatch(ctx, w, known, l.memo, l.classes)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		item.done, item.err = ledger.Committed{}, nil
		err := b.apply(ctx, item)
		var refused refusal
		switch {
		case errors.Is(err, errRollback):
			return nil, err
		case errors.As(err, &refused):
			item.err = refused.error
		case err != nil:
			return nil, err
		}
	}
	if len(b.entries) == 0 {
		return nil, errNothing
	}
	return b, b.flush(ctx)
}

// apply takes one capture into the batch, whole or not at all. What it changes
// in the batch's own memory is changed at its end only.
func (b *batch) apply(ctx context.Context, item *commit) error {
	c := &item.capture
	e, err := b.execution(ctx, c)
	if err != nil {
		return err
	}
	s := step{batch: b, capture: c, e: e}
	// One blob of a known execution is refused before it changes anything.
	if e.isNew || len(c.Blobs) > 1 || len(c.Blobs) == 1 && keepsRefs(c) {
		err = b.w.savepoint(ctx, func() error { return s.run(ctx) })
	} else {
		err = s.run(ctx)
	}
	if err != nil {
		return err
	}
	item.done = s.done
	s.keep()
	return nil
}

// keepsRefs reports whether a part names a row that the put found live.
func keepsRefs(c *ledger.Capture) bool {
	return slices.ContainsFunc(c.Parts, func(p ledger.Part) bool { return p.Status == ledger.PartKept && p.Blob < 0 })
}

// execution returns the capture's execution as this batch sees it, checked in
// the order of the contract.
func (b *batch) execution(ctx context.Context, c *ledger.Capture) (*executionState, error) {
	e, seen := b.executions[c.Tag]
	if !seen {
		var err error
		if e, err = b.loadExecution(ctx, c); err != nil {
			return nil, err
		}
	}
	minimum, known := b.known.minimumWrap[c.Tenant]
	_, fenced := b.known.fenced[c.Tenant]
	if _, its := b.known.fenced[e.tenant]; its {
		fenced = true
	}
	switch {
	case e.state == ledger.ExecutionErased:
		return nil, refusal{blobd.ErrErased}
	case fenced:
		return nil, refusal{blobd.ErrTenantErased}
	}
	if err := b.checkOrders(ctx, c); err != nil {
		return nil, err
	}
	switch {
	case !known:
		return nil, refusal{fmt.Errorf("tenant: %w", blobd.ErrNotFound)}
	case !e.isNew && e.tenant != c.Tenant:
		return nil, refusal{fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)}
	case e.isNew && c.Key.Version < minimum:
		return nil, refusal{fmt.Errorf("wrapped by version %d, minimum %d: %w", c.Key.Version, minimum, blobd.ErrConflict)}
	case !e.isNew && e.keyID != c.Key.ID:
		return nil, b.keyConflict(ctx, e)
	}
	return e, nil
}

func (b *batch) loadExecution(ctx context.Context, c *ledger.Capture) (*executionState, error) {
	if n, x, ok := b.memo.execution(c.Tag); ok {
		e := &executionState{tenant: x.Tenant, state: x.State, n: n, endedAt: x.EndedAt}
		if x.Key != nil {
			e.keyID, e.keyVersion = x.Key.ID, x.Key.Version
		}
		b.executions[c.Tag] = e
		return e, nil
	}
	e := &executionState{isNew: true}
	_, err := b.w.one(ctx, "SELECT tenant, state, key_id, key_version, n, ended_at FROM executions WHERE tag = ?",
		func(r *row) {
			e.isNew = false
			e.tenant = r.text(0)
			e.state = ledger.ExecutionState(r.int(1))
			e.n, e.endedAt = r.int(4), r.time(5)
			if e.state != ledger.ExecutionErased {
				r.fixed(2, e.keyID[:])
				e.keyVersion = uint32(r.int(3))
			}
		}, c.Tag[:])
	if err == nil && !e.isNew {
		b.executions[c.Tag] = e
	}
	return e, err
}

// keyConflict names the key that won, which may be of this very batch.
func (b *batch) keyConflict(ctx context.Context, e *executionState) error {
	winner := ledger.WrappedKey{ID: e.keyID, Version: e.keyVersion}
	found, err := b.w.one(ctx, "SELECT wrapped FROM execution_keys WHERE n = ?",
		func(r *row) { winner.Ciphertext = r.bytes(0) }, e.n)
	if err != nil {
		return err
	}
	if !found || winner.Ciphertext == nil {
		return fmt.Errorf("no key row: %w", blobd.ErrCorrupt)
	}
	return refusal{&ledger.KeyConflict{Winner: winner}}
}
