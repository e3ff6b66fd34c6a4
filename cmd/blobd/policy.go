package main

import (
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/ledger"
)

type policyCmd struct {
	List     policyListCmd     `cmd:"" help:"List the policies of all classes, with those that follow the default."`
	Get      policyGetCmd      `cmd:"" help:"Show the policy of a class."`
	Set      policySetCmd      `cmd:"" help:"Simulate a policy, ask, and set it."`
	Simulate policySimulateCmd `cmd:"" help:"Count what a policy would make due; nothing is changed."`
	Remove   policyRemoveCmd   `cmd:"" aliases:"delete" help:"Have a class follow the default again."`
}

type policyListCmd struct{}

// Run lists every policy.
func (policyListCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	all := []wire.Policy{}
	for page := (client.Page{}); ; {
		answer, err := r.Policies(a.ctx, page)
		if err != nil {
			return err
		}
		all = append(all, answer.Items...)
		if answer.Next == nil {
			break
		}
		page.Cursor = *answer.Next
	}
	if a.json {
		return a.printJSON(all)
	}
	for _, p := range all {
		printPolicy(a.stdout, p)
	}
	return nil
}

func printPolicy(w io.Writer, p wire.Policy) {
	fmt.Fprintf(w, "%s\t%s from %s, then %s", p.Class, p.Period, p.StartEvent, p.OnExpiry)
	if p.Default {
		fmt.Fprint(w, " (the default: no policy is set)")
	}
	if p.Floor != nil {
		fmt.Fprintf(w, ", kept at least %s", *p.Floor)
	}
	if p.Slack != nil {
		fmt.Fprintf(w, ", slack %s", *p.Slack)
	}
	if p.Since != nil {
		fmt.Fprintf(w, ", since %s", p.Since.Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	for _, e := range p.Earlier {
		fmt.Fprintf(w, "\t%s from %s, then %s, for what was captured", e.Period, e.StartEvent, e.OnExpiry)
		if e.CapturedFrom != nil {
			fmt.Fprintf(w, " from %s", e.CapturedFrom.Format(time.RFC3339))
		}
		if e.CapturedBefore != nil {
			fmt.Fprintf(w, " before %s", e.CapturedBefore.Format(time.RFC3339))
		}
		fmt.Fprintln(w)
	}
}

type policyGetCmd struct {
	Class string `arg:"" help:"Class."`
}

// Run shows a policy.
func (p policyGetCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	policy, err := r.Policy(a.ctx, p.Class)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(policy)
	}
	printPolicy(a.stdout, policy)
	return nil
}

// policyFlags are what a policy says.
type policyFlags struct {
	Class      string `arg:"" help:"Class."`
	Period     string `help:"How long a blob may be kept, as ISO 8601: P30D, P6M, PT2S." required:"" placeholder:"PERIOD"`
	Start      string `help:"What starts the period: captured or executionEnded." default:"captured" enum:"captured,executionEnded"`
	OnExpiry   string `help:"What a sweep does at its end: erase, or leave it to a review." default:"erase" enum:"erase,review"`
	Floor      string `help:"How long a blob must be kept, with --legal-basis." placeholder:"PERIOD"`
	LegalBasis string `help:"Why there is a floor." placeholder:"TEXT"`
	Slack      string `help:"How long after its end a blob may wait for a sweep (default: P1D)." placeholder:"PERIOD"`
	Existing   string `help:"yes: blobs captured before follow the policy too; no: they keep the version of their capture." required:"" enum:"yes,no"`
}

func (p policyFlags) request() wire.PolicyRequest {
	existing := p.Existing == "yes"
	return wire.PolicyRequest{
		Period: p.Period, StartEvent: p.Start, OnExpiry: p.OnExpiry, Floor: p.Floor, LegalBasis: p.LegalBasis,
		Slack: p.Slack, Existing: &existing,
	}
}

type policySimulateCmd struct{ policyFlags }

// Run simulates.
func (p policySimulateCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	s, err := r.SimulatePolicy(a.ctx, p.Class, p.request())
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	printSimulation(a.stdout, s)
	return nil
}

func printSimulation(w io.Writer, s wire.PolicySimulation) {
	fmt.Fprintf(w, "%s: %d blobs would be past their maximum (%d are now); the next sweep would erase %d, %d bytes",
		s.Class, s.Due, s.DueBefore, s.Erased, s.Bytes)
	for what, n := range map[string]int64{"held": s.Held, "under a floor": s.Floor, "for a review": s.Review} {
		if n > 0 {
			fmt.Fprintf(w, ", %d %s", n, what)
		}
	}
	fmt.Fprintln(w)
	if s.Waiting > 0 {
		fmt.Fprintf(w, "%d blobs are older than the period and wait for the end of their executions\n", s.Waiting)
	}
}

type policySetCmd struct {
	policyFlags
	DryRun bool `help:"Simulate, and set nothing."`
	Yes    bool `help:"Do not ask."`
}

// Run simulates a policy, asks, and sets it.
func (p policySetCmd) Run(a *app) error {
	if p.DryRun {
		return policySimulateCmd{p.policyFlags}.Run(a)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if !p.Yes {
		s, err := r.SimulatePolicy(a.ctx, p.Class, p.request())
		if err != nil {
			return err
		}
		printSimulation(a.stderr, s)
		if err := a.confirm("Set the policy of the class", p.Class); err != nil {
			return err
		}
	}
	set, err := r.SetPolicy(a.ctx, p.Class, p.request())
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(set)
	}
	printPolicy(a.stdout, set)
	if set.Simulation != nil {
		printSimulation(a.stdout, *set.Simulation)
	}
	return nil
}

type policyRemoveCmd struct {
	Class    string `arg:"" help:"Class."`
	Existing string `help:"yes: blobs captured before follow the default too; no: they keep the version of their capture." default:"no" enum:"yes,no"`
	DryRun   bool   `help:"Simulate the default, and remove nothing."`
	Yes      bool   `help:"Do not ask."`
}

// Run removes a policy.
func (p policyRemoveCmd) Run(a *app) error {
	if p.DryRun {
		rule := ledger.DefaultRule()
		return policySimulateCmd{policyFlags{
			Class: p.Class, Period: rule.Maximum.String(), Start: rule.Start.String(), OnExpiry: rule.OnExpiry.String(),
			Existing: p.Existing,
		}}.Run(a)
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if !p.Yes {
		if err := a.confirm("Have the class follow the default", p.Class); err != nil {
			return err
		}
	}
	if err := r.RemovePolicy(a.ctx, p.Class, p.Existing == "yes"); err != nil {
		return err
	}
	return policyGetCmd{p.Class}.Run(a)
}
