package wire

import (
	"time"

	"github.com/blobd/blobd"
)

// Principal is who a text may be shown to, or who asks for it.
type Principal = blobd.Principal

// Stored is the answer to a put.
type Stored struct {
	Ref         string     `json:"ref" doc:"sha256: and the SHA-256 of the sealed bytes"`
	Digest      string     `json:"digest" doc:"SHA-256 of the readable bytes"`
	Size        int64      `json:"size" doc:"readable bytes"`
	ExecutionID string     `json:"executionId"`
	StepID      string     `json:"stepId"`
	Class       string     `json:"class"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   *time.Time `json:"expiresAt" doc:"end of the maximum period; null: none"`
}

// CaptureRequest is the reasoning of one model call.
type CaptureRequest struct {
	StepID   string      `json:"stepId,omitempty" maxLength:"512"`
	Attempt  *int64      `json:"attempt,omitempty" minimum:"0" doc:"default 1"`
	Provider string      `json:"provider,omitempty" maxLength:"256"`
	Model    string      `json:"model,omitempty" maxLength:"256"`
	Class    string      `json:"class,omitempty" doc:"default reasoning"`
	Capture  *bool       `json:"capture,omitempty" doc:"false: texts are dropped, their parts omitted; default true"`
	Subjects []string    `json:"subjects,omitempty" maxItems:"256"`
	Audience []Principal `json:"audience,omitempty" maxItems:"256"`
	// Reasoning holds 1 to 256 parts, in order.
	Reasoning []Reasoning `json:"reasoning" minItems:"1" maxItems:"256"`
}

// Reasoning is one part as the provider returned it.
type Reasoning struct {
	Kind      string `json:"kind" enum:"text,summary,redacted"`
	Text      *Text  `json:"text,omitzero"`
	Signature string `json:"signature,omitempty"`
	Provider  string `json:"provider,omitempty" doc:"default: the provider of the call"`
}

// Captured is the answer to a capture.
type Captured struct {
	Parts []ReasoningPart `json:"parts"`
	Event *CapturedEvent  `json:"event" doc:"null when no text was kept"`
}

// ReasoningPart is what a runtime records of a part: never the text.
type ReasoningPart struct {
	Type      string `json:"type" enum:"reasoning"`
	Kind      string `json:"kind" enum:"text,summary,redacted"`
	Provider  string `json:"provider"`
	Signature string `json:"signature,omitempty"`
	TextRef   string `json:"textRef,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Omitted   bool   `json:"omitted,omitzero" doc:"readable text existed and was not kept"`
}

// CapturedEvent is the payload of LLM_REASONING_CAPTURED: no text, no
// signature.
type CapturedEvent struct {
	StepID   string      `json:"stepId"`
	Attempt  int64       `json:"attempt"`
	Provider string      `json:"provider"`
	Model    string      `json:"model,omitempty"`
	Parts    []EventPart `json:"parts"`
}

// EventPart is one part of a CapturedEvent.
type EventPart struct {
	Kind   string `json:"kind" enum:"text,summary,redacted"`
	Ref    string `json:"ref,omitempty"`
	Digest string `json:"digest,omitempty"`
	Size   *int64 `json:"size,omitempty"`
}

// ResolveRequest asks for a batch.
type ResolveRequest struct {
	StepID    string        `json:"stepId,omitempty" maxLength:"512" doc:"recorded, never deciding"`
	Origin    string        `json:"origin,omitempty" maxLength:"256" doc:"recorded, never deciding"`
	Principal *Principal    `json:"principal,omitempty"`
	Parts     []ResolvePart `json:"parts" maxItems:"256"`
}

// ResolvePart asks for one blob.
type ResolvePart struct {
	Ref    string  `json:"ref"`
	Digest *string `json:"digest,omitempty" doc:"the digest that the caller expects; another is a null"`
}

// Resolved is the answer to a batch: bytes or null for every part.
type Resolved struct {
	Parts     []ResolvedPart `json:"parts"`
	FirstHole *int           `json:"firstHole" doc:"index of the first null: drop it and every later part"`
}

// Statuses of a ResolvedPart.
const (
	StatusOK   = "ok"
	StatusNull = "null"
)

// ResolvedPart is one part of a batch. Text is set where the bytes are valid
// UTF-8, Base64 otherwise.
type ResolvedPart struct {
	Ref    string `json:"ref"`
	Status string `json:"status" enum:"ok,null"`
	Text   *Text  `json:"text,omitzero"`
	Base64 []byte `json:"base64,omitzero"`
	Digest string `json:"digest,omitempty"`
	Size   *int64 `json:"size,omitempty"`
	Kind   string `json:"kind,omitempty" enum:"text,summary"`
}

// ReadRequest asks for reasoning on behalf of a person.
type ReadRequest struct {
	Events     []CapturedEvent  `json:"events,omitempty" doc:"the caller's log; absent: blobd's own records"`
	StepID     string           `json:"stepId,omitempty"`
	StepPrefix string           `json:"stepPrefix,omitempty"`
	MaxParts   *int             `json:"maxParts,omitempty" minimum:"1" doc:"default 256"`
	MaxBytes   *int64           `json:"maxBytes,omitempty" minimum:"1" doc:"default 1 MiB"`
	Recorded   map[string]int64 `json:"recorded,omitempty" doc:"the attempt that counts, per step"`
	Purpose    string           `json:"purpose" minLength:"1" maxLength:"1024" doc:"recorded before bytes leave"`
}

// ReadAnswer is what a person may read.
type ReadAnswer struct {
	Parts     []ReadPart `json:"parts"`
	Truncated bool       `json:"truncated"`
}

// ReadPart is one part, in log order.
type ReadPart struct {
	StepID     string   `json:"stepId"`
	Attempt    int64    `json:"attempt"`
	Superseded bool     `json:"superseded"`
	Index      int      `json:"index"`
	Kind       string   `json:"kind" enum:"text,summary,redacted"`
	Provider   string   `json:"provider"`
	Model      string   `json:"model,omitempty"`
	Status     string   `json:"status" enum:"ok,redacted,erased,digest-mismatch,expired,restricted,missing,lost"`
	Ref        string   `json:"ref,omitempty"`
	Digest     string   `json:"digest,omitempty"`
	Size       *int64   `json:"size,omitempty"`
	Content    *Content `json:"content,omitempty" doc:"when status is ok"`
}

// Content is a text that must not be trusted: it may speak to whoever reads it.
type Content struct {
	Untrusted bool   `json:"untrusted" enum:"true"`
	Origin    string `json:"origin" doc:"llm-reasoning: and the step id"`
	// Text is set where the bytes are valid UTF-8, Base64 otherwise.
	Text   *Text  `json:"text,omitzero"`
	Base64 []byte `json:"base64,omitzero"`
}

// OriginPrefix begins Content.Origin.
const OriginPrefix = "llm-reasoning:"
