package api

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// put answers POST …/blobs. What the URL and the headers say is checked before
// the body is looked at, so a wrong name is 400 and never 413.
func (a *API) put(c *call) error {
	r, isText, err := c.putRequest()
	if err != nil {
		return err
	}
	return a.withBody(c, a.MaxBlob, putCopies, func(body []byte) error {
		if isText && !utf8.Valid(body) {
			return refuse(wire.CodeInvalidUTF8, "the body of a text type must be valid UTF-8; nothing was stored")
		}
		r.Text = blobd.TextOf(body)
		stored, err := a.putBounded(c, r)
		if err != nil {
			return err
		}
		c.writeStored(stored)
		return nil
	})
}

// putBounded puts. The core bounds all of a put but the look for the key that
// hides subjects.
func (a *API) putBounded(c *call, r store.PutRequest) (store.Stored, error) {
	ctx := c.r.Context()
	if len(r.Subjects) > 0 {
		bounded, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		ctx = bounded
	}
	return a.Store.Put(ctx, r)
}

// putRequest is everything of a put but its body.
func (c *call) putRequest() (r store.PutRequest, isText bool, err error) {
	r.Attempt, err = c.attempt()
	if err != nil {
		return r, false, err
	}
	if r.Class, err = classOr(c.param("class")); err != nil {
		return r, false, err
	}
	if r.Kind, err = blobd.ParseKind(c.param("kind")); err != nil {
		return r, false, invalid(err)
	}
	if r.Kind == blobd.KindRedacted {
		return r, false, refuse(wire.CodeInvalid, "kind: a redacted part has no readable text")
	}
	if r.ContentType, isText, err = c.contentType(); err != nil {
		return r, false, err
	}
	if r.Expect, err = c.reprDigest(); err != nil {
		return r, false, err
	}
	if r.Subjects, err = c.subjects(); err != nil {
		return r, false, err
	}
	r.Audience, err = c.audience()
	return r, isText, err
}

// attempt reads which model call a put belongs to.
func (c *call) attempt() (store.Attempt, error) {
	number, err := c.intParam("attempt", 1, 0, math.MaxInt64)
	a := store.Attempt{
		Tenant: c.who.tenant, ExecutionID: c.executionID, StepID: c.param("stepId"), Number: number,
		Provider: c.param("provider"), Model: c.param("model"), Actor: c.who.token,
	}
	if err != nil {
		return a, err
	}
	return a, checkAttempt(a)
}

func checkAttempt(a store.Attempt) error {
	if err := blobd.CheckStepID(a.StepID); err != nil {
		return invalid(err)
	}
	if err := blobd.CheckName("provider", a.Provider); err != nil {
		return invalid(err)
	}
	if err := blobd.CheckName("model", a.Model); err != nil {
		return invalid(err)
	}
	if a.Number < 0 {
		return refuse(wire.CodeInvalid, "attempt: want 0 or more")
	}
	return nil
}

func classOr(class string) (string, error) {
	if class == "" {
		return blobd.DefaultClass, nil
	}
	return class, invalid(blobd.CheckClass(class))
}

// writeStored sends wire.Stored, written by hand: this is the hot path, and a
// test holds it to what the encoder of the wire type makes.
func (c *call) writeStored(s store.Stored) {
	a := c.rt.api
	b := a.buffers.take(int64(512 + 6*(len(c.executionID)+len(s.StepID))))
	defer a.buffers.release(b)
	b.b = appendStored(b.b, c.executionID, s)
	status := http.StatusOK
	if s.Created {
		status = http.StatusCreated
	}
	c.w.Header()[headerLocation] = []string{blobPath(c.executionID, s.Ref)}
	c.write(status, a.shared.json, b.b)
}

func appendStored(b []byte, executionID string, s store.Stored) []byte {
	b = append(b, `{"ref":"sha256:`...)
	b = appendHex(b, s.Ref[:])
	b = append(b, `","digest":"`...)
	b = appendHex(b, s.Digest[:])
	b = append(b, `","size":`...)
	b = strconv.AppendInt(b, s.Size, 10)
	b = append(b, `,"executionId":`...)
	b = appendString(b, executionID)
	b = append(b, `,"stepId":`...)
	b = appendString(b, s.StepID)
	b = append(b, `,"class":`...)
	b = appendString(b, s.Class)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, s.CreatedAt)
	b = append(b, `,"expiresAt":`...)
	b = appendTime(b, s.ExpiresAt)
	return append(b, '}')
}

// blobPath is the path of a blob.
func blobPath(executionID string, ref blobd.Ref) string {
	var room [128]byte
	b := append(room[:0], "/v1/executions/"...)
	b = append(b, url.PathEscape(executionID)...)
	b = append(b, "/blobs/sha256:"...)
	return string(appendHex(b, ref[:]))
}

const hexDigits = "0123456789abcdef"

func appendHex(b, src []byte) []byte {
	for _, c := range src {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// appendString writes a JSON string; s was checked to be valid UTF-8.
func appendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		return append(b, `""`...)
	}
	return out
}

// appendTime writes an RFC 3339 time in UTC, null for the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// timeOrNull is a time of an answer.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
