package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/seal"
)

// maxRounds bounds how often a put starts again because another changed the
// state between its read and its commit.
const maxRounds = 8

// errAgain asks for another round.
var errAgain = errors.New("the state moved between read and commit")

// execution is the key of a draft's execution, as this round sees it.
type execution struct {
	keys.ExecutionKeys
	wrapped ledger.WrappedKey
	isNew   bool
}

// commit makes a draft durable: read, seal, store the objects, one transaction.
// A round whose state moved underneath it starts again from the read; objects
// that are already stored stay as they are.
func (s *Store) commit(ctx context.Context, d *draft) error {
	// A write may not land later than the put margin after it was asked for.
	// The last quarter is for what is on its way when the time is over.
	ctx, cancel := context.WithTimeout(ctx, min(DependencyTimeout, s.PutMargin*3/4))
	defer cancel()
	defer d.wipe()
	if d.tenant.Fenced() {
		return blobd.ErrTenantErased
	}
	for range maxRounds {
		if err := s.round(ctx, d); !errors.Is(err, errAgain) {
			return err
		}
	}
	return fmt.Errorf("commit: %d rounds: %w", maxRounds, blobd.ErrUnavailable)
}

func (s *Store) round(ctx context.Context, d *draft) error {
	x, view, err := s.read(ctx, d)
	if err != nil {
		return s.undo(ctx, d, s.unlessOffboarded(ctx, d.tenant.ID, err))
	}
	defer x.Wipe()
	if err := d.judge(view); err != nil {
		return s.undo(ctx, d, err)
	}
	if err := s.storeObjects(ctx, d, x); err != nil {
		_ = s.discard(ctx, d) // no commit was tried: what is stored has no row
		return err
	}
	if err := s.stillOurs(ctx); err != nil {
		_ = s.discard(ctx, d)
		return fmt.Errorf("store the objects: %w", err)
	}
	c, fresh, err := s.capture(d, x, s.beginsAt(view.Now))
	if err != nil {
		return err
	}
	committed, err := s.Ledger.Commit(ctx, c)
	if err != nil {
		return s.failed(ctx, d, x, err)
	}
	if x.isNew {
		s.Keys.Adopt(d.tenant.ID, d.tag, x.ExecutionKeys)
	}
	for i, t := range fresh {
		t.row, t.fresh = &committed.Blobs[i], committed.Created[i]
	}
	s.stats.committed(fresh)
	_ = s.eraseOwn(ctx, s.unused(d))
	return nil
}

// read is the one ledger read of a put of a known execution: its state, its
// key, and the rows that already hold these texts.
func (s *Store) read(ctx context.Context, d *draft) (execution, ledger.View, error) {
	known, ok := s.Keys.Latest(d.tag)
	used := false
	if ok {
		d.setRepeats(known)
		defer func() {
			if !used {
				known.Wipe()
			}
		}()
	}
	view, err := s.lookupRepeats(ctx, d.tag, d.repeats(ok))
	if err != nil {
		return execution{}, view, fmt.Errorf("read: %w", err)
	}
	e := view.Execution
	switch {
	case e == nil:
		x, err := s.newExecution(ctx, d)
		return x, view, err
	case e.State == ledger.ExecutionErased:
		return execution{}, view, blobd.ErrErased
	case e.Key == nil:
		return execution{}, view, blobd.ErrKeyMissing
	case ok && known.ID == keys.ID(e.Key.ID):
		used = true
		return execution{known, *e.Key, false}, view, nil
	}
	k, err := s.Keys.Execution(ctx, d.tenant.ID, d.tag, e.Key.ID, wrappedOf(*e.Key))
	if err != nil {
		return execution{}, view, err
	}
	d.setRepeats(k)
	view, err = s.lookupRepeats(ctx, d.tag, d.repeats(true))
	if err != nil {
		k.Wipe()
		return execution{}, view, fmt.Errorf("read: %w", err)
	}
	if now := view.Execution; now == nil || now.Key == nil || now.Key.ID != e.Key.ID {
		k.Wipe() // erased, or re-keyed between the two
		return execution{}, view, errAgain
	}
	return execution{k, *e.Key, false}, view, nil
}

// newExecution makes keys for an execution that has no row. They are used by
// nobody until the commit that inserts them.
func (s *Store) newExecution(ctx context.Context, d *draft) (execution, error) {
	k, w, err := s.Keys.NewExecution(ctx, d.tenant.ID, d.tag)
	if err != nil {
		return execution{}, err
	}
	d.setRepeats(k)
	return execution{k, ledger.WrappedKey{ID: k.ID, Version: uint32(w.Version), Ciphertext: w.Ciphertext}, true}, nil
}

func wrappedOf(k ledger.WrappedKey) keys.Wrapped {
	return keys.Wrapped{Version: keys.Version(k.Version), Ciphertext: k.Ciphertext}
}

func (d *draft) setRepeats(k keys.ExecutionKeys) {
	audience := audienceBytes(d.audience)
	for _, t := range d.texts {
		t.repeat = seal.RepeatTag(k.Tag, seal.Content{
			Class: t.Class, Kind: t.Kind, ContentType: t.ContentType, Audience: audience, Digest: t.digest,
		})
	}
}

func (d *draft) repeats(known bool) [][32]byte {
	if !known {
		return nil
	}
	tags := make([][32]byte, len(d.texts))
	for i, t := range d.texts {
		tags[i] = t.repeat
	}
	return tags
}

// judge applies the table "States and answers" to what the ledger said: erased
// before closed, and what is live and not expired is the answer. A live row that an
// order closes refuses the put though its execution is open. Where a suspect clock would
// decide whether a row is the answer or is superseded, nobody knows.
func (d *draft) judge(view ledger.View) error {
	x := view.Execution
	if x != nil && x.State == ledger.ExecutionErased {
		return blobd.ErrErased
	}
	var closed ledger.CloseReason
	if x != nil && x.State == ledger.ExecutionClosed {
		closed = x.CloseReason
	}
	var doubt error
	for i, t := range d.texts {
		t.row, t.erased = nil, false
		if i >= len(view.Blobs) || view.Blobs[i] == nil {
			continue
		}
		switch b := view.Blobs[i]; {
		case b.State == ledger.BlobErased:
			t.erased = true
		case b.State == ledger.BlobLive && b.Closed != 0:
			closed = stronger(closed, b.Closed)
		case b.State == ledger.BlobLive && view.Doubtful(b):
			doubt = &blobd.RefsError{Refs: []blobd.Ref{b.Ref}, Err: blobd.ErrClockSuspect}
		case b.State == ledger.BlobLive && !b.Expired(view.Now):
			t.row = b
		}
		if t.erased && !d.omitErased {
			return &blobd.RefsError{Refs: []blobd.Ref{view.Blobs[i].Ref}, Err: blobd.ErrBlobErased}
		}
	}
	switch closed {
	case 0:
		return doubt
	case ledger.ClosedRestricted:
		return blobd.ErrRestricted
	}
	return blobd.ErrClosed
}

// stronger is the reason of two that is told: a closing before a restriction.
func stronger(a, b ledger.CloseReason) ledger.CloseReason {
	if a == 0 || a == ledger.ClosedRestricted && b == ledger.ClosedErasure {
		return b
	}
	return a
}

// capture is the transaction's input at a time, and the texts that it would insert.
func (s *Store) capture(d *draft, x execution, at time.Time) (ledger.Capture, []*text, error) {
	c := ledger.Capture{
		Tenant: d.tenant.ID, Tag: d.tag, ExecutionID: d.attempt.ExecutionID, Key: x.wrapped, At: at, AsOf: s.Now().UTC(),
		Subjects: d.subjects, Provider: d.attempt.Provider, Model: d.attempt.Model,
		StepID: d.attempt.StepID, Attempt: d.attempt.Number,
	}
	var fresh []*text
	position := make(map[*text]int, len(d.texts))
	refs := make([]blobd.Ref, 0, len(d.texts))
	for _, t := range d.texts {
		switch {
		case t.erased:
			continue
		case t.row != nil:
			refs = append(refs, t.row.Ref)
			continue
		}
		wrapped, err := seal.WrapKey(s.Random, x.Execution, t.sealed.ref, t.sealed.key)
		if err != nil {
			return c, nil, err
		}
		position[t] = len(fresh)
		fresh = append(fresh, t)
		refs = append(refs, t.sealed.ref)
		c.Blobs = append(c.Blobs, ledger.NewBlob{
			Ref: t.sealed.ref, Class: t.Class, Kind: t.Kind, ContentType: t.ContentType,
			Size: int64(t.Text.Len()), SealedSize: t.sealed.size, Repeat: t.repeat, WrappedKey: wrapped,
			Audience: d.audience,
		})
	}
	for _, p := range d.parts {
		c.Parts = append(c.Parts, p.record(position))
	}
	entry, err := s.scribe(d.tenant).Put(at, d.tag, d.attempt.Actor, refs)
	c.Entry = entry
	return c, fresh, err
}

// record is the attempt record of a part.
func (p part) record(position map[*text]int) ledger.Part {
	r := ledger.Part{Index: p.index, Kind: p.kind, Status: p.status, Blob: -1}
	switch {
	case p.status != ledger.PartKept:
	case p.text.erased:
		r.Status = ledger.PartOmitted
	case p.text.row != nil:
		r.Ref = p.text.row.Ref
	default:
		r.Blob = position[p.text]
	}
	return r
}
