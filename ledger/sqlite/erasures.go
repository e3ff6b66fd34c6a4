package sqlite

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// erasureColumns are read by row.erasure, from erasures.
const erasureColumns = `id, tenant, execution_tag, execution_id, of_refs, state,
	plan_executions, plan_blobs, plan_bytes, already_erased, not_found,
	keys_destroyed, objects_deleted, versions_deleted, failed, remaining, settled, swept, last_error,
	requested_by, reason, legal_basis, regime, external_ref,
	received_at, due_at, fenced_at, erased_at, attempts, wrap, details, whole_tenant,
	closing, dropped, subjects, class, before, plan_held, plan_floor, plan_shared, plan_digest,
	grace_until, approvals, approved_by, decided_by, code, decision_reason,
	planned, drop_executions, drop_blobs, drop_bytes,
	fenced_executions, fenced_blobs, fenced_bytes, fenced_already, fenced_missing, decided_at`

const erasureColumnCount = 57

func (r *row) erasure() ledger.Erasure {
	e := ledger.Erasure{
		ID: r.text(0),
		Scope: ledger.Scope{
			Tenant: r.text(1), Tag: r.tag(2), ExecutionID: r.text(3), WholeTenant: r.bool(31),
			Subjects: r.hashes(34), Class: r.text(35), CapturedBefore: r.time(36),
		},
		OfRefs: r.bool(4),
		State:  ledger.ErasureState(r.text(5)),
		Plan: ledger.Plan{
			Executions: r.int(6), Blobs: r.int(7), Bytes: r.int(8), AlreadyErased: r.int(9), NotFound: r.int(10),
			Held: r.int(37), Floor: r.int(38), Shared: r.int(39),
		},
		Progress: ledger.Progress{
			KeysDestroyed: r.int(11), ObjectsDeleted: r.int(12), VersionsDeleted: r.int(13),
			Failed: r.int(14), Remaining: r.int(15), Settled: r.bool(16), Swept: r.bool(17), LastError: r.text(18),
		},
		RequestedBy: r.text(19), Reason: r.text(20), LegalBasis: r.text(21), Regime: r.text(22), ExternalRef: r.text(23),
		ReceivedAt: r.time(24), DueAt: r.time(25), FencedAt: r.time(26), ErasedAt: r.time(27), Attempts: r.int(28),
		Wrap: uint32(r.int(29)), Closing: r.bool(32), Dropped: r.int(33),
		GraceUntil: r.time(41), Approvals: int(r.int(42)), ApprovedBy: r.list(43),
		DecidedBy: r.text(44), Code: r.text(45), DecisionReason: r.text(46), DecidedAt: r.time(56),
		Planned: r.bool(47), Drops: ledger.Extent{Executions: r.int(48), Blobs: r.int(49), Bytes: r.int(50)},
	}
	switch {
	case e.Planned:
		e.Fenced = ledger.Plan{Executions: r.int(51), Blobs: r.int(52), Bytes: r.int(53), AlreadyErased: r.int(54), NotFound: r.int(55)}
	case !e.Closing:
		e.Fenced = e.Plan
	}
	if !r.null(40) {
		e.PlanDigest = r.hash(40)
	}
	if err := e.Progress.SetDetails(r.bytes(30)); err != nil && r.err == nil {
		r.err = err
	}
	return e
}

func erasureByID(ctx context.Context, c *conn, id string) (e ledger.Erasure, found bool, err error) {
	found, err = c.one(ctx, "SELECT "+erasureColumns+" FROM erasures WHERE id = ?", func(r *row) { e = r.erasure() }, id)
	return e, found, err
}

// scopeOf returns what an erasure was asked to cover, with its refs, and its number.
// One that fenced at once has kept no refs.
func scopeOf(ctx context.Context, c *conn, id string) (s ledger.Scope, seq int64, err error) {
	_, err = c.one(ctx, "SELECT "+erasureColumns+", scope_refs, seq FROM erasures WHERE id = ?", func(r *row) {
		s = r.erasure().Scope
		s.Refs, seq = r.refs(erasureColumnCount), r.int(erasureColumnCount+1)
	}, id)
	return s, seq, err
}

// Erasure implements ledger.Erasures.
func (l *Ledger) Erasure(ctx context.Context, tenant, id string) (e ledger.Erasure, err error) {
	err = l.read(ctx, "erasure", func(c *conn) (err error) {
		var found bool
		e, found, err = erasureByID(ctx, c, id)
		return orNotFound(found && e.Scope.Tenant == tenant, err)
	})
	if err != nil {
		return ledger.Erasure{}, err
	}
	return e, nil
}

// ListErasures implements ledger.Erasures.
func (l *Ledger) ListErasures(ctx context.Context, q ledger.ErasureQuery) (es []ledger.Erasure, err error) {
	if err := checkLimit(q.Limit); err != nil {
		return nil, classify("list erasures", err)
	}
	query, args := "SELECT "+erasureColumns+" FROM erasures WHERE tenant = ?", []any{q.Tenant}
	if q.Before != (ledger.ErasureCursor{}) {
		query += " AND (fenced_at, id) < (?, ?)"
		args = append(args, q.Before.FencedAt.UnixMicro(), q.Before.ID)
	}
	switch q.State {
	case "":
	case ledger.ErasurePartial: // as Erasure.Stands tells it
		query += " AND (state = 'running' AND failed > 0 OR state = 'deferred' AND dropped > 0)"
	default:
		query += " AND state = ?"
		args = append(args, string(q.State))
	}
	if !q.DueBefore.IsZero() {
		query += " AND state NOT IN ('erased', 'denied', 'cancelled') AND due_at < ?"
		args = append(args, q.DueBefore.UnixMicro())
	}
	query += " ORDER BY fenced_at DESC, id DESC LIMIT ?"
	args = append(args, int64(q.Limit))
	err = l.read(ctx, "list erasures", func(c *conn) error {
		return c.query(ctx, query, func(r *row) { es = append(es, r.erasure()) }, args...)
	})
	return es, err
}

// ErasedRefs implements ledger.Erasures.
func (l *Ledger) ErasedRefs(ctx context.Context, erasureID string) (refs []blobd.Ref, err error) {
	err = l.snapshot(ctx, "erased refs", func(c *conn) error {
		var seq int64
		closing := false
		found, err := c.one(ctx, "SELECT seq, closing, scope_refs FROM erasures WHERE id = ?",
			func(r *row) { seq, closing, refs = r.int(0), r.bool(1), r.refs(2) }, erasureID)
		if err := orNotFound(found, err); err != nil || closing {
			return err
		}
		refs = nil
		return c.query(ctx, "SELECT ref FROM erasure_refs WHERE erasure = ? ORDER BY ref",
			func(r *row) { refs = append(refs, r.ref(0)) }, seq)
	})
	return refs, err
}
