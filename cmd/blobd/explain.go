package main

import (
	"fmt"
	"strings"
	"time"
)

type explainCmd struct {
	Ref       string `arg:"" help:"The ref."`
	Execution string `help:"Only in this execution." placeholder:"ID"`
}

// Run says what keeps a blob, until when, and what happens next.
func (e explainCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	found, err := r.Explain(a.ctx, e.Ref, e.Execution)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(found)
	}
	w := a.stdout
	for _, x := range found.Items {
		fmt.Fprintf(w, "execution %s: %s, %s\n", idText(x.ExecutionID), x.State, x.Verdict)
		if rule := x.Rule; rule != nil {
			fmt.Fprintf(w, "class %s, version %d: %s from %s, then %s", x.Class, rule.Version, rule.Period, rule.StartEvent, rule.OnExpiry)
			if rule.Floor != nil {
				fmt.Fprintf(w, ", kept at least %s", *rule.Floor)
			}
			fmt.Fprintln(w)
		}
		for _, t := range []struct {
			what string
			at   *time.Time
		}{{"started", x.Start}, {"due", x.Due}, {"floor until", x.Floor}} {
			if t.at != nil {
				fmt.Fprintf(w, "%s %s\n", t.what, t.at.Format(time.RFC3339))
			}
		}
		for _, ids := range []struct {
			what string
			list []string
		}{{"holds", x.Holds}, {"restrictions", x.Restrictions}, {"erasures", x.Erasures}} {
			if len(ids.list) > 0 {
				fmt.Fprintf(w, "%s: %s\n", ids.what, strings.Join(ids.list, ", "))
			}
		}
		fmt.Fprintf(w, "next: %s\n", x.Next)
	}
	return nil
}
