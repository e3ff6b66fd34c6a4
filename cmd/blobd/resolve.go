package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

type resolveCmd struct {
	Execution     string   `arg:"" help:"Execution id."`
	Refs          []string `arg:"" name:"ref" help:"One ref: its bytes are printed. More than one: JSON is printed."`
	Step          string   `help:"Step id, recorded." placeholder:"ID"`
	Origin        string   `help:"Who asks, recorded." placeholder:"NAME"`
	DigestFile    string   `help:"File with the expected digest (64 hex digits) of the one ref; another digest is a null." type:"path" placeholder:"FILE"`
	PrincipalFile string   `help:"File with the principal (JSON) that the text would be shown to." type:"path" placeholder:"FILE"`
	Out           string   `help:"Write the bytes here; - is stdout." default:"-" placeholder:"FILE"`
}

// Run prints the exact bytes, or ends with the code of a definitive null. One
// null among several refs is partly done.
func (r resolveCmd) Run(a *app) error {
	remote, err := a.remote()
	if err != nil {
		return err
	}
	request, err := r.request()
	if err != nil {
		return err
	}
	if len(r.Refs) == 1 && !a.json {
		return r.one(a, remote, request)
	}
	answer, err := remote.ResolveBatch(a.ctx, r.Execution, request)
	if err != nil {
		return err
	}
	if err := a.printJSON(answer); err != nil {
		return err
	}
	return status(nulls(answer))
}

func (r resolveCmd) one(a *app, remote *client.Client, q wire.ResolveRequest) error {
	want := client.Resolve{StepID: r.Step, Origin: r.Origin, Principal: q.Principal}
	if d := q.Parts[0].Digest; d != nil {
		want.Digest = *d
	}
	blob, err := remote.Resolve(a.ctx, r.Execution, r.Refs[0], want)
	if err != nil {
		return err
	}
	defer clear(blob.Bytes)
	if r.Out == "-" {
		_, err := a.stdout.Write(blob.Bytes)
		return err
	}
	return os.WriteFile(r.Out, blob.Bytes, 0o600)
}

func (r resolveCmd) request() (wire.ResolveRequest, error) {
	q := wire.ResolveRequest{StepID: r.Step, Origin: r.Origin}
	for _, ref := range r.Refs {
		q.Parts = append(q.Parts, wire.ResolvePart{Ref: ref})
	}
	if r.DigestFile != "" {
		if len(q.Parts) != 1 {
			return q, fmt.Errorf("--digest-file goes with one ref: %w", blobd.ErrInvalid)
		}
		b, err := os.ReadFile(r.DigestFile)
		if err != nil {
			return q, err
		}
		digest := strings.TrimSpace(string(b))
		q.Parts[0].Digest = &digest
	}
	if r.PrincipalFile != "" {
		b, err := os.ReadFile(r.PrincipalFile)
		if err != nil {
			return q, err
		}
		q.Principal = new(blobd.Principal)
		if err := strictJSON(b, q.Principal); err != nil {
			return q, err
		}
	}
	return q, nil
}

// nulls is the exit code of an answer.
func nulls(answer wire.Resolved) int {
	null := 0
	for _, p := range answer.Parts {
		if p.Status == wire.StatusNull {
			null++
		}
	}
	switch null {
	case 0:
		return exitOK
	case len(answer.Parts):
		return exitNull
	}
	return exitPartly
}
