package store

import (
	"context"
	"errors"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// An erasure that could not fence at once has closed its scope: reads are null and
// puts are refused, and nothing is dropped until its job runs. The job is
//
//	journal → fence, if nothing is protected by now
//	        → else a pass: drop the keys of what is not, page by page
//	        → settle → delete the objects of what was dropped, by their names
//	        → margin → read back → tombstones
//	        → finish, or defer with what is left
//
// Each step can be repeated after a crash: what was dropped is listed with the
// erasure until it is a tombstone, and a pass that begins anew finds it erased.

// dropPage is how many rows one step of a pass looks at. Its entry of evidence fits
// into a leaf of the log.
const dropPage = 256

// closed goes on from a closing.
func (w *eraser) closed(ctx context.Context) error {
	if fenced, err := w.fenceNow(ctx); err != nil || fenced {
		return w.thenFenced(ctx, err)
	}
	left, err := w.pass(ctx)
	if err != nil {
		return err
	}
	deleted, err := w.clear(ctx)
	if err != nil || !deleted {
		return err
	}
	if left.rows() > 0 {
		return w.leave(ctx, left)
	}
	if !w.job.Erasure.Scope.Form().Fenceable() {
		w.p.Settled, w.p.Swept = true, true
		return w.finish(ctx)
	}
	// What protected something went meanwhile.
	if fenced, err := w.fenceNow(ctx); err != nil || fenced {
		return w.thenFenced(ctx, err)
	}
	return w.Ledger.Postpone(ctx, w.job.Lease, w.Now().UTC().Add(time.Second), w.unsettled(), nil)
}

func (w *eraser) thenFenced(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return w.fenced(ctx)
}

// fenceNow fences the scope in one transaction, if its form allows and nothing in it
// is protected.
func (w *eraser) fenceNow(ctx context.Context) (bool, error) {
	if !w.job.Erasure.Scope.Form().Fenceable() {
		return false, nil
	}
	entry, err := w.entry(evidence.ErasureStep{Step: evidence.StepFenced, PlanDigest: digestText(w.job.Erasure.PlanDigest)})
	if err != nil {
		return false, err
	}
	if w.job.Erasure.Scope.WholeTenant {
		defer w.forgetTenant(w.tenant.ID) // the fence may stand, whatever is answered
	}
	e, record, err := w.Ledger.FenceClosed(ctx, w.job.Lease, micro(w.Now()), []ledger.Entry{entry})
	if errors.Is(err, blobd.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.job.Erasure = e
	w.keepsNothing()
	w.forgetFenced(e)
	return true, w.publish(ctx, record)
}

// leftover is what a pass found protected.
type leftover struct {
	held, floor int64
	kept        []ledger.Kept
	extent      ledger.Extent            // by row, for forms that nothing fences
	seen        map[ledger.Position]bool // of several subjects, who share rows
	dated       time.Time                // the earliest end of a floor; zero: none is known
	undated     bool
}

func (l *leftover) rows() int64 { return l.held + l.floor }

func (l *leftover) add(k ledger.Kept) {
	if l.seen != nil {
		if l.seen[k.Position] {
			return
		}
		l.seen[k.Position] = true
	}
	l.extent = l.extent.Plus(k.Extent)
	switch {
	case k.Verdict == ledger.VerdictHeld:
		l.held++
	default:
		l.floor++
	}
	switch {
	case k.Until.IsZero():
		l.undated = true
	case l.dated.IsZero() || k.Until.Before(l.dated):
		l.dated = k.Until
	}
	if len(l.kept) < ledger.MaxKept {
		l.kept = append(l.kept, k)
	}
}

// pass goes once over the scope and drops the keys of what nothing protects.
func (w *eraser) pass(ctx context.Context) (*leftover, error) {
	scope := w.job.Erasure.Scope
	left := new(leftover)
	if len(scope.Subjects) > 1 {
		left.seen = make(map[ledger.Position]bool)
	}
	for after := (ledger.ScopeCursor{}); ; {
		if err := w.renew(ctx); err != nil {
			return nil, err
		}
		now := micro(w.Now())
		d, err := w.Ledger.Drop(ctx, w.job.Lease, ledger.Drop{
			After: after, At: now, Limit: dropPage,
			Entry: func(dropped []ledger.DueRow) (ledger.Entry, error) {
				return w.scribe(w.tenant).Dropped(now, scope, w.job.Erasure.ID, dropped)
			},
		})
		if err != nil {
			return nil, err
		}
		for _, k := range d.Kept {
			left.add(k)
		}
		if after = d.Next; after == (ledger.ScopeCursor{}) {
			return left, nil
		}
	}
}

// clear takes what was dropped to its tombstones, and reports whether that was done;
// false: it waits for the margin.
func (w *eraser) clear(ctx context.Context) (bool, error) {
	e, err := w.Ledger.Erasure(ctx, w.tenant.ID, w.job.Erasure.ID)
	if err != nil {
		return false, err
	}
	w.job.Erasure.Dropped, w.job.Erasure.Drops = e.Dropped, e.Drops
	rows, err := w.Ledger.DroppedRows(ctx, e.ID, ledger.Position{}, 1)
	if err != nil {
		return false, err
	}
	if len(rows) > 0 || e.Dropped > 0 { // also where a run that was cut short had come past it
		residuals, err := w.Ledger.Settle(ctx)
		if err != nil {
			return false, err
		}
		w.p.Residuals = append(residuals, w.Residuals...)
		w.p.KeysDestroyed = e.Dropped
	}
	if len(rows) == 0 {
		return true, nil
	}
	w.keepsNothing() // until this pass is over nobody knows
	if err := w.deleteObjects(ctx, w.eachDropped); err != nil {
		return false, err
	}
	if late := w.late(); w.Now().Before(late) {
		return false, w.postpone(ctx, late)
	}
	if err := w.provedAbsent(ctx, w.eachDropped); err != nil {
		return false, err
	}
	return true, w.tombstones(ctx)
}

// eachDropped visits the deletions of what was dropped: exact names, in batches.
func (w *eraser) eachDropped(ctx context.Context, use func(backends.Scope) error) error {
	for after := (ledger.Position{}); ; {
		rows, err := w.Ledger.DroppedRows(ctx, w.job.Erasure.ID, after, eraseBatch)
		if err != nil {
			return err
		}
		names := make([]string, len(rows))
		for i, row := range rows {
			names[i] = w.blobName(w.tenant, row.Tag, row.Ref)
			after = row
		}
		if len(names) > 0 {
			if err := use(backends.Scope{Names: names}); err != nil {
				return err
			}
		}
		if len(rows) < eraseBatch {
			return nil
		}
	}
}

// leave defers the erasure with what is protected. A hold that was lifted since this
// run began makes it due all the same: the ledger sees to that.
func (w *eraser) leave(ctx context.Context, left *leftover) error {
	due := tryAgain(w.Now().UTC(), left.dated, left.undated)
	told := w.p.Held == left.held && w.p.Floor == left.floor && w.job.Erasure.Progress.KeysDestroyed == w.p.KeysDestroyed
	// The run's own progress has none of it until it is deferred: what an interrupted run
	// keeps must not pass for told.
	p := w.unsettled()
	p.Held, p.Floor, p.Kept, p.Remaining, p.LastError = left.held, left.floor, left.kept, left.rows(), ""
	var err error
	if p.Left, err = w.left(ctx, left); err != nil {
		return err
	}
	var entries []ledger.Entry
	if !told {
		step := evidence.ErasureStep{Step: evidence.StepDeferred, Until: &due, Delta: w.delta(ledger.ErasureDeferred, p)}
		entry, err := w.entryOf(step, p)
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	if err := w.Ledger.Defer(ctx, w.job.Lease, due, p, entries); err != nil {
		return err
	}
	w.p = p
	return nil
}

// left counts what a pass left, in the measure of the plan: of what a fence will take,
// as the fence counts.
func (w *eraser) left(ctx context.Context, left *leftover) (ledger.Extent, error) {
	scope := w.job.Erasure.Scope
	if !scope.Form().Fenceable() {
		return left.extent, nil
	}
	if w.job.Erasure.OfRefs {
		var err error
		if scope.Refs, err = w.Ledger.ErasedRefs(ctx, w.job.Erasure.ID); err != nil {
			return ledger.Extent{}, err
		}
	}
	plan, err := w.Ledger.Plan(ctx, scope)
	return plan.Extent(), err
}

// keepsNothing takes back what the last pass left.
func (w *eraser) keepsNothing() {
	w.p.Held, w.p.Floor, w.p.Kept, w.p.Left = 0, 0, nil, ledger.Extent{}
}

// Waiting reports whether an erasure that its worker has claimed is deferred all the
// same: its scope was seen to be protected, and this run has dropped nothing more yet.
// People are told so, and can cancel it: that a worker looks again is no news.
func Waiting(e *ledger.Erasure) bool {
	if e.State != ledger.ErasureRunning || !e.Closing || e.Progress.Failed > 0 || e.Dropped != e.Progress.KeysDestroyed {
		return false
	}
	if e.Progress.Held+e.Progress.Floor > 0 {
		return true
	}
	kept := e.Plan.Held + e.Plan.Floor
	return e.Dropped == 0 && kept > 0 && kept >= e.Plan.Blobs
}

// unsettled is the progress of an erasure that may drop more keys: they are settled
// anew then.
func (w *eraser) unsettled() ledger.Progress {
	p := w.p
	p.Settled = false
	return p
}

// retryKept is how long an erasure waits when nothing says when what is protected may
// go: lifting a hold or setting a policy makes it due at once all the same.
const retryKept = 24 * time.Hour

// tryAgain is when an erasure that left something protected is tried again: when the
// first floor ends, or, if some has no such date, in a day at the latest.
func tryAgain(now, floor time.Time, undated bool) time.Time {
	day := now.Add(retryKept)
	if floor.IsZero() || undated && day.Before(floor) {
		return day
	}
	return floor
}
