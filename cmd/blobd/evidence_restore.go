package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd/evidence"
)

type evidenceRestoreCmd struct {
	exportFlags
	From   string `arg:"" help:"Folder of an exported log, or s3://BUCKET/PREFIX." placeholder:"DIR|URL"`
	DryRun bool   `help:"Check everything, say what would be put back, and do nothing."`
}

// restored is what evidence restore found and did, as JSON.
type restored struct {
	Had       int64 `json:"had"`
	Export    int64 `json:"export"`
	Published int64 `json:"published"`
	PutBack   int64 `json:"putBack"`
	Waited    int64 `json:"waited"`
	HashOnly  int64 `json:"hashOnly"`
}

// Run puts back what the log lost in a rollback of the ledger. Like a start of the
// service it first brings the ledger up to date with its journal.
func (e evidenceRestoreCmd) Run(a *app) (err error) {
	from, closer, err := e.open(a, e.From)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	c, err := a.openStopped()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if !e.DryRun {
		if err := c.store.Start(a.ctx); err != nil {
			return err
		}
	}
	var owner [8]byte
	if _, err := io.ReadFull(rand.Reader, owner[:]); err != nil {
		return err
	}
	bar := a.count("put back")
	r, err := evidence.NewLog(c.ledger, c.journal, c.keys, c.identity.ID).Restore(a.ctx, from, evidence.RestoreOptions{
		Owner: hex.EncodeToString(owner[:]), Now: time.Now, DryRun: e.DryRun, Progress: func(done, _ int64) { bar.set(done) },
	})
	bar.end()
	if err != nil {
		return err
	}
	return a.printRestored(restored(r), e.DryRun)
}

func (a *app) printRestored(r restored, dry bool) error {
	if a.json {
		return a.printJSON(r)
	}
	say := func(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
	say("the ledger's log had %d entries, the export has %d, %d were published", r.Had, r.Export, r.Published)
	switch {
	case r.PutBack == 0:
		say("nothing is missing that the export has")
		return nil
	case dry:
		say("%d would be put back", r.PutBack)
		return nil
	}
	say("%d were put back; %d of them had waited in the ledger", r.PutBack, r.Waited)
	say("free texts of the other %d are lost; of %d only the hash of the body is known", r.PutBack-r.Waited, r.HashOnly)
	return nil
}
