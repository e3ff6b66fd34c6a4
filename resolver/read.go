package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/seal"
)

// Event is what the caller's log says about one model call.
type Event struct {
	StepID   string
	Attempt  int64
	Provider string
	Model    string
	Parts    []EventPart
}

// EventPart is one part of an Event. Without a ref nothing was kept of it.
type EventPart struct {
	Kind   blobd.Kind
	Ref    *blobd.Ref
	Digest *blobd.Digest
	Size   *int64
}

// ReadRequest asks for an execution's reasoning on behalf of a person.
type ReadRequest struct {
	Tenant      string
	ExecutionID string
	Actor       string // the id of the token that asks
	Purpose     string // required
	// Events are the caller's log. Nil: blobd's own attempt records are read.
	Events     []Event
	StepID     string // exact, if set
	StepPrefix string // if set
	// Recorded names the attempt that counts per step; for other steps it is the
	// highest.
	Recorded map[string]int64
	MaxParts int   // 0: DefaultReadParts
	MaxBytes int64 // readable bytes; 0: DefaultReadBytes
	// Room is as in Request.
	Room func(ctx context.Context, bytes int64) error
}

// Status is what became of a part, in the contract's words.
type Status string

// The statuses of a part.
const (
	StatusOK         Status = "ok"
	StatusRedacted   Status = "redacted"
	StatusErased     Status = "erased"
	StatusMismatch   Status = "digest-mismatch"
	StatusExpired    Status = "expired"
	StatusRestricted Status = "restricted"
	StatusMissing    Status = "missing"
	StatusLost       Status = "lost"
)

// ReadPart answers for one part, in log order.
type ReadPart struct {
	StepID     string
	Attempt    int64
	Superseded bool // by another attempt of its step
	Index      int
	Kind       blobd.Kind
	Provider   string
	Model      string
	Status     Status
	Ref        *blobd.Ref
	Digest     *blobd.Digest // when Status is StatusOK, or as the caller's log says
	Size       *int64
	Text       *blobd.Text // when Status is StatusOK; the caller wipes it
}

// ReadAnswer is the selected parts.
type ReadAnswer struct {
	Parts     []ReadPart
	Truncated bool // a bound left parts out
}

// MaxPurpose bounds a purpose, in bytes.
const MaxPurpose = 1024

// Read returns an execution's reasoning to a person, who is not bound by the
// audience. Selection comes before any fetch: parts are taken in log order
// until a bound is met, and nothing past it is read. What is damaged or gone is
// a status of its part; an error means that the answer is not definite.
//
// Who read what, and why, is durable before Read returns.
func (r *Resolver) Read(ctx context.Context, q ReadRequest) (ReadAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Deadline)
	defer cancel()
	a, err := r.read(ctx, q)
	if err != nil {
		return ReadAnswer{}, fmt.Errorf("read reasoning: %w", err)
	}
	return a, nil
}

func (r *Resolver) read(ctx context.Context, q ReadRequest) (ReadAnswer, error) {
	if err := r.store.Serving(); err != nil {
		return ReadAnswer{}, err
	}
	if q.Purpose == "" || len(q.Purpose) > MaxPurpose {
		return ReadAnswer{}, fmt.Errorf("purpose: want 1 to %d bytes: %w", MaxPurpose, blobd.ErrInvalid)
	}
	t, err := r.store.Tenant(ctx, q.Tenant)
	if err != nil {
		return ReadAnswer{}, err
	}
	s := &reading{Resolver: r, q: q, tenant: t}
	if s.tag, err = r.store.Tag(ctx, q.Tenant, q.ExecutionID); err != nil {
		return ReadAnswer{}, err
	}
	if s.view, err = r.ledger.LookupRepeats(ctx, s.tag, nil); err != nil {
		return ReadAnswer{}, err
	}
	s.view.Trusted = r.store.ClockWatch.Judge(s.view.Now)
	if err := s.gather(ctx); err != nil {
		return ReadAnswer{}, err
	}
	s.bound()
	if err := room(ctx, q.Room, s.rows); err != nil {
		return ReadAnswer{}, err
	}
	if err := s.open(ctx); err != nil {
		return ReadAnswer{}, err
	}
	if err := s.record(ctx); err != nil {
		s.wipe()
		return ReadAnswer{}, err
	}
	if err := timely(ctx); err != nil {
		s.wipe()
		return ReadAnswer{}, err
	}
	return s.answer, nil
}

// reading is one audit read. One goroutine owns it.
type reading struct {
	*Resolver
	q      ReadRequest
	tenant ledger.Tenant
	tag    blobd.ExecutionTag
	view   ledger.View
	rows   []*ledger.Blob // of answer.Parts; nil where nothing is to be opened
	answer ReadAnswer
	// restrictions are the tenant's open ones; nil: not asked for yet.
	restrictions []restriction
}

// gather selects parts, from the caller's log or from our own records, with the
// status that the ledger alone decides.
func (s *reading) gather(ctx context.Context) error {
	if s.q.Events != nil {
		return s.fromEvents(ctx)
	}
	return s.fromRecords(ctx)
}

func (s *reading) selects(step string) bool {
	return (s.q.StepID == "" || step == s.q.StepID) && strings.HasPrefix(step, s.q.StepPrefix)
}

// limit is how many parts may be returned.
func (s *reading) limit() int {
	if s.q.MaxParts > 0 {
		return min(s.q.MaxParts, s.MaxParts)
	}
	return DefaultReadParts
}

// add takes a part, or notes that one was left out.
func (s *reading) add(p ReadPart, row *ledger.Blob) {
	if len(s.answer.Parts) >= s.limit() {
		s.answer.Truncated = true
		return
	}
	s.answer.Parts = append(s.answer.Parts, p)
	s.rows = append(s.rows, row)
}

const recordPage = 500

// fromRecords reads our own records. All of the selection is walked, for the
// highest attempt of a step may come last; only the first parts are kept.
func (s *reading) fromRecords(ctx context.Context) error {
	if s.view.Execution == nil {
		return nil // nothing was recorded when we looked
	}
	highest := make(map[string]int64)
	for after := int64(0); ; {
		page, err := s.ledger.Records(ctx, ledger.RecordQuery{
			Tag: s.tag, StepID: s.q.StepID, StepPrefix: s.q.StepPrefix, After: after, Limit: recordPage,
		})
		if err != nil {
			return err
		}
		for _, p := range page {
			after = p.Seq
			highest[p.StepID] = max(highest[p.StepID], p.Attempt)
			if p.Status != ledger.PartKept && p.Status != ledger.PartRedacted {
				continue
			}
			if err := s.addRecord(ctx, p); err != nil {
				return err
			}
		}
		if len(page) < recordPage {
			s.markSuperseded(highest)
			return s.addMissing(ctx)
		}
	}
}

// addMissing adds what a rolled-back ledger knows only from the store's listing:
// a blob without an attempt record. While the ledger may have forgotten puts
// without a trace, no list is whole, and the answer is an error.
func (s *reading) addMissing(ctx context.Context) error {
	if s.view.Recovery != ledger.RecoveryNone {
		return blobd.ErrMissing
	}
	if s.q.StepID != "" || s.q.StepPrefix != "" {
		return nil // its step is not known
	}
	for after := (ledger.Position{Tag: s.tag}); ; {
		page, err := s.ledger.ScanBlobs(ctx, after, recordPage)
		if err != nil {
			return err
		}
		for _, b := range page {
			if b.Tag != s.tag {
				return nil
			}
			after = b.Position
			if b.Blob.State == ledger.BlobMissing {
				ref := b.Ref
				told, err := s.status(ctx, s.view, &b.Blob)
				if err != nil {
					return err
				}
				s.add(ReadPart{Status: told, Kind: blobd.KindText, Ref: &ref}, nil)
			}
		}
		if len(page) < recordPage {
			return nil
		}
	}
}

func (s *reading) addRecord(ctx context.Context, p ledger.RecordedPart) (err error) {
	out := ReadPart{
		StepID: p.StepID, Attempt: p.Attempt, Index: p.Index, Kind: p.Kind, Provider: p.Provider, Model: p.Model,
		Status: StatusRedacted,
	}
	if p.Status == ledger.PartRedacted {
		s.add(out, nil)
		return nil
	}
	if len(s.answer.Parts) >= s.limit() { // what is left out is not asked for either
		s.answer.Truncated = true
		return nil
	}
	ref := p.Ref
	out.Ref = &ref
	if out.Status, err = s.status(ctx, s.view, p.Blob); err != nil {
		return err
	}
	if out.Status != StatusOK {
		s.add(out, nil)
		return nil
	}
	out.Size = &p.Blob.Size
	s.add(out, p.Blob)
	return nil
}

// status says what the ledger alone decides of a row for this reader: what is
// restricted is shown for a purpose that every restriction on it names.
func (s *reading) status(ctx context.Context, view ledger.View, row *ledger.Blob) (Status, error) {
	v := decide(view, row, nil)
	if v == nullRestricted {
		allowed, err := s.permitted(ctx, row)
		if err != nil || !allowed {
			return StatusRestricted, err
		}
		v = decideOpen(view, row, nil)
	}
	if v == doubtful {
		return "", &blobd.RefsError{Refs: []blobd.Ref{row.Ref}, Err: blobd.ErrClockSuspect}
	}
	return status(v), nil
}

func (s *reading) markSuperseded(highest map[string]int64) {
	for i := range s.answer.Parts {
		p := &s.answer.Parts[i]
		counts, named := s.q.Recorded[p.StepID]
		if !named {
			counts = highest[p.StepID]
		}
		p.Superseded = p.Attempt != counts
	}
}

// status says a verdict in the contract's words for an auditor.
func status(v verdict) Status {
	switch v {
	case live:
		return StatusOK
	case nullErased:
		return StatusErased
	case nullExpired:
		return StatusExpired
	case nullClosed, nullRestricted:
		return StatusRestricted
	case nullLost:
		return StatusLost
	case missing:
		return StatusMissing
	}
	return StatusMismatch
}

// bound cuts the selection at the first part that would pass the byte limit.
func (s *reading) bound() {
	limit := s.q.MaxBytes
	if limit <= 0 {
		limit = DefaultReadBytes
	}
	limit = min(limit, s.MaxBytes)
	var total int64
	for i, row := range s.rows {
		if row == nil {
			continue
		}
		total += row.Size
		if total > limit {
			s.answer.Parts, s.rows, s.answer.Truncated = s.answer.Parts[:i], s.rows[:i], true
			return
		}
	}
}

// open opens what was selected. Damage and absence are statuses of a part; an
// answer that is not definite fails the whole.
func (s *reading) open(ctx context.Context) error {
	o := s.store.Opener(s.tenant, s.view.Execution)
	defer o.Close()
	for i, row := range s.rows {
		if row == nil {
			continue
		}
		p := &s.answer.Parts[i]
		text, meta, err := o.Open(ctx, row)
		if fault(err) != "" {
			text, meta, p.Status, err = s.again(ctx, row, fault(err))
		}
		if err != nil {
			s.wipe()
			return err
		}
		if p.Status == StatusOK {
			p.Text, p.Digest, p.Size = &text, &meta.Digest, &meta.Size
		}
	}
	return nil
}

// fault is the status of a blob that did not open, "" where the error says nothing
// of the blob.
func fault(err error) Status {
	switch {
	case errors.Is(err, blobd.ErrMissing):
		return StatusMissing
	case errors.Is(err, blobd.ErrCorrupt):
		return StatusMismatch
	}
	return ""
}

// again asks the ledger what it says by now of a blob that did not open. An
// erasure may have overtaken this read; a key epoch may have wrapped its key anew,
// and then it is opened once more. If nothing moved, the blob is at fault.
func (s *reading) again(ctx context.Context, row *ledger.Blob, was Status) (text blobd.Text, meta seal.Metadata, now Status, err error) {
	view, err := s.lookup(ctx, s.tag, []blobd.Ref{row.Ref})
	if err != nil {
		return text, meta, "", err
	}
	fresh := view.Blobs[0]
	if now, err := s.status(ctx, view, fresh); err != nil || now != StatusOK {
		return text, meta, now, err
	}
	if view.Execution.Key == nil || s.view.Execution.Key == nil ||
		view.Execution.Key.ID == s.view.Execution.Key.ID && bytes.Equal(fresh.WrappedKey, row.WrappedKey) {
		return text, meta, was, nil
	}
	text, meta, err = s.store.Open(ctx, s.tenant, *view.Execution, fresh)
	if now := fault(err); now != "" {
		return text, meta, now, nil
	}
	return text, meta, StatusOK, err
}

// record makes the read durable before any byte leaves.
func (s *reading) record(ctx context.Context) error {
	refs := []blobd.Ref{}
	for _, p := range s.answer.Parts {
		if p.Text != nil {
			refs = append(refs, *p.Ref)
		}
	}
	scribe := evidence.Scribe{Tenant: s.tenant.ID, NameKey: s.tenant.NameKey, Random: s.Random}
	entry, err := scribe.Read(s.Now().UTC(), s.tag, s.q.Actor, s.q.Purpose, refs)
	if err != nil {
		return err
	}
	return s.ledger.Append(ctx, entry)
}

func (s *reading) wipe() {
	for _, p := range s.answer.Parts {
		if p.Text != nil {
			p.Text.Wipe()
		}
	}
}
