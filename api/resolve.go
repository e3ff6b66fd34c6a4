package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"

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
	q.Room = c.hold
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
	if err := a.readJSON(c, &q, a.lists); err != nil {
		return err
	}
	wanted, err := c.batch(&q)
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
	c.writeResolved(answer)
	return nil
}

// holdAnswer holds memory for sealed bytes and texts, and for the answer.
func (c *call) holdAnswer(ctx context.Context, n int64) error { return c.hold(ctx, n+answerRoom(n)) }

// nothingWanted answers an empty batch: vacuously, all of it was resolved.
func (c *call) nothingWanted() error {
	if err := c.rt.api.Store.Serving(); err != nil {
		return err
	}
	return c.reply(http.StatusOK, &wire.Resolved{Parts: []wire.ResolvedPart{}})
}

func (c *call) batch(q *wire.ResolveRequest) (resolver.Request, error) {
	out := resolver.Request{
		Tenant: c.who.tenant, ExecutionID: c.executionID, StepID: q.StepID, Origin: q.Origin, Principal: q.Principal,
		Room: c.holdAnswer,
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
	if err := checkParts(len(q.Parts)); err != nil {
		return out, err
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
	return out, nil
}

func checkParts(n int) error {
	if n > wire.MaxParts {
		return refuse(wire.CodeTooLarge, "more than %d parts", wire.MaxParts)
	}
	return nil
}

// writeResolved sends wire.Resolved, written by hand: a batch is the hot path of
// an agent loop, and a test holds it to what the encoder of the wire type makes.
func (c *call) writeResolved(a resolver.Answer) {
	var n int64
	for i := range a.Parts {
		n += int64(a.Parts[i].Text.Len())
	}
	t := c.newTextAnswer(n, len(a.Parts))
	defer t.release()
	for i := range a.Parts {
		t.raw(opener(i))
		t.resolved(&a.Parts[i])
	}
	t.reserve()
	t.buf.b = append(t.buf.b, `],"firstHole":`...)
	if a.FirstHole >= 0 {
		t.buf.b = strconv.AppendInt(t.buf.b, int64(a.FirstHole), 10)
	} else {
		t.buf.b = append(t.buf.b, "null"...)
	}
	t.buf.b = append(t.buf.b, '}')
	t.end()
}

// opener is what stands before a part.
func opener(i int) string {
	if i == 0 {
		return `{"parts":[`
	}
	return ","
}

func (t *textAnswer) resolved(p *resolver.Part) {
	t.reserve()
	b := append(t.buf.b, `{"ref":"sha256:`...)
	b = appendHex(b, p.Ref[:])
	if p.Null {
		t.buf.b = append(b, `","status":"null"}`...)
		return
	}
	t.buf.b = append(b, `","status":"ok",`...)
	t.content(p.Text.Bytes())
	t.reserve()
	b = append(t.buf.b, `,"digest":"`...)
	b = appendHex(b, p.Digest[:])
	b = append(b, `","size":`...)
	b = strconv.AppendInt(b, p.Size, 10)
	b = append(b, `,"kind":`...)
	b = appendString(b, string(p.Kind))
	t.buf.b = append(b, '}')
}

func wipeParts(parts []resolver.Part) {
	for _, p := range parts {
		p.Text.Wipe()
	}
}

// readReasoning answers POST …/reasoning/read. The caller's log stays in memory
// until the end; where it is long, the most that a read can take is held from the
// beginning, so that no long log waits for the memory of its answer.
func (a *API) readReasoning(c *call) error {
	var q wire.ReadRequest
	size, err := c.bodySize(a.MaxJSON)
	if err != nil {
		return err
	}
	log, answer := logRoom(size), int64(0)
	if size > longLog {
		answer = 2*resolver.DefaultMaxBytes + largestAnswer
	}
	if err := c.hold(c.r.Context(), log+answer); err != nil {
		return err
	}
	if err := a.readJSON(c, &q, logLimits()); err != nil {
		return err
	}
	c.kept = log
	wanted, err := c.reading(&q)
	if err != nil {
		return err
	}
	found, err := a.Resolver.Read(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	defer wipeReading(found.Parts)
	return c.writeReading(found)
}

// longLog is the size of a body from which its log counts beside the answer.
const longLog = 8 << 10

// logRoom is what a body of n bytes and its log take: small events take the more
// beside their bytes, but there are only so many.
func logRoom(n int64) int64 { return jsonCopies*roomOf(n) + min(n*smallEvent/3, maxLog*smallEvent) }

// smallEvent is what the smallest event ("{}," is three bytes) takes in memory,
// as it was read and as the resolver takes it, with lists half full.
const smallEvent = 512

// writeReading sends wire.ReadAnswer: its texts by hand, the rest by the encoder.
func (c *call) writeReading(a resolver.ReadAnswer) error {
	var n int64
	for _, p := range a.Parts {
		if p.Text != nil {
			n += int64(p.Text.Len())
		}
	}
	t := c.newTextAnswer(n, len(a.Parts))
	defer t.release()
	for i := range a.Parts {
		t.raw(opener(i))
		if err := t.reading(&a.Parts[i]); err != nil {
			return err
		}
	}
	if len(a.Parts) == 0 {
		t.raw(opener(0))
	}
	t.raw(`],"truncated":` + strconv.FormatBool(a.Truncated) + "}")
	t.end()
	return nil
}

// reading writes one part. Its content is the last member.
func (t *textAnswer) reading(p *resolver.ReadPart) error {
	head, err := json.Marshal(readPart(p))
	if err != nil {
		return fmt.Errorf("encode the answer: %w: %w", blobd.ErrUnavailable, err)
	}
	if p.Text == nil {
		t.raw(string(head))
		return nil
	}
	t.raw(string(head[:len(head)-1]))
	t.reserve()
	t.buf.b = append(t.buf.b, `,"content":{"untrusted":true,"origin":`...)
	t.buf.b = appendString(t.buf.b, wire.OriginPrefix+p.StepID)
	t.raw(",")
	t.content(p.Text.Bytes())
	t.raw("}}")
	return nil
}

func wipeReading(parts []resolver.ReadPart) {
	for _, p := range parts {
		if p.Text != nil {
			p.Text.Wipe()
		}
	}
}
