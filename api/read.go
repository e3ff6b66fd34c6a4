package api

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/resolver"
)

// reading checks an audit read.
func (c *call) reading(q *wire.ReadRequest) (resolver.ReadRequest, error) {
	out := resolver.ReadRequest{
		Tenant: c.who.tenant, ExecutionID: c.executionID, Actor: c.who.token, Purpose: q.Purpose,
		StepID: q.StepID, StepPrefix: q.StepPrefix, Recorded: q.Recorded, Room: c.holdAnswer,
	}
	if q.Purpose == "" || len(q.Purpose) > wire.MaxReason {
		return out, refuse(wire.CodeInvalid, "purpose: want 1 to %d bytes: it is recorded with the read", wire.MaxReason)
	}
	if q.StepID != "" && q.StepPrefix != "" {
		return out, refuse(wire.CodeInvalid, "want stepId or stepPrefix, not both")
	}
	for _, step := range []string{q.StepID, q.StepPrefix} {
		if err := blobd.CheckStepID(step); err != nil {
			return out, invalid(err)
		}
	}
	for step, attempt := range q.Recorded {
		if blobd.CheckStepID(step) != nil || attempt < 0 {
			return out, refuse(wire.CodeInvalid, "recorded: want step ids with attempts of 0 or more")
		}
	}
	if err := readBounds(q, &out); err != nil {
		return out, err
	}
	if q.Events == nil {
		return out, nil
	}
	var err error
	out.Events, err = events(q.Events)
	return out, err
}

func readBounds(q *wire.ReadRequest, out *resolver.ReadRequest) error {
	if q.MaxParts != nil {
		if *q.MaxParts < 1 {
			return refuse(wire.CodeInvalid, "maxParts: want 1 to %d", wire.MaxParts)
		}
		if *q.MaxParts > wire.MaxParts {
			return refuse(wire.CodeTooLarge, "maxParts: more than %d", wire.MaxParts)
		}
		out.MaxParts = *q.MaxParts
	}
	if q.MaxBytes != nil {
		if *q.MaxBytes < 1 {
			return refuse(wire.CodeInvalid, "maxBytes: want 1 or more")
		}
		if *q.MaxBytes > resolver.DefaultMaxBytes {
			return refuse(wire.CodeTooLarge, "maxBytes: more than %d", resolver.DefaultMaxBytes)
		}
		out.MaxBytes = *q.MaxBytes
	}
	return nil
}

// events reads the caller's log. It is never nil: an empty log is not the same
// as none.
func events(in []wire.CapturedEvent) ([]resolver.Event, error) {
	out := make([]resolver.Event, len(in))
	for i, e := range in {
		if blobd.CheckStepID(e.StepID) != nil || e.Attempt < 0 ||
			blobd.CheckName("", e.Provider) != nil || blobd.CheckName("", e.Model) != nil {
			return nil, refuse(wire.CodeInvalid, "events[%d]: a wrong stepId, attempt, provider or model", i)
		}
		out[i] = resolver.Event{StepID: e.StepID, Attempt: e.Attempt, Provider: e.Provider, Model: e.Model}
		for j, p := range e.Parts {
			part, err := eventPart(p)
			if err != nil {
				return nil, refuse(wire.CodeInvalid, "events[%d].parts[%d]: a wrong kind, ref, digest or size", i, j)
			}
			out[i].Parts = append(out[i].Parts, part)
		}
	}
	return out, nil
}

func eventPart(p wire.EventPart) (out resolver.EventPart, err error) {
	if out.Kind, err = requiredKind(p.Kind); err != nil {
		return out, err
	}
	if p.Ref != "" {
		ref, err := blobd.ParseRef(p.Ref)
		if err != nil {
			return out, err
		}
		out.Ref = &ref
	}
	if p.Digest != "" {
		d, err := blobd.ParseDigest(p.Digest)
		if err != nil {
			return out, err
		}
		out.Digest = &d
	}
	if p.Size != nil && *p.Size < 0 {
		return out, blobd.ErrInvalid
	}
	out.Size = p.Size
	return out, nil
}

// requiredKind is ParseKind without a default.
func requiredKind(s string) (blobd.Kind, error) {
	if s == "" {
		return "", blobd.ErrInvalid
	}
	return blobd.ParseKind(s)
}

// readPart is a part without its content.
func readPart(p *resolver.ReadPart) *wire.ReadPart {
	w := &wire.ReadPart{
		StepID: p.StepID, Attempt: p.Attempt, Superseded: p.Superseded, Index: p.Index, Kind: string(p.Kind),
		Provider: p.Provider, Model: p.Model, Status: string(p.Status), Size: p.Size,
	}
	if p.Ref != nil {
		w.Ref = p.Ref.String()
	}
	if p.Digest != nil {
		w.Digest = p.Digest.Hex()
	}
	return w
}
