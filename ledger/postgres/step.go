package postgres

import (
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// step is the work on one capture of a batch. It changes nothing of the batch
// before keep.
type step struct {
	*batch
	e       *execution
	capture *ledger.Capture

	done       ledger.Committed
	made       []*row
	superseded map[*row]bool
	byRef      map[blobd.Ref]*row // made
	byRepeat   map[[32]byte]*row  // made
	erased     []blobd.Ref
	closed     ledger.CloseReason // of a row that the capture would join
	inUse      bool
	kept       []blobd.Ref // rows that the capture's subjects belong to
}

func newStep(b *batch, e *execution, c *ledger.Capture) *step {
	return &step{
		batch: b, e: e, capture: c, superseded: make(map[*row]bool),
		byRef: make(map[blobd.Ref]*row), byRepeat: make(map[[32]byte]*row),
		done: ledger.Committed{Blobs: make([]ledger.Blob, len(c.Blobs)), Created: make([]bool, len(c.Blobs))},
	}
}

// run looks at all blobs before it refuses, so that the refusal is the one that
// the contract's order asks for.
func (s *step) run() error {
	s.checkKept()
	for i := range s.capture.Blobs {
		s.put(i)
	}
	if len(s.erased) > 0 {
		return refusal{&blobd.RefsError{Refs: s.erased, Err: blobd.ErrBlobErased}}
	}
	if s.closed != 0 {
		return refusal{closedBy(s.closed)}
	}
	if s.inUse {
		return refusal{fmt.Errorf("a ref is in use or no longer live: %w", blobd.ErrConflict)}
	}
	return nil
}

// checkKept looks at the rows that parts name because the put found them live.
func (s *step) checkKept() {
	for _, p := range s.capture.Parts {
		if p.Status != ledger.PartKept || p.Blob >= 0 {
			continue
		}
		r := s.e.byRef[p.Ref]
		if r == nil || r.State != ledger.BlobLive {
			s.inUse = true
		} else {
			s.meet(r)
		}
		s.kept = append(s.kept, p.Ref)
	}
}

// meet notes what closes a live row that the capture would join; a closing comes
// before a restriction.
func (s *step) meet(r *row) {
	if r.Closed != 0 && (s.closed == 0 || r.Closed == ledger.ClosedErasure) {
		s.closed = r.Closed
	}
}

// put makes a row for a blob, or answers with the live row that has its repeat
// tag.
func (s *step) put(i int) {
	b := &s.capture.Blobs[i]
	existing := s.withRepeat(b.Repeat)
	switch {
	case existing == nil:
		s.insert(i)
	case existing.State == ledger.BlobErased:
		s.erased = append(s.erased, existing.Ref)
	case existing.Closed != 0:
		s.meet(existing)
	case !existing.Expired(stored(s.capture.At)):
		s.done.Blobs[i] = existing.Blob
		s.kept = append(s.kept, existing.Ref)
	default:
		s.superseded[existing] = true
		s.insert(i)
	}
}

// withRepeat returns the row that has a repeat tag by now.
func (s *step) withRepeat(repeat [32]byte) *row {
	if r := s.byRepeat[repeat]; r != nil {
		return r
	}
	if r := s.e.byRepeat[repeat]; r != nil && !s.superseded[r] {
		return r
	}
	return nil
}

func (s *step) insert(i int) {
	c, b := s.capture, &s.capture.Blobs[i]
	if s.byRef[b.Ref] != nil || s.e.byRef[b.Ref] != nil {
		s.inUse = true
		return
	}
	r := &row{tag: c.Tag, isNew: true, Blob: ledger.Blob{
		Ref: b.Ref, State: ledger.BlobLive, Class: b.Class, Kind: b.Kind, ContentType: b.ContentType,
		Size: b.Size, SealedSize: b.SealedSize, StepID: c.StepID, CreatedAt: stored(c.At), Repeat: b.Repeat,
		WrappedKey: notNull(b.WrappedKey), Audience: b.Audience, ExpiresAt: ledger.EndOf(s.versions[class{c.Tenant, b.Class}], stored(c.At), s.e.endedAt),
	}}
	s.made = append(s.made, r)
	s.byRef[r.Ref], s.byRepeat[r.Repeat] = r, r
	s.done.Blobs[i], s.done.Created[i] = r.Blob, true
	s.kept = append(s.kept, r.Ref)
}

// keep takes a finished step into the batch.
func (s *step) keep() {
	e, c := s.e, s.capture
	if e.isNew && !e.changed {
		key := c.Key
		e.id, e.tenant, e.state, e.key, e.createdAt = c.ExecutionID, c.Tenant, ledger.ExecutionOpen, &key, c.At
		s.ids[executionID{c.Tenant, c.ExecutionID}] = c.Tag
		s.counts.executions++
	}
	if !e.changed {
		e.changed = true
		s.batch.changed = append(s.batch.changed, e)
	}
	for r := range s.superseded {
		s.supersede(r)
	}
	for _, r := range s.made {
		e.byRef[r.Ref], e.byRepeat[r.Repeat] = r, r
		s.rows = append(s.rows, r)
		s.count(1, r.Size)
	}
	s.counts.writes += int64(len(s.made))
	s.entries = append(s.entries, c.Entry)
	s.keepParts()
	for _, ref := range s.kept {
		for _, h := range c.Subjects {
			s.subjects = append(s.subjects, subject{c.Tag, ref, h})
		}
	}
}

// supersede takes the repeat tag of an expired row, which may be of this batch.
func (s *step) supersede(r *row) {
	delete(s.e.byRepeat, r.Repeat)
	r.State, r.Repeat = ledger.BlobSuperseded, [32]byte{}
	s.count(-1, -r.Size)
	if !r.isNew {
		s.expired = append(s.expired, r)
	}
}

func (s *step) count(blobs, bytes int64) {
	s.e.blobs, s.e.bytes = s.e.blobs+blobs, s.e.bytes+bytes
	s.counts.blobs, s.counts.bytes = s.counts.blobs+blobs, s.counts.bytes+bytes
}

func (s *step) keepParts() {
	for _, p := range s.capture.Parts {
		switch {
		case p.Status != ledger.PartKept:
			p.Ref = blobd.Ref{}
		case p.Blob >= 0:
			p.Ref = s.done.Blobs[p.Blob].Ref
		}
		s.parts = append(s.parts, part{s.capture, p})
	}
}
