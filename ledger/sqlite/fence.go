package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// scope is what an erasure's scope holds at one moment.
type scope struct {
	ledger.Scope
	ofRefs       bool
	refs         []blobd.Ref // sorted, each once
	known        bool        // the execution has a row
	tenantKnown  bool        // the tenant has a row
	fenced       bool        // the tenant was off-boarded
	state        ledger.ExecutionState
	n            int64  // of the execution
	wrap         uint32 // see ledger.Erasure
	blobs, bytes int64  // live in the execution
	rows         []scopeRow
	missing      []blobd.Ref // refs without a row
	named        []blobd.Ref // refs whose rows it erases or finds erased
	plan         ledger.Plan
}

// scopeRow is the row of a named ref that a fence would erase.
type scopeRow struct {
	ref   blobd.Ref
	state ledger.BlobState
	size  int64
}

// readScope counts what a scope holds. For a whole execution it reads one row, and
// so it does for a whole tenant, unless counted.
func readScope(ctx context.Context, c *conn, s ledger.Scope, ofRefs, counted bool) (*scope, error) {
	sc := &scope{Scope: s, ofRefs: ofRefs, refs: sortedRefs(s.Refs)}
	if s.WholeTenant {
		return sc, sc.readTenant(ctx, c, counted)
	}
	if !s.Form().Fenceable() {
		_, err := c.one(ctx, "SELECT minimum_wrap, fenced_at FROM tenants WHERE id = ?",
			func(r *row) { sc.wrap, sc.tenantKnown, sc.fenced = uint32(r.int(0)), true, !r.null(1) }, s.Tenant)
		return sc, err
	}
	var tenant string
	var err error
	sc.known, err = c.one(ctx, `SELECT e.tenant, e.state, e.n, e.blobs, e.bytes,
		ifnull(e.key_version, (SELECT ifnull(max(wrap), 0) FROM erasures WHERE execution_tag = e.tag))
		FROM executions e WHERE e.tag = ?`,
		func(r *row) {
			tenant, sc.state, sc.n = r.text(0), ledger.ExecutionState(r.int(1)), r.int(2)
			sc.blobs, sc.bytes, sc.wrap = r.int(3), r.int(4), uint32(r.int(5))
		}, s.Tag[:])
	if err == nil {
		_, err = c.one(ctx, "SELECT minimum_wrap, fenced_at FROM tenants WHERE id = ?", func(r *row) {
			sc.tenantKnown, sc.fenced = true, !r.null(1)
			if !sc.known {
				sc.wrap = uint32(r.int(0))
			}
		}, s.Tenant)
	}
	if err == nil && sc.known && tenant != s.Tenant {
		err = fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	if ofRefs {
		return sc, sc.readRefs(ctx, c)
	}
	switch {
	case sc.erased():
		sc.plan.AlreadyErased = 1
	case !sc.known:
		sc.plan.NotFound = 1
	default:
		sc.plan = ledger.Plan{Executions: 1, Blobs: sc.blobs, Bytes: sc.bytes}
	}
	return sc, nil
}

// erased reports whether the execution is, or its tenant.
func (sc *scope) erased() bool { return sc.fenced || sc.state == ledger.ExecutionErased }

func (sc *scope) readRefs(ctx context.Context, c *conn) error {
	erased := sc.erased()
	for _, ref := range sc.refs {
		b := scopeRow{ref: ref}
		found, err := c.one(ctx, "SELECT state, size FROM blobs WHERE execution_tag = ? AND ref = ?",
			func(r *row) { b.state, b.size = ledger.BlobState(r.int(0)), r.int(1) },
			sc.Tag[:], ref[:])
		if err != nil {
			return err
		}
		if found && b.state != ledger.BlobCollected { // what was collected never was a blob
			sc.named = append(sc.named, ref)
		}
		switch {
		case erased || b.state == ledger.BlobErased:
			sc.plan.AlreadyErased++
		case !found:
			sc.missing = append(sc.missing, ref)
			sc.plan.NotFound++
		case b.state == ledger.BlobCollected:
			sc.plan.NotFound++
		default:
			sc.rows = append(sc.rows, b)
			sc.plan.Blobs++
			sc.plan.Bytes += b.size
		}
	}
	return nil
}

// Plan implements ledger.Erasures.
func (l *Ledger) Plan(ctx context.Context, s ledger.Scope) (p ledger.Plan, err error) {
	if err := s.Check(); err != nil {
		return p, classify("plan", err)
	}
	if !s.Form().Fenceable() {
		return p, classify("plan", fmt.Errorf("no fence is of this form: %w", blobd.ErrInvalid))
	}
	err = l.snapshot(ctx, "plan", func(c *conn) error {
		sc, err := readScope(ctx, c, s, len(s.Refs) > 0, true)
		if err == nil {
			p = sc.plan
		}
		return err
	})
	return p, err
}

// Fence implements ledger.Erasures.
func (l *Ledger) Fence(ctx context.Context, f ledger.Fence) (e ledger.Erasure, rec ledger.Record, err error) {
	if f.ID == "" {
		return e, rec, classify("fence", fmt.Errorf("no erasure id: %w", blobd.ErrInvalid))
	}
	if err := f.Scope.Check(); err != nil {
		return e, rec, classify("fence", err)
	}
	if err := f.CheckCallback(); err != nil {
		return e, rec, classify("fence", err)
	}
	f.Scope = storedScope(f.Scope)
	err = l.write(ctx, "fence", func(w *conn) error {
		known, err := l.factsOn(ctx, w)
		if err != nil {
			return err
		}
		e, rec, err = fence(ctx, w, known, f)
		return err
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

func fence(ctx context.Context, w *conn, known *facts, f ledger.Fence) (e ledger.Erasure, rec ledger.Record, err error) {
	e, rec, again, err := firstFence(ctx, w, f)
	if again || err != nil {
		return e, rec, err
	}
	sc, err := readScope(ctx, w, f.Scope, len(f.Scope.Refs) > 0, false)
	if err != nil {
		return e, rec, err
	}
	t := turn{
		id: f.ID, by: f.RequestedBy, at: f.At, runAt: f.RunAt, graceUntil: f.GraceUntil, deferUntil: f.DeferUntil,
		fenced: f.Entries, closed: f.Closed,
	}
	may, err := mayFence(ctx, w, known, f.Scope, &t, f.Strict)
	if err != nil {
		return e, rec, err
	}
	awaits := f.Approvals > 0
	if (awaits || !may || f.Callback != nil) && !sc.tenantKnown {
		return e, rec, fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	planned := f.PlanDigest != [32]byte{} && (awaits || !may)
	seq, err := insertErasure(ctx, w, sc, f, planned)
	switch {
	case err != nil:
		return e, rec, err
	case awaits:
		err = appendEntries(ctx, w, f.Asked...)
	default:
		rec, err = proceed(ctx, w, sc, seq, t, may)
	}
	if err == nil && f.Callback != nil {
		if err = insertWebhook(ctx, w, &f.Callback.Webhook); err == nil {
			err = appendEntries(ctx, w, f.Callback.Entry)
		}
	}
	if err != nil {
		return e, rec, err
	}
	e, _, err = erasureByID(ctx, w, f.ID)
	return e, rec, err
}

// firstFence returns what this id's fence was answered before.
func firstFence(ctx context.Context, w *conn, f ledger.Fence) (e ledger.Erasure, rec ledger.Record, again bool, err error) {
	again, err = w.one(ctx, "SELECT "+erasureColumns+", j.body FROM erasures LEFT JOIN journal j ON j.seq = record WHERE id = ?",
		func(r *row) {
			if e = r.erasure(); !r.null(erasureColumnCount) {
				rec = r.record(erasureColumnCount)
			}
		}, f.ID)
	if err != nil {
		return e, rec, again, err
	}
	if !again {
		order, err := w.one(ctx, "SELECT 1 FROM orders WHERE id = ?", func(*row) {}, f.ID)
		if err == nil && order {
			err = fmt.Errorf("the id is an order's: %w", blobd.ErrConflict)
		}
		return e, rec, false, err
	}
	asked := f.Scope
	asked.Refs = nil // compared by whether there are any
	if !sameScope(e.Scope, asked) || e.OfRefs != (len(f.Scope.Refs) > 0) {
		err = fmt.Errorf("the erasure id has another scope: %w", blobd.ErrConflict)
	}
	return e, rec, true, err
}

// turn is how an erasure goes on from its request, or from its last approval.
type turn struct {
	id, by                            string
	at, runAt, graceUntil, deferUntil time.Time
	fenced, closed                    []ledger.Entry
}

// mayFence reports whether nothing keeps an erasure from fencing at once. strict
// makes what is protected an error.
func mayFence(ctx context.Context, w *conn, known *facts, s ledger.Scope, t *turn, strict bool) (bool, error) {
	may := s.Form().Fenceable() && t.graceUntil.IsZero()
	if !may && !strict {
		return false, nil
	}
	kept, err := protected(ctx, w, known, s, t.at)
	if err == nil && kept && strict {
		err = fmt.Errorf("something in scope is protected: %w", blobd.ErrHeld)
	}
	return may && !kept, err
}

// proceed fences a scope, or closes it.
func proceed(ctx context.Context, w *conn, sc *scope, seq int64, t turn, fences bool) (ledger.Record, error) {
	state, due := ledger.ErasureRunning, t.runAt
	switch {
	case !t.graceUntil.IsZero():
		state, due = ledger.ErasureGrace, t.graceUntil
	case !fences && !t.deferUntil.IsZero():
		state, due = ledger.ErasureDeferred, t.deferUntil
	}
	_, err := w.exec(ctx, "UPDATE erasures SET state = ?, run_at = ?, grace_until = ? WHERE seq = ?",
		string(state), due.UnixMicro(), micros(t.graceUntil), seq)
	if err != nil {
		return ledger.Record{}, err
	}
	if fences {
		return fenceNow(ctx, w, sc, seq, t)
	}
	return closeScope(ctx, w, sc.Scope, seq, t)
}

// fenceNow is the fence of an erasure that has a row.
func fenceNow(ctx context.Context, w *conn, sc *scope, seq int64, t turn) (rec ledger.Record, err error) {
	if err := applyFence(ctx, w, sc, t.id, t.at, false); err != nil {
		return rec, err
	}
	if err := appendEntries(ctx, w, t.fenced...); err != nil {
		return rec, err
	}
	kind := ledger.RecordFence
	switch {
	case sc.WholeTenant:
		kind = ledger.RecordTenant
	case sc.ofRefs:
		kind = ledger.RecordErase
	}
	// What it dropped before it fenced may have been under newer versions.
	_, err = w.one(ctx, "SELECT wrap FROM erasures WHERE seq = ?", func(r *row) { sc.wrap = max(sc.wrap, uint32(r.int(0))) }, seq)
	if err != nil {
		return rec, err
	}
	rec, err = record(ctx, w, ledger.Record{
		Kind: kind, At: t.at, Tenant: sc.Tenant, Tag: sc.Tag, Refs: sc.named, ErasureID: t.id, Wrap: sc.wrap,
	})
	if err != nil {
		return rec, err
	}
	return rec, saveFence(ctx, w, sc, seq, rec.Seq)
}

// applyFence erases what a scope holds. A replayed one also enters tombstones
// for refs whose rows this ledger lost.
func applyFence(ctx context.Context, w *conn, sc *scope, id string, at time.Time, replayed bool) error {
	switch {
	case sc.WholeTenant:
		return fenceTenant(ctx, w, sc.Tenant, id, at)
	case sc.ofRefs:
		return eraseRefs(ctx, w, sc, at, replayed)
	case sc.erased():
		return nil
	case !sc.known:
		n, err := w.exec(ctx, `INSERT INTO executions (tag, tenant, id, state, reason, created_at, erased_at, blobs, bytes)
			VALUES (?, ?, ?, 3, 0, ?, ?, 0, 0) ON CONFLICT DO NOTHING`,
			sc.Tag[:], sc.Tenant, sc.ExecutionID, at.UnixMicro(), at.UnixMicro())
		if err == nil && n == 0 {
			err = fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)
		}
		return err
	}
	if err := dropExecutionKey(ctx, w, sc.n, at); err != nil {
		return err
	}
	return count(ctx, w, -sc.blobs, -sc.bytes, -1)
}

func eraseRefs(ctx context.Context, w *conn, sc *scope, at time.Time, replayed bool) error {
	var blobs, size int64
	for _, b := range sc.rows {
		_, err := w.exec(ctx, "UPDATE blobs SET state = 2, wrapped = NULL WHERE execution_tag = ? AND ref = ?",
			sc.Tag[:], b.ref[:])
		if err != nil {
			return err
		}
		if b.state == ledger.BlobLive {
			blobs, size = blobs+1, size+b.size
		}
	}
	if replayed {
		for _, ref := range sc.missing {
			if err := insertBare(ctx, w, sc.Tag, ref, ledger.BlobErased, at); err != nil {
				return err
			}
			sc.named = append(sc.named, ref)
		}
	}
	if len(sc.rows) > 0 || replayed && len(sc.missing) > 0 {
		_, err := w.exec(ctx, "UPDATE executions SET lost_blob = 1 WHERE tag = ? AND state <> 3", sc.Tag[:])
		if err != nil {
			return err
		}
	}
	if blobs == 0 {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE executions SET blobs = blobs - ?, bytes = bytes - ? WHERE tag = ?", blobs, size, sc.Tag[:])
	if err != nil {
		return err
	}
	return count(ctx, w, -blobs, -size, 0)
}

// count moves the deployment's counters of what is live.
func count(ctx context.Context, w *conn, blobs, size, executions int64) error {
	_, err := w.exec(ctx, "UPDATE deployment SET blobs = blobs + ?, bytes = bytes + ?, executions = executions + ?",
		blobs, size, executions)
	return err
}
