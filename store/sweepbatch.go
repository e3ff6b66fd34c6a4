package store

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
)

// batch takes rows from their keys to their tombstones, as far as they get.
func (w *sweeper) batch(ctx context.Context, rows []ledger.DueRow) error {
	if err := w.o.Wait(ctx, len(rows)); err != nil {
		return err
	}
	if err := w.renew(ctx); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b ledger.DueRow) int { // what is of one execution is listed at once
		if c := bytes.Compare(a.Tag[:], b.Tag[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.Ref[:], b.Ref[:])
	})
	ripe, err := w.expire(ctx, rows)
	if err != nil || len(ripe) == 0 {
		return err
	}
	if err := w.ours(ctx); err != nil {
		return err
	}
	gone, err := w.eraseObjects(ctx, ripe)
	if err != nil {
		return err
	}
	if err := w.ours(ctx); err != nil {
		return err
	}
	if w.Now().Before(w.s.LateUntil) {
		w.late = true // once more, when nothing can be on its way
		return nil
	}
	if len(gone) == 0 {
		return nil
	}
	n, err := w.Ledger.Bury(ctx, w.lease, gone)
	w.s.Erased += int64(n)
	return err
}

// expire drops the keys of what still has one, and makes them unreadable. It returns
// the rows whose objects go.
func (w *sweeper) expire(ctx context.Context, rows []ledger.DueRow) (ripe []ledger.Position, err error) {
	var fresh []ledger.Position
	for i := range rows {
		if rows[i].State == ledger.BlobExpired {
			ripe = append(ripe, rows[i].Position)
		} else {
			fresh = append(fresh, rows[i].Position)
		}
	}
	if len(fresh) == 0 {
		return ripe, nil
	}
	now := w.Now().UTC()
	expired, err := w.Ledger.Expire(ctx, w.lease, ledger.Expiry{
		Rows: fresh, Margin: w.PutMargin,
		Entry: func(rows []ledger.DueRow) (ledger.Entry, error) {
			return w.scribe(w.tenant).SweepBatch(now, w.s.ID, rows)
		},
	})
	if err != nil {
		return nil, err
	}
	for i := range expired {
		ripe = append(ripe, expired[i].Position)
	}
	w.left += int64(len(fresh) - len(expired))
	s, err := w.Ledger.Sweep(ctx, w.s.Tenant, w.s.ID) // until when objects may be written
	if err != nil {
		return nil, err
	}
	w.s.LateUntil = s.LateUntil
	_, err = w.Ledger.Settle(ctx)
	return ripe, err
}

// eraseObjects deletes objects and reads them back. It returns the rows whose
// objects are proved absent; the others are counted as failed. Where the batch as
// a whole has no answer, each is tried alone, so that one never stops the rest; an
// error says that there was no definite answer for any.
func (w *sweeper) eraseObjects(ctx context.Context, rows []ledger.Position) (gone []ledger.Position, err error) {
	gone, refused, err := w.eraseTogether(ctx, rows)
	if err == nil {
		w.refuse(refused...)
		return gone, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	unanswered := 0
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		alone, refused, failure := w.eraseTogether(ctx, []ledger.Position{row})
		if failure != nil {
			if err = failure; indefinite(ctx, failure) {
				unanswered++
			}
			refused = []ledger.Refused{{Ref: row.Ref, Reason: "error"}}
		}
		w.refuse(refused...)
		gone = append(gone, alone...)
	}
	if unanswered == len(rows) { // the store itself is in trouble
		w.failed -= int64(unanswered)
		return nil, err
	}
	return gone, nil
}

// eraseTogether deletes the objects of rows and reads back.
func (w *sweeper) eraseTogether(ctx context.Context, rows []ledger.Position) (gone []ledger.Position, refused []ledger.Refused, err error) {
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = w.blobName(w.tenant, row.Tag, row.Ref)
	}
	scope := backends.Scope{Names: names}
	erased, err := w.Objects.Erase(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	kept := make(map[string]bool, len(erased.Refused))
	for _, r := range erased.Refused {
		kept[r.Name] = true
		refused = append(refused, refusedOf(r))
	}
	left, err := w.Objects.Residue(ctx, scope, len(names)+1)
	if err != nil {
		return nil, nil, err
	}
	if len(left) > len(names) && len(names) > 1 { // whose they are cannot be told
		return nil, nil, errMuchLeft
	}
	for _, o := range left {
		if !kept[o.Name] {
			kept[o.Name] = true
			refused = append(refused, refusedOf(backends.Refusal{Name: o.Name, Version: o.Version, Reason: "present"}))
		}
	}
	for i, row := range rows {
		if !kept[names[i]] {
			gone = append(gone, row)
		}
	}
	return gone, refused, nil
}

func refusedOf(r backends.Refusal) ledger.Refused {
	out := ledger.Refused{Version: r.Version, Reason: r.Reason, Until: r.Until}
	if name, ok := backends.ParseBlobName(r.Name); ok {
		out.Ref = name.Ref
	}
	return out
}

// errMuchLeft says that the store keeps more than a batch can name.
var errMuchLeft = errors.New("many versions are left")

// refuse counts objects that are still there. Several versions of one are one.
func (w *sweeper) refuse(all ...ledger.Refused) {
	seen := make(map[[32]byte]bool, len(all))
	for _, r := range all {
		if !seen[r.Ref] {
			seen[r.Ref] = true
			w.failed++
		}
		if len(w.refused) < ledger.MaxRefused {
			w.refused = append(w.refused, r)
		}
	}
}
