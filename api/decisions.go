package api

import (
	"encoding/hex"
	"errors"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
)

// approveErasure answers POST /v1/erasures/{id}/approve.
func (a *API) approveErasure(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.ApproveRequest
	return a.withJSON(c, &q, func([]byte) error {
		digest, err := readPlanDigest(q.PlanDigest)
		if err != nil {
			return err
		}
		e, err := a.Store.Approve(c.r.Context(), c.who.tenant, id, c.who.token, digest)
		if errors.Is(err, blobd.ErrDenied) && !errors.Is(err, blobd.ErrUnavailable) {
			return refuse(wire.CodeForbidden, "who asked for an erasure does not approve it")
		}
		return a.decided(c, e, err)
	})
}

func readPlanDigest(s string) (digest [32]byte, err error) {
	d, err := blobd.ParseDigest(s) // 64 lowercase hex digits, whatever they are of
	if err != nil {
		return digest, refuse(wire.CodeInvalid, "planDigest: want %d lowercase hex digits", hex.EncodedLen(len(digest)))
	}
	return [32]byte(d), nil
}

// denyErasure answers POST /v1/erasures/{id}/deny.
func (a *API) denyErasure(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.DenyRequest
	return a.withJSON(c, &q, func([]byte) error {
		if q.Code != "" && !slices.Contains(wire.DenialCodes(), q.Code) {
			return refuse(wire.CodeInvalid, "code: want one of %v", wire.DenialCodes())
		}
		if err := bounded("reason", q.Reason); err != nil {
			return err
		}
		e, err := a.Store.Deny(c.r.Context(), c.who.tenant, id, c.who.token, q.Code, q.Reason)
		return a.decided(c, e, err)
	})
}

// cancelErasure answers POST /v1/erasures/{id}/cancel.
func (a *API) cancelErasure(c *call) error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	var q wire.LiftRequest
	return a.withJSON(c, &q, func([]byte) error {
		if err := bounded("reason", q.Reason); err != nil {
			return err
		}
		e, err := a.Store.Cancel(c.r.Context(), c.who.tenant, id, c.who.token, q.Reason)
		return a.decided(c, e, err)
	})
}

func (a *API) decided(c *call, e ledger.Erasure, err error) error {
	if err != nil {
		return err
	}
	return a.replyErasure(c, e)
}
