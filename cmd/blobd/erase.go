package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type eraseCmd struct {
	Request     eraseRequestCmd        `cmd:"" default:"withargs" help:"Ask for an erasure; the word request may be left out."`
	Preview     erasePreviewCmd        `cmd:"" help:"Say what an erasure would erase and what would stay; nothing is changed."`
	Approve     eraseApproveCmd        `cmd:"" help:"Approve an erasure as its plan stands (role approver)."`
	Deny        eraseDenyCmd           `cmd:"" help:"Deny an erasure (role dpo or approver); what it closed and did not destroy can be read again."`
	Cancel      eraseCancelCmd         `cmd:"" help:"Cancel an erasure; what it closed and did not destroy can be read again."`
	Status      eraseStatusCmd         `cmd:"" help:"Show an erasure, or wait for its end."`
	Certificate evidenceCertificateCmd `cmd:"" help:"Get the certificate of an erasure."`
	List        eraseListCmd           `cmd:"" help:"List erasures, newest first."`
}

// Help shows the form without the word request, which scripts use.
func (eraseCmd) Help() string {
	return "blobd erase EXECUTION [--ref REF] [--dry-run] [--yes] [--wait] asks for an erasure, as blobd erase request does: " +
		"see blobd erase request --help for its flags. An execution whose id is the name of a command here is erased by " +
		"blobd erase request ID."
}

// askFlags are what an erasure says beside its scope.
type askFlags struct {
	Reason      string        `help:"Why." default:"requested on the command line"`
	LegalBasis  string        `help:"Legal basis." placeholder:"TEXT"`
	Regime      string        `help:"gdpr, uk, ccpa, lgpd or custom." placeholder:"WORD"`
	ExternalRef string        `help:"Your own reference." placeholder:"TEXT"`
	ReceivedAt  string        `help:"When the request came, RFC 3339 or a date (default: now)." placeholder:"TIME"`
	DueAt       string        `help:"When it must be answered, RFC 3339 or a date." placeholder:"TIME"`
	Grace       time.Duration `help:"How long it can be cancelled and everything comes back; reads are null meanwhile. At most 720h." placeholder:"DURATION"`
}

func (f askFlags) request(scope *wire.Scope) (wire.EraseRequest, error) {
	q := wire.EraseRequest{
		Scope: scope, Reason: f.Reason, LegalBasis: f.LegalBasis, Regime: f.Regime, ExternalRef: f.ExternalRef,
	}
	var err error
	if q.ReceivedAt, err = optionalTime("--received-at", f.ReceivedAt); err != nil {
		return q, err
	}
	if q.DueAt, err = optionalTime("--due-at", f.DueAt); err != nil {
		return q, err
	}
	if f.Grace != 0 {
		if f.Grace%time.Second != 0 {
			return q, fmt.Errorf("--grace: want whole seconds: %w", blobd.ErrInvalid)
		}
		seconds := int64(f.Grace / time.Second)
		q.GraceSeconds = &seconds
	}
	return q, nil
}

// waitFlags say whether a command waits for the end of an erasure.
type waitFlags struct {
	Wait    bool          `help:"Wait until it is erased: keys destroyed, every object read back as absent."`
	Timeout time.Duration `help:"Wait no longer than this (default: no limit)." placeholder:"DURATION"`
}

type eraseRequestCmd struct {
	scopeFlags
	askFlags
	waitFlags
	Callback string `help:"Have this URL told of the erasure, https; the secret that it checks the requests with is shown once." placeholder:"URL"`
	Out      string `help:"Write the callback's secret to this new file (0600) instead of stdout." type:"path" placeholder:"FILE"`
	FollowID string `name:"status" help:"Show this erasure instead of asking for one." placeholder:"ID"`
	DryRun   bool   `help:"Say what would be erased, and do nothing."`
	Yes      bool   `help:"Do not ask."`
}

// Run asks for an erasure, or follows one.
func (e eraseRequestCmd) Run(a *app) error {
	if e.FollowID != "" {
		if e.named() {
			return fmt.Errorf("name an execution, or an erasure with --status: %w", blobd.ErrInvalid)
		}
		return eraseStatusCmd{ID: e.FollowID, waitFlags: e.waitFlags}.Run(a)
	}
	scope, err := e.scope(a)
	if err != nil {
		return err
	}
	q, err := e.request(scope)
	if err != nil {
		return err
	}
	if e.Callback != "" {
		q.Callback = &e.Callback
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	if e.DryRun {
		return a.previewErasure(r, q)
	}
	if !e.Yes {
		if err := e.confirm(a, r, q); err != nil {
			return err
		}
	}
	erasure, err := r.Erase(a.ctx, q, "")
	if err != nil {
		return err
	}
	if err := a.keepCallbackSecret(&erasure, e.Out); err != nil {
		return err
	}
	return a.endErasure(r, erasure, e.waitFlags)
}

// keepCallbackSecret writes the secret of a new erasure's callback to a new file, or
// leaves it to be shown.
func (a *app) keepCallbackSecret(e *wire.Erasure, out string) error {
	if out == "" || e.CallbackSecret == "" {
		return nil
	}
	if err := writeNew(out, e.CallbackSecret); err != nil {
		return fmt.Errorf("erasure %s began, and the secret of its callback could not be written down, rotate it: %w", e.ID, err)
	}
	e.CallbackSecret = ""
	return nil
}

// confirm asks for the id of an execution, or for the number of blobs of a wider
// scope, which it shows first.
func (e eraseRequestCmd) confirm(a *app, r *client.Client, q wire.EraseRequest) error {
	switch {
	case len(e.Ref) > 0:
		return a.confirm(fmt.Sprintf("Erase %d blobs of the execution for ever", len(e.Ref)), e.Execution)
	case e.Execution != "":
		return a.confirm("Erase the execution for ever", e.Execution)
	}
	p, err := r.PreviewErasure(a.ctx, q)
	if err != nil {
		return err
	}
	printPreview(a.stderr, p)
	if e.SubjectsFile == "-" { // stdin is used up
		return fmt.Errorf("subjects came from stdin, which cannot be asked: give a file, or --yes: %w", blobd.ErrInvalid)
	}
	return a.confirm("Erase them for ever", strconv.FormatInt(p.Plan.Blobs, 10))
}

type erasePreviewCmd struct{ scopeFlags }

// Run previews.
func (e erasePreviewCmd) Run(a *app) error {
	scope, err := e.scope(a)
	if err != nil {
		return err
	}
	r, err := a.remote()
	if err != nil {
		return err
	}
	return a.previewErasure(r, wire.EraseRequest{Scope: scope, Reason: "preview"})
}

func (a *app) previewErasure(r *client.Client, q wire.EraseRequest) error {
	p, err := r.PreviewErasure(a.ctx, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	printPreview(a.stdout, p)
	return nil
}

func printPreview(w io.Writer, p wire.DryRun) {
	printPlan(w, p.Plan)
	classes := make([]string, 0, len(p.Classes))
	for class := range p.Classes {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	for _, class := range classes {
		fmt.Fprintf(w, "class %s: %d blobs\n", class, p.Classes[class])
	}
	if p.Oldest != nil && p.Newest != nil {
		fmt.Fprintf(w, "captured %s to %s\n", p.Oldest.Format(time.RFC3339), p.Newest.Format(time.RFC3339))
	}
	if c := p.Coverage; c != nil {
		fmt.Fprintf(w, "coverage: %d of %d live blobs are tagged with a subject; %d are not, and no search by subject finds them\n",
			c.Tagged, c.Blobs, c.Untagged)
	}
	for _, k := range p.Kept {
		fmt.Fprintf(w, "stays\t%s\t%s\t%s", idText(k.ExecutionID), k.Ref, k.Outcome)
		if k.Until != nil {
			fmt.Fprintf(w, "\tuntil %s", k.Until.Format(time.RFC3339))
		}
		fmt.Fprintln(w)
	}
	for _, id := range p.Holds {
		fmt.Fprintf(w, "held by %s\n", id)
	}
	fmt.Fprintf(w, "plan %s\n", p.Plan.Digest)
}

func printPlan(w io.Writer, p wire.Plan) {
	fmt.Fprintf(w, "would erase %d executions, %d blobs, %d bytes (already erased %d, not found %d, held %d, floor %d, shared %d)\n",
		p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, p.Held, p.Floor, p.Shared)
}

// erasureCode says how far an erasure got. One that was only asked for is done
// when it is accepted.
func erasureCode(state string) int {
	switch state {
	case "partial":
		return exitPartly
	case "deferred", "denied", "cancelled", "awaiting_approval":
		return exitRefused
	}
	return exitOK
}

// endErasure waits if it should, prints, and ends with the code of the state.
func (a *app) endErasure(r *client.Client, e wire.Erasure, w waitFlags) error {
	if w.Wait {
		var err error
		if e, err = a.waitErased(r, e, w.Timeout); err != nil {
			return err
		}
	}
	if err := a.printErasure(e); err != nil {
		return err
	}
	return status(erasureCode(e.State))
}

// waitErased waits until the erasure will not move by itself any more.
func (a *app) waitErased(r *client.Client, e wire.Erasure, limit time.Duration) (wire.Erasure, error) {
	ctx := a.ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bar := a.total("objects deleted", e.Plan.Blobs)
	defer bar.end()
	secret := e.CallbackSecret // which is in no later answer
	last, err := r.WaitErased(ctx, e.ID, func(e wire.Erasure) { bar.set(e.Progress.ObjectsDeleted) })
	if err != nil {
		return e, fmt.Errorf("erasure %s has not ended: %w", e.ID, err)
	}
	last.CallbackSecret = secret
	return last, nil
}

// decidedText says when an erasure was denied or cancelled, and why it was denied.
func decidedText(e *wire.Erasure) string {
	text := e.State
	if e.DecidedAt != nil {
		text += " at " + e.DecidedAt.Format(time.RFC3339)
	}
	if e.Code != nil {
		text += ": " + *e.Code
	}
	return text
}

func (a *app) printErasure(e wire.Erasure) error {
	if a.json {
		return a.printJSON(e)
	}
	w := a.stdout
	fmt.Fprintf(w, "erasure %s: %s\n", e.ID, e.State)
	fmt.Fprintf(w, "in scope: %d blobs, %d bytes; keys destroyed %d, objects deleted %d, versions deleted %d, failed %d, remaining %d\n",
		e.Plan.Blobs, e.Plan.Bytes, e.Progress.KeysDestroyed, e.Progress.ObjectsDeleted,
		e.Progress.VersionsDeleted, e.Progress.Failed, e.Progress.Remaining)
	if d := e.Delta; d != nil && *d != (wire.Delta{}) {
		fmt.Fprintf(w, "beyond the plan: %+d executions, %+d blobs, %+d bytes\n", d.Executions, d.Blobs, d.Bytes)
	}
	switch e.State {
	case "awaiting_approval":
		fmt.Fprintf(w, "approved by %d of %d; plan %s\n", len(e.ApprovedBy), e.Approvals, e.Plan.Digest)
	case "grace":
		if e.GraceUntil != nil {
			fmt.Fprintf(w, "reads are null; it can be cancelled until %s\n", e.GraceUntil.Format(time.RFC3339))
		}
	case "denied", "cancelled":
		fmt.Fprintln(w, decidedText(&e))
	}
	if e.CallbackSecret != "" {
		fmt.Fprintf(w, "callback secret, shown once: %s\n", e.CallbackSecret)
	}
	for _, i := range e.Items {
		if i.Ref != "" && i.Outcome != "" && i.Outcome != wire.OutcomeErased {
			fmt.Fprintf(w, "stays\t%s\t%s\t%s", idText(i.ExecutionID), i.Ref, i.Outcome)
			if i.Until != nil {
				fmt.Fprintf(w, "\tuntil %s", i.Until.Format(time.RFC3339))
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}
