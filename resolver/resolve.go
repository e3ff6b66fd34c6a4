package resolver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// Want is one blob asked for.
type Want struct {
	Ref    blobd.Ref
	Digest *blobd.Digest // if the caller expects one; another is a null
}

// Request asks for one or more blobs of one execution. StepID and Origin are
// logged and never decide.
type Request struct {
	Tenant      string
	ExecutionID string
	StepID      string
	Origin      string
	Principal   *blobd.Principal // who the text would be shown to; nil: nobody in particular
	Wants       []Want
	// Room is asked, once the ledger decided and before anything is fetched, for
	// the bytes of memory that sealed bytes and texts will take; its error is the
	// answer. It is not asked for nulls; it may be asked again. Nil: no bound.
	Room func(ctx context.Context, bytes int64) error
}

// Part answers for one Want, in order.
type Part struct {
	Ref         blobd.Ref
	Null        bool
	Text        blobd.Text // the caller wipes it
	Digest      blobd.Digest
	Size        int64
	Kind        blobd.Kind
	Class       string
	ContentType string
}

// Answer is bytes or null for every Want.
type Answer struct {
	Parts     []Part
	FirstHole int // index of the first null; -1: none
}

// Resolve answers every Want with bytes or null, or the whole call with one
// error and no text. ErrMissing, ErrKeyMissing and ErrCorrupt name the refs;
// ErrTooLarge is decided from the ledger's sizes, before any fetch.
func (r *Resolver) Resolve(ctx context.Context, q Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Deadline)
	defer cancel()
	if r.Log.Enabled(ctx, slog.LevelDebug) {
		r.Log.Debug("resolve", "step", q.StepID, "origin", q.Origin, "wants", len(q.Wants))
	}
	a, err := r.resolve(ctx, q)
	if errors.Is(err, blobd.ErrMissing) || errors.Is(err, blobd.ErrCorrupt) {
		// An erasure may have overtaken this read between the ledger's answer and
		// the store's: what is null by now is a null and no alarm. So may the
		// off-boarding of the tenant, by another node.
		if _, err := r.store.RefreshTenant(ctx, q.Tenant); err != nil {
			return Answer{}, fmt.Errorf("resolve: %w", err)
		}
		a, err = r.resolve(ctx, q)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("resolve: %w", err)
	}
	return a, nil
}

func (r *Resolver) resolve(ctx context.Context, q Request) (Answer, error) {
	if len(q.Wants) > r.MaxParts {
		return Answer{}, fmt.Errorf("more than %d parts: %w", r.MaxParts, blobd.ErrTooLarge)
	}
	t, view, err := r.view(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	rows, err := r.judge(ctx, t, view, q)
	if err != nil {
		return Answer{}, err
	}
	if err := r.fits(rows); err != nil {
		return Answer{}, err
	}
	if err := room(ctx, q.Room, rows); err != nil {
		return Answer{}, err
	}
	texts, err := r.openAll(ctx, t, view.Execution, rows)
	if err != nil {
		return Answer{}, err
	}
	if err := timely(ctx); err != nil {
		wipe(texts)
		return Answer{}, err
	}
	return answer(q.Wants, rows, texts), nil
}

// view is the one ledger read.
func (r *Resolver) view(ctx context.Context, q Request) (ledger.Tenant, ledger.View, error) {
	if err := r.store.Serving(); err != nil {
		return ledger.Tenant{}, ledger.View{}, err
	}
	t, err := r.store.Tenant(ctx, q.Tenant)
	if err != nil {
		return t, ledger.View{}, err
	}
	tag, err := r.store.Tag(ctx, q.Tenant, q.ExecutionID)
	if err != nil {
		return t, ledger.View{}, err
	}
	refs := make([]blobd.Ref, len(q.Wants))
	for i, w := range q.Wants {
		refs[i] = w.Ref
	}
	view, err := r.lookup(ctx, tag, refs)
	return t, fenced(t, view), err
}

// lookup is the ledger's, with its clock judged.
func (r *Resolver) lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	view, err := r.ledger.Lookup(ctx, tag, refs)
	view.Trusted = r.store.ClockWatch.Judge(view.Now)
	return view, err
}

// fenced makes an execution without a row read as erased where its tenant was
// off-boarded; of one with a row the ledger says so.
func fenced(t ledger.Tenant, v ledger.View) ledger.View {
	if v.Execution == nil && t.Fenced() {
		v.Execution = &ledger.Execution{Tenant: t.ID, State: ledger.ExecutionErased, ErasedAt: t.FencedAt}
	}
	return v
}

// judge returns the row to open for every want, nil where the answer is null.
func (r *Resolver) judge(ctx context.Context, t ledger.Tenant, view ledger.View, q Request) ([]*ledger.Blob, error) {
	who := new(asker)
	if q.Principal != nil {
		who = &asker{named: true, tag: store.PrincipalTag(t, *q.Principal)}
	}
	rows := make([]*ledger.Blob, len(q.Wants))
	failures := make([]error, len(q.Wants))
	for i, w := range q.Wants {
		b := view.Blobs[i]
		switch v := decide(view, b, who); {
		case v == missing:
			failures[i] = &blobd.RefsError{Refs: []blobd.Ref{w.Ref}, Err: blobd.ErrMissing}
		case v.isNull():
		default:
			same, err := r.expected(ctx, t, view, b, w.Digest)
			switch {
			case err != nil:
				failures[i] = err
			case !same: // a null, whatever the time is
			case v == doubtful:
				failures[i] = &blobd.RefsError{Refs: []blobd.Ref{w.Ref}, Err: blobd.ErrClockSuspect}
			default:
				rows[i] = b
			}
		}
	}
	return rows, joined(failures)
}

// expected reports whether a row has the digest that the caller expects, if any.
func (r *Resolver) expected(ctx context.Context, t ledger.Tenant, view ledger.View, b *ledger.Blob, d *blobd.Digest) (bool, error) {
	if d == nil {
		return true, nil
	}
	return r.store.MatchesDigest(ctx, t, *view.Execution, b, *d)
}

func (r *Resolver) fits(rows []*ledger.Blob) error {
	if len(rows) == 1 {
		return nil // one blob was within the limits when it was put
	}
	var total int64
	for _, b := range rows {
		if b != nil {
			total += b.Size
		}
	}
	if total > r.MaxBytes {
		return fmt.Errorf("the batch holds more than %d bytes: %w", r.MaxBytes, blobd.ErrTooLarge)
	}
	return nil
}

// room asks for the memory that opening these rows takes.
func room(ctx context.Context, ask func(context.Context, int64) error, rows []*ledger.Blob) error {
	var n int64
	for _, b := range rows {
		if b != nil {
			n += b.SealedSize + b.Size
		}
	}
	if ask == nil || n == 0 {
		return nil
	}
	return ask(ctx, n)
}

func answer(wants []Want, rows []*ledger.Blob, texts []opened) Answer {
	a := Answer{Parts: make([]Part, len(wants)), FirstHole: -1}
	for i, w := range wants {
		if rows[i] == nil {
			a.Parts[i] = Part{Ref: w.Ref, Null: true}
			if a.FirstHole < 0 {
				a.FirstHole = i
			}
			continue
		}
		m := texts[i].meta
		a.Parts[i] = Part{
			Ref: w.Ref, Text: texts[i].text, Digest: m.Digest, Size: m.Size,
			Kind: m.Kind, Class: m.Class, ContentType: m.ContentType,
		}
	}
	return a
}
