package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/evidence"
)

type evidenceExportCmd struct {
	exportFlags
	To     string        `arg:"" help:"Folder, or s3://BUCKET/PREFIX, outside what holds the ledger's backups." placeholder:"DIR|URL"`
	Key    string        `help:"File with the log's public key; else the server's own is taken and kept beside the log." type:"path" placeholder:"FILE"`
	Follow bool          `help:"Go on, until told to end; who does not answer is asked again."`
	Every  time.Duration `help:"With --follow: how long to wait between two looks." default:"10s" placeholder:"DURATION"`
}

// Run exports once, or until the end.
func (e evidenceExportCmd) Run(a *app) (err error) {
	r, err := a.remote()
	if err != nil {
		return err
	}
	to, closer, err := e.open(a, e.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	if err := e.once(a, r, to); err != nil || !e.Follow {
		return err // at first whatever is the matter is told: most often a setting
	}
	for {
		wait := time.NewTimer(e.Every)
		select {
		case <-a.ctx.Done():
			wait.Stop()
			return nil
		case <-wait.C:
		}
		switch err := e.once(a, r, to); {
		case err == nil, a.ctx.Err() != nil:
		case passes(err):
			fmt.Fprintln(a.stderr, "blobd: export:", err)
		default:
			return err
		}
	}
}

// passes reports whether what is the matter may be over by the next look: nobody
// answered. What does not fit, or is damaged, is for a person to look at.
func passes(err error) bool {
	return exitCode(err) == exitUnsure && !errors.Is(err, evidence.ErrOtherHistory) && !errors.Is(err, blobd.ErrCorrupt) &&
		!errors.Is(err, client.ErrDamaged)
}

func (e evidenceExportCmd) once(a *app, r *client.Client, to evidence.Place) error {
	v, err := e.verifier(a.ctx, to, r.EvidenceKey)
	if err != nil {
		return err
	}
	c, err := evidence.Export(a.ctx, r, v, to)
	if err != nil {
		return err
	}
	return a.printExported(c)
}

// verifier takes the key that was named, the one that is kept beside the log, or, for
// a new place, the server's.
func (e evidenceExportCmd) verifier(ctx context.Context, to evidence.Place, ask func(context.Context) (string, error)) (note.Verifier, error) {
	if e.Key != "" {
		text, err := readKey(e.Key)
		if err != nil {
			return nil, err
		}
		return evidence.ParseVerifier(text)
	}
	kept, err := to.Read(ctx, keptKey)
	if err == nil {
		return evidence.ParseVerifier(string(kept))
	}
	if !errors.Is(err, blobd.ErrNotFound) {
		return nil, err
	}
	text, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	v, err := evidence.ParseVerifier(text)
	if err != nil {
		return nil, err
	}
	return v, to.Write(ctx, keptKey, []byte(strings.TrimSpace(text)+"\n"))
}

func (a *app) printExported(c evidence.Checkpoint) error {
	if a.json {
		return a.printJSON(map[string]any{"size": c.Size, "rootHash": c.Root.String()})
	}
	_, err := fmt.Fprintf(a.stdout, "exported %d entries\n", c.Size)
	return err
}

type evidenceCertificateCmd struct {
	Erasure string `arg:"" help:"Id of the erasure."`
	PDF     bool   `name:"pdf" help:"For people; what verifies is the JSON."`
	Out     string `help:"File to write (default: standard output)." type:"path" placeholder:"FILE"`

	Wait time.Duration `help:"Wait so long for the erasure to be done and in the log (default: not at all)." placeholder:"DURATION"`
}

// Run gets a certificate.
func (e evidenceCertificateCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	get := r.Certificate
	if e.PDF {
		get = r.CertificatePDF
	}
	b, err := e.get(a.ctx, get)
	if err != nil {
		return err
	}
	if e.Out != "" {
		return os.WriteFile(e.Out, b, 0o600)
	}
	_, err = a.stdout.Write(b)
	return err
}

// certificatePoll is how often a certificate that is waited for is asked for.
const certificatePoll = 500 * time.Millisecond

// get asks again while the answer is "not yet" and the wait lasts.
func (e evidenceCertificateCmd) get(ctx context.Context, get func(context.Context, string) ([]byte, error)) ([]byte, error) {
	late := time.After(max(e.Wait, 0))
	for {
		b, err := get(ctx, e.Erasure)
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Problem.Code != wire.CodeConflict || e.Wait <= 0 {
			return b, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, err
		case <-time.After(certificatePoll):
		}
	}
}

type evidenceKeyCmd struct{}

// Run prints the log's public key.
func (evidenceKeyCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	key, err := r.EvidenceKey(a.ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"key": key})
	}
	_, err = fmt.Fprintln(a.stdout, key)
	return err
}
