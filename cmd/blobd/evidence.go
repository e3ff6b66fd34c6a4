package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// keepLog builds the evidence log and gives its sequencer to the workers.
func (s *service) keepLog(owner string, now func() time.Time, log *slog.Logger) *evidence.Log {
	l := evidence.NewLog(s.ledger, s.journal, s.keys, s.identity.ID)
	sequencer := evidence.NewSequencer(l, owner, now, log)
	s.workers = append(s.workers, func(ctx context.Context) error { return sequencer.Run(ctx, s.store.Serving) })
	return l
}

// horizons tells certificates when backups become useless. A keyring in the data
// folder goes wherever the ledger's backups go: then there is no date.
func (c *core) horizons() evidence.Horizons {
	if c.config.Keys == "local" {
		return nil
	}
	return storeHorizons{c.store}
}

type storeHorizons struct{ store *store.Store }

// Horizon implements evidence.Horizons.
func (h storeHorizons) Horizon(ctx context.Context, e ledger.Erasure) (time.Time, bool, error) {
	at, err := h.store.Horizon(ctx, e)
	return at.At, at.Reached, err
}

type evidenceCmd struct {
	Verify      evidenceVerifyCmd      `cmd:"" help:"Check certificates, or an exported log, without a server."`
	Export      evidenceExportCmd      `cmd:"" help:"Copy the log to a folder or bucket, or bring a copy up to date (role operator)."`
	Restore     evidenceRestoreCmd     `cmd:"" help:"After a rollback of the ledger: put back what the log lost, out of an exported log."`
	Certificate evidenceCertificateCmd `cmd:"" help:"Get the certificate of an erasure."`
	Key         evidenceKeyCmd         `cmd:"" help:"Print the public key that verify takes."`
}

type evidenceVerifyCmd struct {
	exportFlags
	Key         string   `required:"" help:"File with the log's public key, got when it was trusted: see evidence key." type:"path" placeholder:"FILE"`
	Log         string   `help:"Folder of an exported log, or s3://BUCKET/PREFIX: check all of it, and that it holds the certificates' entries." placeholder:"DIR|URL"`
	Since       []string `help:"Checkpoint that was kept: check that the log of --log continues it." type:"path" placeholder:"FILE"`
	Certificate []string `arg:"" optional:"" help:"Certificates, as JSON." type:"path"`
}

// verified is what verify found, as JSON.
type verified struct {
	OK           bool                  `json:"ok"`
	Certificates []verifiedCertificate `json:"certificates"`
	LogSize      *int64                `json:"logSize,omitempty"`
	LogError     string                `json:"logError,omitempty"`
}

type verifiedCertificate struct {
	File     string `json:"file"`
	OK       bool   `json:"ok"`
	Erasure  string `json:"erasure,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Outcome  string `json:"outcome,omitempty"`
	ErasedAt string `json:"erasedAt,omitempty"`
	Index    int64  `json:"index"`
	Error    string `json:"error,omitempty"`

	leaf []byte
}

// Run checks everything that was named, and says so of each.
func (e evidenceVerifyCmd) Run(a *app) error {
	if len(e.Certificate) == 0 && e.Log == "" || len(e.Since) > 0 && e.Log == "" {
		return fmt.Errorf("name certificates, or a log with --log: %w", blobd.ErrInvalid)
	}
	key, err := readKey(e.Key)
	if err != nil {
		return err
	}
	v, err := evidence.ParseVerifier(key)
	if err != nil {
		return err
	}
	out := verified{OK: true, Certificates: []verifiedCertificate{}}
	for _, file := range e.Certificate {
		c := verifyCertificate(file, key)
		out.OK = out.OK && c.OK
		out.Certificates = append(out.Certificates, c)
	}
	if e.Log != "" {
		size, err := e.verifyLog(a, v, out.Certificates)
		if err != nil {
			out.OK, out.LogError = false, err.Error()
		} else {
			out.LogSize = &size
		}
	}
	if err := a.printVerified(out); err != nil {
		return err
	}
	if !out.OK {
		return status(exitError)
	}
	return nil
}

func verifyCertificate(file, key string) verifiedCertificate {
	out := verifiedCertificate{File: file}
	b, err := os.ReadFile(file)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	c, err := evidence.VerifyCertificate(b, key)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.OK, out.Erasure, out.Tenant = true, c.Statement.Erasure, c.Statement.Tenant
	out.Outcome = cmp.Or(c.Statement.Outcome, evidence.OutcomeErased)
	out.ErasedAt, out.Index, out.leaf = c.Statement.ErasedAt.Format(time.RFC3339), c.Log.Index, c.Log.Leaf
	return out
}

// verifyLog checks the export, and that it holds the certificates' entries at
// their places.
func (e evidenceVerifyCmd) verifyLog(a *app, v note.Verifier, certificates []verifiedCertificate) (size int64, err error) {
	want := make(map[int64][]byte)
	for _, c := range certificates {
		if c.OK {
			want[c.Index] = c.leaf
		}
	}
	o := evidence.VerifyOptions{Leaf: func(index int64, leaf []byte) error {
		if known, asked := want[index]; asked {
			if string(known) != string(leaf) {
				return fmt.Errorf("entry %d is not that of its certificate: %w", index, blobd.ErrCorrupt)
			}
			delete(want, index)
		}
		return nil
	}}
	for _, file := range e.Since {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		c, err := evidence.OpenCheckpoint(b, v)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		o.Since = append(o.Since, c)
	}
	from, closer, err := e.open(a, e.Log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	bar := a.count("checked")
	o.Progress = func(done, _ int64) { bar.set(done) }
	c, err := evidence.VerifyExport(a.ctx, from, v, o)
	bar.end()
	if err != nil {
		return 0, err
	}
	for index := range want {
		return 0, fmt.Errorf("the log ends at %d, before entry %d of a certificate: %w", c.Size, index, blobd.ErrNotFound)
	}
	return c.Size, nil
}

func (a *app) printVerified(v verified) error {
	if a.json {
		return a.printJSON(v)
	}
	for _, c := range v.Certificates {
		if c.OK {
			fmt.Fprintf(a.stdout, "ok    %s: erasure %s of tenant %s, %s %s, entry %d\n", c.File, c.Erasure, c.Tenant, c.Outcome, c.ErasedAt, c.Index)
		} else {
			fmt.Fprintf(a.stdout, "WRONG %s: %s\n", c.File, c.Error)
		}
	}
	if v.LogSize != nil {
		fmt.Fprintf(a.stdout, "ok    log of %d entries\n", *v.LogSize)
	}
	if v.LogError != "" {
		fmt.Fprintf(a.stdout, "WRONG log: %s\n", v.LogError)
	}
	return nil
}
