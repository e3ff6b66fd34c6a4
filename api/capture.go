package api

import (
	"net/http"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// capture answers POST …/captures.
func (a *API) capture(c *call) error {
	var q wire.CaptureRequest
	defer wipeReasoning(&q)
	return a.withJSON(c, &q, func([]byte) error {
		r, err := c.captureRequest(&q)
		if err != nil {
			return err
		}
		if err := checkParts(len(r.Parts)); err != nil {
			return err
		}
		if err := a.checkBatch(r.Parts); err != nil {
			return err
		}
		kept, err := a.Store.Capture(c.r.Context(), r)
		if err != nil {
			return err
		}
		return c.reply(http.StatusCreated, captured(&q, r, kept))
	})
}

func wipeReasoning(q *wire.CaptureRequest) {
	for i := range q.Reasoning {
		q.Reasoning[i].Text.Wipe()
	}
}

func (c *call) captureRequest(q *wire.CaptureRequest) (r store.CaptureRequest, err error) {
	r.Attempt = store.Attempt{
		Tenant: c.who.tenant, ExecutionID: c.executionID, StepID: q.StepID, Number: 1,
		Provider: q.Provider, Model: q.Model, Actor: c.who.token,
	}
	if q.Attempt != nil {
		r.Number = *q.Attempt
	}
	if err := checkAttempt(r.Attempt); err != nil {
		return r, err
	}
	if r.Class, err = classOr(q.Class); err != nil {
		return r, err
	}
	if err := checkSubjects(q.Subjects); err != nil {
		return r, err
	}
	if err := checkAudience(q.Audience); err != nil {
		return r, err
	}
	r.Subjects, r.Audience = q.Subjects, q.Audience
	r.Keep = q.Capture == nil || *q.Capture
	if len(q.Reasoning) == 0 {
		return r, refuse(wire.CodeInvalid, "reasoning: want 1 to %d parts", wire.MaxParts)
	}
	for i := range q.Reasoning {
		part, err := capturePart(&q.Reasoning[i])
		if err != nil {
			return r, refuse(wire.CodeInvalid, "reasoning[%d]: %s", i, err)
		}
		r.Parts = append(r.Parts, part)
	}
	return r, nil
}

// partError is what is wrong with a part; it never repeats any of it.
type partError string

func (e partError) Error() string { return string(e) }

func capturePart(p *wire.Reasoning) (store.CapturePart, error) {
	kind, err := requiredKind(p.Kind)
	switch {
	case err != nil:
		return store.CapturePart{}, partError("kind: want text, summary or redacted")
	case kind == blobd.KindRedacted && p.Text.Len() > 0:
		return store.CapturePart{}, partError("a redacted part has no readable text")
	case blobd.CheckName("", p.Provider) != nil:
		return store.CapturePart{}, partError("provider: want at most 256 bytes and no control character")
	}
	return store.CapturePart{Kind: kind, Text: blobd.TextOf(p.Text.Bytes())}, nil
}

// checkBatch holds a capture to the limits of one blob and of a batch.
func (a *API) checkBatch(parts []store.CapturePart) error {
	var total int64
	for _, p := range parts {
		size := int64(p.Text.Len())
		total += size
		if size > a.MaxBlob || total > a.MaxBatch {
			return refuse(wire.CodeTooLarge, "the texts have more than %d bytes, or one of them more than %d", a.MaxBatch, a.MaxBlob)
		}
	}
	return nil
}

// captured answers for every part, in order, without any text.
func captured(q *wire.CaptureRequest, r store.CaptureRequest, kept []store.CapturedPart) *wire.Captured {
	out := &wire.Captured{Parts: make([]wire.ReasoningPart, len(kept))}
	event := &wire.CapturedEvent{
		StepID: r.StepID, Attempt: r.Number, Provider: r.Provider, Model: r.Model,
		Parts: make([]wire.EventPart, len(kept)),
	}
	for i, k := range kept {
		in := q.Reasoning[i]
		p, e := &out.Parts[i], &event.Parts[i]
		*p = wire.ReasoningPart{Type: "reasoning", Kind: in.Kind, Provider: in.Provider, Signature: in.Signature}
		if p.Provider == "" {
			p.Provider = r.Provider
		}
		e.Kind = in.Kind
		switch k.Status {
		case ledger.PartKept:
			size := k.Stored.Size
			p.TextRef, p.Digest = k.Stored.Ref.String(), k.Stored.Digest.Hex()
			e.Ref, e.Digest, e.Size = p.TextRef, p.Digest, &size
			out.Event = event
		case ledger.PartOmitted:
			p.Omitted = true
		case ledger.PartRedacted, ledger.PartEmpty:
		}
	}
	return out
}
