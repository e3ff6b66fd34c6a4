package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd/ledger"
)

// month makes everything that was filled in past its maximum.
func month() ledger.Rule { return ledger.Rule{Maximum: ledger.Period{Days: 30}} }

// captured is when the i-th execution began.
func captured(i int) time.Time { return start().Add(time.Duration(i) * time.Second) }

func listDue(ctx context.Context, l ledger.Ledger, i int) error {
	page, err := l.Due(ctx, ledger.DueQuery{Tenant: tenant, Class: class, From: captured(i), Limit: 256})
	if err == nil && len(page) != 256 {
		err = fmt.Errorf("the page from execution %d on has %d rows", i, len(page))
	}
	return err
}

// sweepsMost is how many batches a round may sweep: a tenth of what is stored.
func sweepsMost(executions int) int { return max(1, executions*BlobsPerExecution/10/ledger.MaxExpiry) }

// sweeper does what a sweep asks of the ledger, batch by batch, from the middle of
// what is stored on.
type sweeper struct {
	ledger     ledger.Ledger
	executions int
	round      int
	lease      ledger.SweepLease
	after      ledger.DueCursor
}

// begin sets the policy, and starts, claims and plans a sweep.
func (w *sweeper) begin(ctx context.Context) error {
	now := time.Now()
	entry := ledger.Entry{Tenant: tenant, Kind: ledger.EntrySweep, At: now, Body: []byte(`{"step":"started"}`)}
	policy := ledger.Policy{Tenant: tenant, Class: class, At: now, Existing: true, By: "token-of-the-officer", Rule: month()}
	if err := w.ledger.SetPolicy(ctx, policy, entry); err != nil {
		return err
	}
	if w.round > 0 {
		if err := w.endLast(ctx, now); err != nil {
			return err
		}
	}
	id := fmt.Sprintf("sweep-of-round-%d", w.round)
	if _, err := w.ledger.StartSweep(ctx, ledger.NewSweep{ID: id, Tenant: tenant, Trigger: ledger.TriggerManual, RunAt: now, Entry: entry}); err != nil {
		return err
	}
	job, err := w.ledger.ClaimSweep(ctx, "scale", now, now.Add(time.Hour))
	if err != nil {
		return err
	}
	w.lease = job.Lease
	return w.ledger.MoveSweep(ctx, w.lease, ledger.SweepMove{
		To: ledger.SweepRunning, At: now, Plan: new(ledger.Tally), Until: now.Add(time.Hour),
	})
}

// from is the first execution whose time is swept: with enough of them, nothing
// that a later round reads was captured so late.
func (w *sweeper) from() int {
	if w.executions < 10*BlobsPerExecution {
		return w.executions / 2
	}
	return w.executions/2 + BlobsPerExecution
}

// endLast ends the sweep of the round before, whose lease is over in two hours.
func (w *sweeper) endLast(ctx context.Context, now time.Time) error {
	job, err := w.ledger.ClaimSweep(ctx, "scale", now.Add(2*time.Hour), now.Add(3*time.Hour))
	if err != nil {
		return err
	}
	return w.ledger.MoveSweep(ctx, job.Lease, ledger.SweepMove{To: ledger.SweepDone, At: now})
}

// batch lists, expires and buries as many rows as one batch may have.
func (w *sweeper) batch(ctx context.Context, k int) error {
	if k == 0 {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	page, err := w.ledger.Due(ctx, ledger.DueQuery{
		Tenant: tenant, Class: class, From: captured(w.from()), After: w.after, Limit: ledger.MaxExpiry,
	})
	if err != nil {
		return err
	}
	rows := make([]ledger.Position, len(page))
	for i := range page {
		rows[i] = page[i].Position
	}
	expired, err := w.ledger.Expire(ctx, w.lease, ledger.Expiry{Rows: rows, Margin: time.Minute, Entry: func(all []ledger.DueRow) (ledger.Entry, error) {
		return scribe().SweepBatch(time.Now(), w.lease.SweepID, all)
	}})
	if err != nil {
		return err
	}
	buried, err := w.ledger.Bury(ctx, w.lease, rows)
	if err == nil && (len(expired) != ledger.MaxExpiry || buried != ledger.MaxExpiry) {
		err = fmt.Errorf("of %d rows %d expired and %d were buried", len(rows), len(expired), buried)
	}
	if len(page) > 0 {
		w.after = page[len(page)-1].Cursor()
	}
	return err
}
