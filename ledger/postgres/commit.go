package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// commit is one capture on its way through a batch.
type commit struct {
	capture ledger.Capture
	done    ledger.Committed
	err     error
	busy    bool // another transaction has its execution in hand
}

// Commit implements ledger.Blobs. Commits that meet share a transaction. None
// waits there for another node: one whose execution is in hand elsewhere gets a
// transaction of its own.
func (l *Ledger) Commit(ctx context.Context, c ledger.Capture) (ledger.Committed, error) {
	const op = "commit"
	err := ctx.Err()
	if err == nil {
		err = checkCapture(&c)
	}
	if err != nil {
		return ledger.Committed{}, classify(op, err)
	}
	item := &commit{capture: c}
	if err := l.share(ctx, item); err != nil {
		return ledger.Committed{}, classify(op, err)
	}
	if item.busy {
		if err := l.alone(ctx, op, item); err != nil {
			return ledger.Committed{}, err
		}
	}
	if item.err != nil {
		return ledger.Committed{}, classify(op, item.err)
	}
	return item.done, nil
}

// share runs a commit in a batch. A caller whose time is over is not kept by
// the batch that it leads.
func (l *Ledger) share(ctx context.Context, item *commit) error {
	if err := l.enter(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer l.work.Done()
		done <- l.commits.Do(ctx, item)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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

// commitBatch runs captures in one transaction: one that is refused leaves the
// others whole; when the engine fails, none happened as far as anyone can say.
// A batch belongs to no single caller, so it has the ledger's own time.
func (l *Ledger) commitBatch(items []*commit) {
	err := l.retry(context.Background(), func(ctx context.Context) error {
		return l.transact(ctx, func(ctx context.Context, x *tx) error {
			return l.applyAll(ctx, x, items, " SKIP LOCKED")
		})
	})
	if err == nil || errors.Is(err, errNothing) {
		return
	}
	for _, item := range items {
		item.err, item.busy = err, false
	}
}

// alone runs a capture in its own transaction, which waits for its execution.
func (l *Ledger) alone(ctx context.Context, op string, item *commit) error {
	err := l.write(ctx, op, func(ctx context.Context, x *tx) error {
		return l.applyAll(ctx, x, []*commit{item}, "")
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// errNothing rolls back a batch in which every capture was refused.
var errNothing = errors.New("nothing to commit")

// refusal is an answer of the contract about one capture, not a failure.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// applyAll reads what the captures meet, in one round trip, decides, and leaves
// the changes queued for the round trip of COMMIT.
func (l *Ledger) applyAll(ctx context.Context, x *tx, items []*commit, orSkip string) error {
	b := newBatch(items)
	if err := l.load(ctx, x, b, orSkip); err != nil {
		return err
	}
	for _, item := range items {
		item.done, item.err, item.busy = ledger.Committed{}, nil, b.busy[item.capture.Tag]
		if item.busy {
			continue
		}
		done, err := b.apply(&item.capture)
		if refused := (refusal{}); errors.As(err, &refused) {
			item.err = refused.error
			continue
		}
		if err != nil {
			return err
		}
		item.done = done
	}
	if len(b.entries) == 0 {
		return errNothing
	}
	b.queue(x)
	return nil
}
