package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobd/blobd/ledger/sqlite"
)

// seenScript: seen DIR DURATION has a stopped server's ledger say that it last saw the
// time so much later than now: as if the clock had been put back meanwhile.
func seenScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: seen DIR DURATION")
	}
	later, err := time.ParseDuration(args[1])
	ts.Check(err)
	ctx := context.Background()
	l, err := sqlite.Open(filepath.Join(ts.MkAbs(args[0]), ledgerFile), sqlite.Options{Now: time.Now})
	ts.Check(err)
	n, err := l.ClockNote(ctx)
	ts.Check(err)
	if n.Seen.IsZero() {
		ts.Fatalf("the server noted nothing of its clock")
	}
	n.Seen = n.Now.Add(later)
	ts.Check(l.NoteClock(ctx, n, nil))
	ts.Check(l.Close())
}
