package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/evidence"
)

type evidenceExportCmd struct {
	Dir    string        `arg:"" help:"Folder, outside what holds the ledger's backups." type:"path"`
	Key    string        `help:"File with the log's public key; else the server's own is taken and kept in the folder." type:"path" placeholder:"FILE"`
	Follow bool          `help:"Go on, until told to end."`
	Every  time.Duration `help:"With --follow: how long to wait between two looks." default:"10s" placeholder:"DURATION"`
}

// keyFile is where an export keeps the key that it first met.
const keyFile = "key"

// Run exports once, or until the end.
func (e evidenceExportCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	v, err := e.verifier(a, r.EvidenceKey)
	if err != nil {
		return err
	}
	for {
		c, err := evidence.Export(a.ctx, r, v, e.Dir)
		if err != nil {
			return err
		}
		if err := a.printExported(c); err != nil || !e.Follow {
			return err
		}
		wait := time.NewTimer(e.Every)
		select {
		case <-a.ctx.Done():
			wait.Stop()
			return nil
		case <-wait.C:
		}
	}
}

// verifier takes the key that was named, the one that the folder knows, or, for
// a new folder, the server's.
func (e evidenceExportCmd) verifier(a *app, ask func(context.Context) (string, error)) (note.Verifier, error) {
	kept := filepath.Join(e.Dir, keyFile)
	file := e.Key
	if file == "" {
		file = kept
	}
	b, err := os.ReadFile(file)
	if err == nil {
		return evidence.ParseVerifier(string(b))
	}
	if e.Key != "" || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text, err := ask(a.ctx)
	if err != nil {
		return nil, err
	}
	v, err := evidence.ParseVerifier(text)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return nil, err
	}
	return v, os.WriteFile(kept, []byte(strings.TrimSpace(text)+"\n"), 0o600)
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
