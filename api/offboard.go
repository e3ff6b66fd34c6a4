package api

import (
	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// offboardTenant answers DELETE /v1/tenants/{id}. It is the erasure of the whole
// tenant, as POST /v1/erasures asks for with the scope {"tenant":true}: asked for
// again, it is another erasure that follows the first. It names the tenant itself:
// where a hold or a legal floor protects something in it, it is refused.
func (a *API) offboardTenant(c *call) error {
	r := store.EraseRequest{
		Tenant: c.r.PathValue("id"), WholeTenant: true, Strict: true, Actor: c.who.token, Reason: "the tenant was off-boarded",
	}
	if blobd.CheckClass(r.Tenant) != nil {
		return refuse(wire.CodeInvalid, "id: want [a-z][a-z0-9-]{0,62}")
	}
	switch c.param("dryRun") {
	case "true":
		return a.previewErasure(c, r)
	case "", "false":
	default:
		return refuse(wire.CodeInvalid, "dryRun: want true or false")
	}
	o, err := a.startErasure(c.r.Context(), r, nil)
	if err != nil {
		return err
	}
	c.writeOutcome(o)
	return nil
}
