package api

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// clockSkew is how far a caller's clock may be ahead of ours.
const clockSkew = time.Minute

// eraseRequest checks an erasure: first that it is well-formed (400), then that
// this server has what it asks for (501).
func (c *call) eraseRequest(q *wire.EraseRequest) (store.EraseRequest, error) {
	r := store.EraseRequest{
		Tenant: c.who.tenant, Actor: c.who.token, Reason: q.Reason, LegalBasis: q.LegalBasis,
		Regime: q.Regime, ExternalRef: q.ExternalRef,
	}
	if err := c.checkErasure(q); err != nil {
		return r, err
	}
	s, err := readScope(q.Scope, true)
	if err != nil {
		return r, err
	}
	r.ExecutionID, r.Refs, r.Subjects = s.executionID, s.refs, s.subjects
	r.Class, r.CapturedBefore, r.WholeTenant = s.class, s.capturedBefore, s.wholeTenant
	if q.ReceivedAt != nil {
		r.ReceivedAt = q.ReceivedAt.UTC()
	}
	if q.DueAt != nil {
		r.DueAt = q.DueAt.UTC()
	}
	if q.GraceSeconds != nil {
		r.Grace = time.Duration(*q.GraceSeconds) * time.Second
	}
	if q.Callback != nil {
		return r, c.rt.api.checkCallback(*q.Callback, r.WholeTenant)
	}
	return r, nil
}

// checkCallback refuses a callback to which nothing would be sent. No error repeats the
// URL. Nothing can be signed for a tenant that was off-boarded, so that the end of such
// an erasure is told to nobody.
func (a *API) checkCallback(url string, wholeTenant bool) error {
	hooks, err := a.webhooks()
	if err != nil {
		return err
	}
	if wholeTenant {
		return refuse(wire.CodeInvalid, "callback: the erasure of a whole tenant cannot be told")
	}
	if err := hooks.CheckURL(url); err != nil {
		return invalid(fmt.Errorf("callback: %w", err))
	}
	return nil
}

// draftCallback gives a request its callback, and returns the callback's secret.
func (a *API) draftCallback(ctx context.Context, r *store.EraseRequest, url *string) (secret string, err error) {
	if url == nil {
		return "", nil
	}
	secret, callback, err := a.Config.Webhooks.Callback(ctx, r.Tenant, *url, r.Actor)
	if err != nil {
		return "", err
	}
	r.Callback = &callback
	return secret, nil
}

// checkErasure checks everything but the scope.
func (c *call) checkErasure(q *wire.EraseRequest) error {
	if err := needed("reason", q.Reason); err != nil {
		return err
	}
	if err := bounded("legalBasis", q.LegalBasis); err != nil {
		return err
	}
	if err := bounded("externalRef", q.ExternalRef); err != nil {
		return err
	}
	if q.Regime != "" && !slices.Contains(wire.Regimes(), q.Regime) {
		return refuse(wire.CodeInvalid, "regime: want one of %v", wire.Regimes())
	}
	if g := q.GraceSeconds; g != nil && (*g < 0 || *g > wire.MaxGraceSeconds) {
		return refuse(wire.CodeInvalid, "graceSeconds: want 0 to %d", wire.MaxGraceSeconds)
	}
	return checkClock(c.rt.api.Now(), q)
}

// needed checks a text that a person wrote and that must be there.
func needed(name, value string) error {
	if value == "" {
		return refuse(wire.CodeInvalid, "%s: must not be empty", name)
	}
	return bounded(name, value)
}

func bounded(name, value string) error {
	if len(value) > wire.MaxReason || !utf8.ValidString(value) {
		return refuse(wire.CodeInvalid, "%s: want at most %d bytes", name, wire.MaxReason)
	}
	return nil
}

// checkClock judges the times of an erasure by the server's clock.
func checkClock(now time.Time, q *wire.EraseRequest) error {
	received := now
	if q.ReceivedAt != nil {
		received = *q.ReceivedAt
	}
	switch {
	case received.After(now.Add(clockSkew)):
		return refuse(wire.CodeInvalid, "receivedAt: is in the future")
	case received.Year() < 1970:
		return refuse(wire.CodeInvalid, "receivedAt: is before 1970")
	case q.DueAt != nil && q.DueAt.Before(received):
		return refuse(wire.CodeInvalid, "dueAt: is before receivedAt")
	}
	return nil
}
