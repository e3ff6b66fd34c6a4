package mem

import (
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// staging is a capture that was not refused yet: nothing of it is in the ledger.
type staging struct {
	ledger     *Ledger
	capture    *ledger.Capture
	rows       map[blobd.Ref]*ledger.Blob // to insert
	repeats    map[[32]byte]*ledger.Blob  // of rows to insert
	superseded []*ledger.Blob
	answers    []*ledger.Blob
	created    []bool
	kept       []blobd.Ref // found live by the put
	erased     []blobd.Ref
	closed     ledger.CloseReason // the strongest of the rows that it would join
	inUse      bool
}

func (s *staging) run() error {
	for _, p := range s.capture.Parts {
		if p.Status == ledger.PartKept && p.Blob < 0 {
			s.checkKept(p.Ref)
		}
	}
	s.created = make([]bool, len(s.capture.Blobs))
	for i := range s.capture.Blobs {
		s.put(i)
	}
	if len(s.erased) > 0 {
		return &blobd.RefsError{Refs: s.erased, Err: blobd.ErrBlobErased}
	}
	if err := refusal(s.closed); err != nil {
		return err
	}
	if s.inUse {
		return fmt.Errorf("a ref is in use or no longer live: %w", blobd.ErrConflict)
	}
	return nil
}

func (s *staging) row(ref blobd.Ref) *ledger.Blob {
	return s.ledger.blobs[ledger.Position{Tag: s.capture.Tag, Ref: ref}]
}

func (s *staging) checkKept(ref blobd.Ref) {
	s.kept = append(s.kept, ref)
	row := s.row(ref)
	if row == nil || row.State != ledger.BlobLive {
		s.inUse = true
		return
	}
	s.join(s.ledger.blob(s.capture.Tag, row))
}

// join notes why a live row that the capture would add to is closed.
func (s *staging) join(row *ledger.Blob) {
	if row.Closed != 0 && (s.closed == 0 || row.Closed < s.closed) {
		s.closed = row.Closed
	}
}

// put stages a new row, or answers with the live one that has its repeat tag.
func (s *staging) put(i int) {
	b := &s.capture.Blobs[i]
	existing := s.repeats[b.Repeat]
	if existing == nil {
		if ref, known := s.ledger.repeats[repeat{s.capture.Tag, b.Repeat}]; known {
			existing = s.row(ref)
		}
	}
	if existing != nil {
		switch seen := s.ledger.blob(s.capture.Tag, existing); {
		case existing.State == ledger.BlobErased:
			s.erased = append(s.erased, existing.Ref)
			s.answers = append(s.answers, existing)
			return
		case seen.Closed != 0:
			s.join(seen)
			s.answers = append(s.answers, existing)
			return
		case !seen.Expired(kept(s.capture.At)):
			s.answers = append(s.answers, existing)
			return
		}
	}
	row := s.stage(b)
	s.answers = append(s.answers, row)
	if s.row(b.Ref) != nil || s.rows[b.Ref] != nil {
		s.inUse = true
		return
	}
	if existing != nil {
		s.superseded = append(s.superseded, existing)
	}
	s.created[i] = true
	s.rows[b.Ref], s.repeats[b.Repeat] = row, row
}

func (s *staging) stage(b *ledger.NewBlob) *ledger.Blob {
	return &ledger.Blob{
		Ref: b.Ref, State: ledger.BlobLive, Class: b.Class, Kind: b.Kind, ContentType: b.ContentType,
		Size: b.Size, SealedSize: b.SealedSize, StepID: s.capture.StepID, CreatedAt: kept(s.capture.At),
		Repeat: b.Repeat, WrappedKey: slices.Clone(b.WrappedKey), Audience: slices.Clone(b.Audience),
	}
}

// keep makes the staged changes.
func (s *staging) keep() {
	l, c := s.ledger, s.capture
	e := l.executions[c.Tag]
	if e == nil {
		e = &ledger.Execution{
			Tag: c.Tag, Tenant: c.Tenant, ID: c.ExecutionID, State: ledger.ExecutionOpen,
			Key: cloneKey(c.Key), CreatedAt: kept(c.At),
		}
		l.executions[c.Tag] = e
	}
	for _, row := range s.superseded {
		row.State = ledger.BlobSuperseded
		l.release(c.Tag, row)
		e.Blobs, e.Bytes = e.Blobs-1, e.Bytes-row.Size
	}
	for ref, row := range s.rows {
		l.blobs[ledger.Position{Tag: c.Tag, Ref: ref}] = row
		l.repeats[repeat{c.Tag, row.Repeat}] = ref
		e.Blobs, e.Bytes = e.Blobs+1, e.Bytes+row.Size
		l.writes++
		l.numbers[ledger.Position{Tag: c.Tag, Ref: ref}] = l.writes
		l.classes[class{c.Tenant, row.Class}] = true
	}
	for _, row := range s.answers {
		l.unite(c.Tag, row.Ref, c.Subjects)
	}
	for _, ref := range s.kept {
		l.unite(c.Tag, ref, c.Subjects)
	}
	s.keepParts()
}

// release gives up a row's repeat tag.
func (l *Ledger) release(tag blobd.ExecutionTag, row *ledger.Blob) {
	if row.Repeat != ([32]byte{}) {
		delete(l.repeats, repeat{tag, row.Repeat})
		row.Repeat = [32]byte{}
	}
}

func (l *Ledger) unite(tag blobd.ExecutionTag, ref blobd.Ref, subjects [][32]byte) {
	at := ledger.Position{Tag: tag, Ref: ref}
	if l.subjects[at] == nil {
		l.subjects[at] = map[[32]byte]bool{}
	}
	for _, subject := range subjects {
		l.subjects[at][subject] = true
	}
}

// part is an attempt record; its Blob is found when it is read.
type part struct {
	tag blobd.ExecutionTag
	ledger.RecordedPart
}

type partKey struct {
	tag     blobd.ExecutionTag
	step    string
	attempt int64
	index   int
	ref     blobd.Ref
}

func (s *staging) keepParts() {
	l, c := s.ledger, s.capture
	for _, p := range c.Parts {
		r := ledger.RecordedPart{
			Seq: int64(len(l.parts)) + 1, StepID: c.StepID, Attempt: c.Attempt, Index: p.Index, Kind: p.Kind,
			Status: p.Status, Provider: c.Provider, Model: c.Model, At: kept(c.At),
		}
		switch {
		case p.Status != ledger.PartKept:
		case p.Blob >= 0:
			r.Ref = s.answers[p.Blob].Ref
		default:
			r.Ref = p.Ref
		}
		key := partKey{c.Tag, r.StepID, r.Attempt, r.Index, r.Ref}
		if !l.partKeys[key] {
			l.partKeys[key] = true
			l.parts = append(l.parts, part{c.Tag, r})
		}
	}
}
