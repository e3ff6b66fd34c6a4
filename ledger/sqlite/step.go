package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// step is the work on one capture of a batch.
type step struct {
	*batch
	capture *ledger.Capture
	e       *executionState

	done         ledger.Committed
	first        int64 // number of the first part's record
	superseded   bool  // a row was
	n            int64 // of the execution, if it is new
	created      int64
	blobs, bytes int64 // change of what is live
	erased       []blobd.Ref
	closed       ledger.CloseReason // the strongest of the rows that it would join
	inUse        bool
	keptRefs     []blobd.Ref // rows that the capture's subjects belong to
	due          []newDue
	firsts       []int // of each blob, the index of the first part that names it, or -1
}

// run makes the capture's changes. All blobs are looked at before it refuses,
// so that the refusal is the one that the contract's order asks for.
func (s *step) run(ctx context.Context) error {
	if s.e.isNew {
		if err := s.insertExecution(ctx); err != nil {
			return err
		}
	}
	if err := s.checkKept(ctx); err != nil {
		return err
	}
	c := s.capture
	s.done = ledger.Committed{Blobs: make([]ledger.Blob, len(c.Blobs)), Created: make([]bool, len(c.Blobs))}
	s.first = s.totals.records + 1
	s.firsts = firstParts(c)
	for i := range c.Blobs {
		if err := s.putBlob(ctx, i); err != nil {
			return err
		}
	}
	if len(s.erased) > 0 {
		return refusal{&blobd.RefsError{Refs: s.erased, Err: blobd.ErrBlobErased}}
	}
	if err := putError(s.closed); err != nil {
		return refusal{err}
	}
	if s.inUse {
		return refusal{fmt.Errorf("a ref is in use or no longer live: %w", blobd.ErrConflict)}
	}
	return nil
}

func (s *step) insertExecution(ctx context.Context) error {
	c := s.capture
	found, err := s.w.one(ctx, `INSERT INTO executions
		(tag, tenant, id, state, reason, key_id, key_version, created_at, blobs, bytes)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?, 0, 0) ON CONFLICT DO NOTHING RETURNING n`, func(r *row) { s.n = r.int(0) },
		c.Tag[:], c.Tenant, c.ExecutionID, int64(ledger.ExecutionOpen), c.Key.ID[:], int64(c.Key.Version), c.At.UnixMicro())
	if err != nil {
		return err
	}
	if !found {
		return refusal{fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)}
	}
	_, err = s.w.exec(ctx, "INSERT INTO execution_keys (n, wrapped) VALUES (?, ?)", s.n, notNull(c.Key.Ciphertext))
	return err
}

// checkKept looks at the rows that parts name because the put found them live.
func (s *step) checkKept(ctx context.Context) error {
	for _, p := range s.capture.Parts {
		if p.Status != ledger.PartKept || p.Blob >= 0 {
			continue
		}
		var state ledger.BlobState
		_, err := s.w.one(ctx, "SELECT state FROM blobs WHERE execution_tag = ? AND ref = ?",
			func(r *row) { state = ledger.BlobState(r.int(0)) }, s.capture.Tag[:], p.Ref[:])
		if err != nil {
			return err
		}
		if state != ledger.BlobLive {
			s.inUse = true
			continue
		}
		if _, err := s.join(ctx, p.Ref); err != nil {
			return err
		}
		s.keptRefs = append(s.keptRefs, p.Ref)
	}
	return nil
}

// firstParts returns, for each blob, the index in Parts of the first that names
// it, -1 where none does.
func firstParts(c *ledger.Capture) []int {
	firsts := make([]int, len(c.Blobs))
	for i := range firsts {
		firsts[i] = slices.IndexFunc(c.Parts, func(p ledger.Part) bool {
			return p.Status == ledger.PartKept && p.Blob == i && p.Kind == c.Blobs[i].Kind
		})
	}
	return firsts
}

// A new row holds the attempt record of the first part that names it: a table
// and an index less to write in.
const insertBlob = `INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size,
	step_id, created_at, repeat, wrapped, audience, record, attempt, part_index, provider, model)
	VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

// putBlob inserts a blob, or answers with the live row that has its repeat tag.
func (s *step) putBlob(ctx context.Context, i int) error {
	inserted, err := s.insert(ctx, i)
	if err != nil || inserted {
		return err
	}
	existing, err := s.repeatOf(ctx, &s.capture.Blobs[i])
	switch {
	case err != nil:
		return err
	case existing == nil:
		s.inUse = true
		return nil
	case existing.State == ledger.BlobErased:
		s.erased = append(s.erased, existing.Ref)
		return nil
	}
	closed, err := s.join(ctx, existing.Ref)
	switch {
	case err != nil || closed:
		return err
	case !existing.Expired(stored(s.capture.At)):
		s.done.Blobs[i] = *existing
		s.keptRefs = append(s.keptRefs, existing.Ref)
		return nil
	}
	err = s.supersede(ctx, i, existing)
	if errors.Is(err, errInUse) && !errors.Is(err, errRollback) {
		s.inUse = true
		return nil
	}
	return err
}

// errInUse undoes a supersession whose new ref is taken.
var errInUse = errors.New("the ref is in use")

func (s *step) insert(ctx context.Context, i int) (inserted bool, err error) {
	c, b := s.capture, &s.capture.Blobs[i]
	args := append(make([]any, 0, 17), c.Tag[:], b.Ref[:], b.Class, string(b.Kind), b.ContentType, b.Size,
		b.SealedSize, c.StepID, c.At.UnixMicro(), b.Repeat[:], notNull(b.WrappedKey), orNull(joinHashes(b.Audience)))
	if part := s.firsts[i]; part >= 0 {
		args = append(args, s.first+int64(part), c.Attempt, int64(c.Parts[part].Index), c.Provider, c.Model)
	} else {
		args = append(args, nil, nil, nil, nil, nil)
	}
	row, n, err := s.w.insert(ctx, insertBlob, args...)
	if err != nil || n == 0 {
		return false, err
	}
	s.due = append(s.due, newDue{class{c.Tenant, b.Class}, c.At.UnixMicro(), row})
	s.created, s.blobs, s.bytes = s.created+1, s.blobs+1, s.bytes+b.Size
	s.keptRefs = append(s.keptRefs, b.Ref)
	s.done.Created[i] = true
	s.done.Blobs[i] = ledger.Blob{
		Ref: b.Ref, State: ledger.BlobLive, Class: b.Class, Kind: b.Kind, ContentType: b.ContentType,
		Size: b.Size, SealedSize: b.SealedSize, StepID: c.StepID, CreatedAt: stored(c.At), Repeat: b.Repeat,
		WrappedKey: b.WrappedKey, Audience: b.Audience,
	}
	s.setExpiry(&s.done.Blobs[i])
	return true, nil
}

// repeatOf returns the row that has a blob's repeat tag, nil if there is none.
func (s *step) repeatOf(ctx context.Context, b *ledger.NewBlob) (existing *ledger.Blob, err error) {
	_, err = s.w.one(ctx, "SELECT "+blobColumns+" FROM blobs b WHERE b.execution_tag = ? AND b.repeat = ?",
		func(r *row) { existing = r.blob(0) }, s.capture.Tag[:], b.Repeat[:])
	if err != nil || existing == nil {
		return nil, err
	}
	s.setExpiry(existing)
	return existing, nil
}

// setExpiry fills in what the policies say now.
func (s *step) setExpiry(b *ledger.Blob) {
	b.ExpiresAt = s.known.expires(s.capture.Tenant, b, s.e.endedAt)
}

// supersede gives an expired row's repeat tag to the new blob.
func (s *step) supersede(ctx context.Context, i int, expired *ledger.Blob) error {
	return s.w.savepoint(ctx, func() error {
		_, err := s.w.exec(ctx, "UPDATE blobs SET state = ?, repeat = NULL WHERE execution_tag = ? AND ref = ?",
			int64(ledger.BlobSuperseded), s.capture.Tag[:], expired.Ref[:])
		if err != nil {
			return err
		}
		inserted, err := s.insert(ctx, i)
		if err != nil {
			return err
		}
		if !inserted {
			return errInUse
		}
		s.blobs, s.bytes = s.blobs-1, s.bytes-expired.Size
		s.superseded = true
		return nil
	})
}

// keep takes a finished step into the batch.
func (s *step) keep() {
	b, c := s.batch, s.capture
	if s.e.isNew {
		s.e.isNew, s.e.tenant, s.e.state = false, c.Tenant, ledger.ExecutionOpen
		s.e.keyID, s.e.keyVersion, s.e.n = c.Key.ID, c.Key.Version, s.n
		s.e.made = &ledger.Execution{
			Tag: c.Tag, Tenant: c.Tenant, ID: c.ExecutionID, State: ledger.ExecutionOpen, CreatedAt: stored(c.At),
			Key: &ledger.WrappedKey{ID: c.Key.ID, Version: c.Key.Version, Ciphertext: slices.Clone(notNull(c.Key.Ciphertext))},
		}
		b.executions[c.Tag] = s.e
		b.totals.executions++
	}
	s.keepRows()
	b.due = append(b.due, s.due...)
	b.totals.records += int64(len(c.Parts))
	s.e.blobs, s.e.bytes = s.e.blobs+s.blobs, s.e.bytes+s.bytes
	b.totals.writes += s.created
	b.totals.blobs += s.blobs
	b.totals.bytes += s.bytes
	b.entries = append(b.entries, c.Entry)
	s.keepParts()
	for _, ref := range s.keptRefs {
		for i := range c.Subjects {
			b.subjects = append(b.subjects, []any{c.Tag[:], ref[:], c.Subjects[i][:]})
		}
	}
}

// keepRows tells the memo's side of the batch which rows are new.
func (s *step) keepRows() {
	s.e.superseded = s.e.superseded || s.superseded
	for i, created := range s.done.Created {
		if !created {
			continue
		}
		row := s.done.Blobs[i]
		row.WrappedKey = slices.Clone(notNull(row.WrappedKey))
		if row.Audience = slices.Clone(row.Audience); len(row.Audience) == 0 {
			row.Audience = nil
		}
		s.e.rows = append(s.e.rows, row)
	}
}

func (s *step) keepParts() {
	c := s.capture
	at := c.At.UnixMicro()
	for i, p := range c.Parts {
		if p.Blob >= 0 && s.done.Created[p.Blob] && s.firsts[p.Blob] == i {
			continue // its record is in the row
		}
		ref := []byte{}
		switch {
		case p.Status != ledger.PartKept:
		case p.Blob >= 0:
			ref = s.done.Blobs[p.Blob].Ref[:]
		default:
			ref = append(ref, p.Ref[:]...)
		}
		s.parts = append(s.parts, []any{
			s.first + int64(i), c.Tag[:], c.StepID, c.Attempt, int64(p.Index), ref, string(p.Kind),
			int64(p.Status), c.Provider, c.Model, at,
		})
	}
}
