package main

import (
	"fmt"
	"time"
)

type tenantCmd struct {
	Create    tenantCreateCmd    `cmd:"" help:"Create a tenant."`
	List      tenantListCmd      `cmd:"" help:"List the tenants."`
	Approvals tenantApprovalsCmd `cmd:"" help:"Say how many people must approve an erasure of a tenant."`
	Delete    tenantDeleteCmd    `cmd:"" help:"Off-board a tenant: erase all of it, for ever. Its id is never used again."`
}

type tenantCreateCmd struct {
	ID string `arg:"" help:"[a-z][a-z0-9-]{0,62}"`
}

// Run creates a tenant.
func (t tenantCreateCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	created, err := r.CreateTenant(a.ctx, t.ID)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(created)
	}
	fmt.Fprintln(a.stdout, created.ID)
	return nil
}

type tenantListCmd struct{}

// Run lists every tenant.
func (tenantListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	tenants, err := allTenants(a.ctx, r)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(tenants)
	}
	for _, t := range tenants {
		fmt.Fprintf(a.stdout, "%s\t%s", t.ID, t.CreatedAt.Format(time.RFC3339))
		if t.OffboardedAt != nil {
			fmt.Fprintf(a.stdout, "\toff-boarded %s", t.OffboardedAt.Format(time.RFC3339))
		}
		fmt.Fprintln(a.stdout)
	}
	return nil
}

type tenantApprovalsCmd struct {
	ID       string `arg:"" help:"The tenant."`
	Erasures int    `arg:"" help:"How many people must approve an erasure; 0: nobody."`
}

// Run sets the number of approvals.
func (t tenantApprovalsCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	tenant, err := r.SetApprovals(a.ctx, t.ID, t.Erasures)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(tenant)
	}
	fmt.Fprintf(a.stdout, "%s\tan erasure needs %d approvals\n", tenant.ID, t.Erasures)
	return nil
}
