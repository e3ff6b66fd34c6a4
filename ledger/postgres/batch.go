package postgres

import (
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// batch is one transaction's captures: what they met in the ledger, and what
// they change. It is worked out in memory; what was read of an execution stays
// true because the transaction holds its row, and a row that did not exist is
// inserted with the constraint that refuses a second one.
type batch struct {
	items      []*commit
	busy       map[blobd.ExecutionTag]bool
	executions map[blobd.ExecutionTag]*execution
	ids        map[executionID]blobd.ExecutionTag
	minimum    map[string]uint32         // wrap version, by tenant that exists
	fenced     map[string]bool           // tenants that were off-boarded
	versions   map[class][]ledger.Policy // of policies, newest first
	classes    map[class]bool            // that were put before
	orders     []openOrder               // that may close or suppress a capture

	changed  []*execution // in the order in which a capture first changed them
	rows     []*row       // inserted
	expired  []*row       // superseded rows of earlier transactions
	parts    []part
	subjects []subject
	entries  []ledger.Entry
	counts   counts
}

type (
	class       struct{ tenant, name string }
	executionID struct{ tenant, id string }
)

// execution is an execution as the batch sees it, with the rows that captures
// asked for, and what the batch adds to it.
type execution struct {
	tag          blobd.ExecutionTag
	isNew        bool // has no row
	id           string
	tenant       string
	state        ledger.ExecutionState
	key          *ledger.WrappedKey
	createdAt    time.Time
	endedAt      time.Time
	blobs, bytes int64
	changed      bool
	byRef        map[blobd.Ref]*row
	byRepeat     map[[32]byte]*row
}

// row is a blob's row; a new one is inserted by this batch.
type row struct {
	tag blobd.ExecutionTag
	ledger.Blob
	isNew bool
}

type part struct {
	capture *ledger.Capture
	ledger.Part
}

type subject struct {
	tag     blobd.ExecutionTag
	ref     blobd.Ref
	subject [32]byte
}

func newBatch(items []*commit) *batch {
	b := &batch{
		items: items, busy: make(map[blobd.ExecutionTag]bool), executions: make(map[blobd.ExecutionTag]*execution),
		ids: make(map[executionID]blobd.ExecutionTag), minimum: make(map[string]uint32), fenced: make(map[string]bool), versions: make(map[class][]ledger.Policy), classes: make(map[class]bool),
	}
	for _, item := range items {
		b.execution(item.capture.Tag)
	}
	return b
}

func (b *batch) execution(tag blobd.ExecutionTag) *execution {
	e, ok := b.executions[tag]
	if !ok {
		e = &execution{tag: tag, isNew: true, byRef: make(map[blobd.Ref]*row), byRepeat: make(map[[32]byte]*row)}
		b.executions[tag] = e
	}
	return e
}

// met takes in a row that the ledger has.
func (e *execution) met(blob *ledger.Blob) {
	r := &row{tag: e.tag, Blob: *blob}
	e.byRef[r.Ref] = r
	if r.Repeat != [32]byte{} {
		e.byRepeat[r.Repeat] = r
	}
}

// apply takes one capture into the batch, whole or not at all, and answers it.
func (b *batch) apply(c *ledger.Capture) (ledger.Committed, error) {
	e := b.executions[c.Tag]
	if err := b.check(e, c); err != nil {
		return ledger.Committed{}, err
	}
	s := newStep(b, e, c)
	if err := s.run(); err != nil {
		return ledger.Committed{}, err
	}
	s.keep()
	return s.done, nil
}

// check asks what the contract asks first, in its order.
func (b *batch) check(e *execution, c *ledger.Capture) error {
	minimum, known := b.minimum[c.Tenant]
	isNew := e.isNew && !e.changed // an earlier capture of this batch may have made it
	closes, suppressed := b.covered(c)
	switch {
	case e.state == ledger.ExecutionErased:
		return refusal{blobd.ErrErased}
	case b.fenced[c.Tenant]:
		return refusal{blobd.ErrTenantErased}
	case closes != 0:
		return refusal{closedBy(closes.Closes())}
	case suppressed:
		return refusal{blobd.ErrSuppressed}
	case !known:
		return refusal{fmt.Errorf("tenant: %w", blobd.ErrNotFound)}
	case !isNew && e.tenant != c.Tenant:
		return refusal{fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)}
	case isNew && c.Key.Version < minimum:
		return refusal{fmt.Errorf("wrapped by version %d, minimum %d: %w", c.Key.Version, minimum, blobd.ErrConflict)}
	case isNew:
		return b.checkID(c)
	case e.key == nil:
		return errNoKey
	case e.key.ID != c.Key.ID:
		return refusal{&ledger.KeyConflict{Winner: *e.key}}
	}
	return nil
}

// checkID refuses a new execution whose id another tag has.
func (b *batch) checkID(c *ledger.Capture) error {
	tag, taken := b.ids[executionID{c.Tenant, c.ExecutionID}]
	if taken && tag != c.Tag && c.ExecutionID != "" {
		return refusal{fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)}
	}
	return nil
}
