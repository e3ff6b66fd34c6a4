package api

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/resolver"
)

// resolveOne answers GET and HEAD of one blob. HEAD does the same work.
func (a *API) resolveOne(c *call) error {
	q, err := c.resolveRequest()
	if err != nil {
		return err
	}
	answer, err := a.Resolver.Resolve(c.r.Context(), q)
	if err != nil {
		return aboutWanted(err, q)
	}
	part := answer.Parts[0]
	if part.Null {
		return errNull()
	}
	c.writeBlob(part)
	part.Text.Wipe()
	return nil
}

// errNull is the definitive null: the same for every reason.
func errNull() error { return refuse(wire.CodeNull, "there is nothing to read here, definitively") }

func (c *call) resolveRequest() (q resolver.Request, err error) {
	q = resolver.Request{
		Tenant: c.who.tenant, ExecutionID: c.executionID, StepID: c.param("stepId"), Origin: c.param("origin"),
	}
	var want resolver.Want
	if want.Ref, err = c.pathRef(); err != nil {
		return q, err
	}
	if err := checkOrigin(q.StepID, q.Origin); err != nil {
		return q, err
	}
	if want.Digest, err = c.expectDigest(); err != nil {
		return q, err
	}
	q.Principal, err = c.principal()
	q.Wants = []resolver.Want{want}
	return q, err
}

func checkOrigin(stepID, origin string) error {
	if err := blobd.CheckStepID(stepID); err != nil {
		return invalid(err)
	}
	return invalid(blobd.CheckName("origin", origin))
}

// aboutWanted names the refs asked for where an alarm names none.
func aboutWanted(err error, q resolver.Request) error {
	var named *blobd.RefsError
	alarm := errors.Is(err, blobd.ErrMissing) || errors.Is(err, blobd.ErrCorrupt)
	if !alarm || errors.As(err, &named) {
		return err
	}
	refs := make([]blobd.Ref, len(q.Wants))
	for i, w := range q.Wants {
		refs[i] = w.Ref
	}
	return &blobd.RefsError{Refs: refs, Err: err}
}

// writeBlob sends the exact bytes of a blob.
func (c *call) writeBlob(p resolver.Part) {
	text := p.Text.Bytes()
	h := c.w.Header()
	values := [5]string{
		p.ContentType, strconv.Itoa(len(text)), reprDigest(p.Digest), string(p.Kind), p.Class,
	}
	// One array backs the five header values: fewer allocations than five.
	h[headerContentType] = values[0:1:1]
	h[headerContentLength] = values[1:2:2]
	h[wire.HeaderReprDigest] = values[2:3:3]
	h[wire.HeaderKind] = values[3:4:4]
	h[wire.HeaderClass] = values[4:5:5]
	c.send(http.StatusOK, text)
}

const reprPrefix = "sha-256=:"

// reprDigest writes a digest as RFC 9530 does.
func reprDigest(d blobd.Digest) string {
	var b [len(reprPrefix) + 44 + 1]byte
	copy(b[:], reprPrefix)
	base64.StdEncoding.Encode(b[len(reprPrefix):], d[:])
	b[len(b)-1] = ':'
	return string(b[:])
}

// resolveBatch answers POST …/resolve: bytes or null for every part, or one
// error for all.
func (a *API) resolveBatch(c *call) error {
	var q wire.ResolveRequest
	return a.withJSON(c, &q, func([]byte) error {
		wanted, err := c.batch(q)
		if err != nil {
			return err
		}
		if len(wanted.Wants) == 0 {
			return c.nothingWanted()
		}
		answer, err := a.Resolver.Resolve(c.r.Context(), wanted)
		if err != nil {
			return aboutWanted(err, wanted)
		}
		defer wipeParts(answer.Parts)
		return c.replyWiped(resolved(answer))
	})
}

// nothingWanted answers an empty batch: vacuously, all of it was resolved.
func (c *call) nothingWanted() error {
	if err := c.rt.api.Store.Serving(); err != nil {
		return err
	}
	return c.reply(http.StatusOK, &wire.Resolved{Parts: []wire.ResolvedPart{}})
}

func (c *call) batch(q wire.ResolveRequest) (resolver.Request, error) {
	out := resolver.Request{
		Tenant: c.who.tenant, ExecutionID: c.executionID, StepID: q.StepID, Origin: q.Origin, Principal: q.Principal,
	}
	if err := checkOrigin(q.StepID, q.Origin); err != nil {
		return out, err
	}
	if q.Principal != nil {
		if err := checkPrincipal(*q.Principal); err != nil {
			return out, err
		}
	}
	if q.Parts == nil {
		return out, refuse(wire.CodeInvalid, "parts: want an array")
	}
	out.Wants = make([]resolver.Want, len(q.Parts))
	for i, p := range q.Parts {
		ref, err := blobd.ParseRef(p.Ref)
		if err != nil {
			return out, refuse(wire.CodeInvalid, "parts[%d]: %v", i, err)
		}
		out.Wants[i].Ref = ref
		if p.Digest == nil {
			continue
		}
		d, err := blobd.ParseDigest(*p.Digest)
		if err != nil {
			return out, refuse(wire.CodeInvalid, "parts[%d]: %v", i, err)
		}
		out.Wants[i].Digest = &d
	}
	return out, checkParts(len(q.Parts))
}

func checkParts(n int) error {
	if n > wire.MaxParts {
		return refuse(wire.CodeTooLarge, "more than %d parts", wire.MaxParts)
	}
	return nil
}

func resolved(a resolver.Answer) *wire.Resolved {
	out := &wire.Resolved{Parts: make([]wire.ResolvedPart, len(a.Parts))}
	if a.FirstHole >= 0 {
		out.FirstHole = &a.FirstHole
	}
	for i, p := range a.Parts {
		w := &out.Parts[i]
		w.Ref = p.Ref.String()
		if p.Null {
			w.Status = wire.StatusNull
			continue
		}
		w.Status, w.Digest, w.Size, w.Kind = wire.StatusOK, p.Digest.Hex(), &p.Size, string(p.Kind)
		w.Text, w.Base64 = textOrBase64(p.Text)
	}
	return out
}

// textOrBase64 lends a text's memory to an answer, as what it can be in JSON.
func textOrBase64(t blobd.Text) (*wire.Text, []byte) {
	if !utf8.Valid(t.Bytes()) {
		return nil, t.Bytes()
	}
	text := wire.TextOf(t.Bytes())
	return &text, nil
}

func wipeParts(parts []resolver.Part) {
	for _, p := range parts {
		p.Text.Wipe()
	}
}

// replyWiped sends an answer that holds texts, and wipes what it encoded.
func (c *call) replyWiped(v any) error {
	body, err := json.Marshal(v)
	defer clear(body)
	if err != nil {
		return refuse(wire.CodeUnavailable, "the answer could not be written")
	}
	c.write(http.StatusOK, c.rt.api.shared.json, body)
	return nil
}

// readReasoning answers POST …/reasoning/read.
func (a *API) readReasoning(c *call) error {
	var q wire.ReadRequest
	return a.withJSON(c, &q, func([]byte) error {
		wanted, err := c.reading(q)
		if err != nil {
			return err
		}
		answer, err := a.Resolver.Read(c.r.Context(), wanted)
		if err != nil {
			return err
		}
		defer wipeReading(answer.Parts)
		return c.replyWiped(readAnswer(answer))
	})
}

func wipeReading(parts []resolver.ReadPart) {
	for _, p := range parts {
		if p.Text != nil {
			p.Text.Wipe()
		}
	}
}
