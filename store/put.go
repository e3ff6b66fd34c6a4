package store

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Put keeps one text, sealed to its execution. It returns once key, object and
// row are durable.
//
// ErrErased: the execution was erased. ErrBlobErased: these bytes were, in a
// living execution. ErrClosed, ErrRestricted: the execution is closed. After
// one of these nothing readable was stored. After ErrUnavailable the put may
// have landed: repeating it is safe and returns its ref.
func (s *Store) Put(ctx context.Context, r PutRequest) (Stored, error) {
	d, err := s.newDraft(ctx, r.Attempt, r.Subjects, r.Audience)
	if err != nil {
		return Stored{}, fmt.Errorf("put: %w", err)
	}
	digest := blobd.DigestOf(r.Text.Bytes())
	if r.Expect != nil && *r.Expect != digest {
		return Stored{}, fmt.Errorf("put: %w", blobd.ErrDigestMismatch)
	}
	d.keep(0, r.Content, digest)
	if err := s.commit(ctx, d); err != nil {
		return Stored{}, fmt.Errorf("put: %w", err)
	}
	return d.texts[0].stored(), nil
}

// Capture keeps the readable texts of one model call, all or nothing, and
// records the attempt. It answers for every part, in order; the errors are
// those of Put, except that a text that was erased before is not kept and its
// part says so.
func (s *Store) Capture(ctx context.Context, r CaptureRequest) ([]CapturedPart, error) {
	d, err := s.newDraft(ctx, r.Attempt, r.Subjects, r.Audience)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	d.omitErased = true
	for i, p := range r.Parts {
		switch {
		case p.Kind == blobd.KindRedacted:
			d.note(i, p.Kind, ledger.PartRedacted)
		case p.Text.Len() == 0:
			d.note(i, p.Kind, ledger.PartEmpty)
		case !r.Keep:
			d.note(i, p.Kind, ledger.PartOmitted)
		default:
			d.keep(i, Content{r.Class, p.Kind, captureContentType, p.Text}, blobd.DigestOf(p.Text.Bytes()))
		}
	}
	if err := s.commit(ctx, d); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return d.captured(), nil
}

// captureContentType is what a captured part's text is kept as.
const captureContentType = "text/plain; charset=utf-8"

// draft is a put or capture on its way: its distinct texts, and the parts that
// name them. One goroutine owns it.
type draft struct {
	tenant   ledger.Tenant
	tag      blobd.ExecutionTag
	attempt  Attempt
	subjects [][32]byte
	audience [][32]byte
	texts    []*text
	parts    []part
	// omitErased: a text that was erased before is left out instead of failing
	// the whole.
	omitErased bool
}

// text is one distinct text of a draft.
type text struct {
	Content
	digest blobd.Digest
	repeat [32]byte // under the execution's current tag key

	sealed *sealedText  // once sealed and stored by us
	row    *ledger.Blob // once known to the ledger
	erased bool         // the ledger has it as erased
	fresh  bool         // row was inserted by this draft
}

// sealedText is a text that this draft sealed; its object may be stored.
type sealedText struct {
	key  *blobd.Key
	ref  blobd.Ref
	size int64
}

// part is one part of a draft.
type part struct {
	index  int
	kind   blobd.Kind
	status ledger.PartStatus
	text   *text // when status is PartKept
}

// newDraft checks that the store serves, and turns names into tags.
func (s *Store) newDraft(ctx context.Context, a Attempt, subjects []string, audience []blobd.Principal) (*draft, error) {
	if err := s.serving(); err != nil {
		return nil, err
	}
	t, err := s.Tenant(ctx, a.Tenant)
	if err != nil {
		return nil, err
	}
	d := &draft{tenant: t, tag: executionTag(t, a.ExecutionID), attempt: a, audience: audienceTags(t, audience)}
	if len(subjects) == 0 || t.Fenced() { // commit refuses
		return d, nil
	}
	index, err := s.indexKey(ctx, t)
	if err != nil {
		return nil, err
	}
	defer index.Wipe()
	d.subjects = subjectTags(index, subjects)
	return d, nil
}

// keep adds a part whose text is to be kept. Equal texts are one.
func (d *draft) keep(index int, c Content, digest blobd.Digest) {
	p := part{index: index, kind: c.Kind, status: ledger.PartKept}
	for _, t := range d.texts {
		if t.digest == digest && t.Class == c.Class && t.Kind == c.Kind && t.ContentType == c.ContentType {
			p.text = t
		}
	}
	if p.text == nil {
		p.text = &text{Content: c, digest: digest}
		d.texts = append(d.texts, p.text)
	}
	d.parts = append(d.parts, p)
}

// note adds a part without a kept text.
func (d *draft) note(index int, kind blobd.Kind, status ledger.PartStatus) {
	d.parts = append(d.parts, part{index: index, kind: kind, status: status})
}

// captured answers for every part.
func (d *draft) captured() []CapturedPart {
	out := make([]CapturedPart, len(d.parts))
	for i, p := range d.parts {
		switch {
		case p.status != ledger.PartKept:
			out[i].Status = p.status
		case p.text.erased:
			out[i].Status = ledger.PartOmitted
		default:
			out[i] = CapturedPart{p.status, p.text.stored()}
		}
	}
	return out
}

// stored is the answer for a text that the ledger has.
func (t *text) stored() Stored {
	return Stored{
		Ref: t.row.Ref, Digest: t.digest, Size: t.row.Size, StepID: t.row.StepID, Class: t.row.Class,
		CreatedAt: t.row.CreatedAt, ExpiresAt: t.row.ExpiresAt, Created: t.fresh,
	}
}

// wipe overwrites the keys that the draft made.
func (d *draft) wipe() {
	for _, t := range d.texts {
		if t.sealed != nil {
			t.sealed.key.Wipe()
		}
	}
}
