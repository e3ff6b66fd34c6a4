package sqlite

import (
	"context"

	"github.com/blobd/blobd/ledger"
)

// This file writes the rows of erasures as they are asked for and as they fence.

// insertErasure makes the row of an erasure that has done nothing yet, and returns its
// number.
func insertErasure(ctx context.Context, w *conn, sc *scope, f ledger.Fence, planned bool) (seq int64, err error) {
	p := f.Plan
	_, err = w.one(ctx, `INSERT INTO erasures (id, tenant, execution_tag, execution_id, of_refs, whole_tenant,
		scope_refs, subjects, class, before, state, closing,
		plan_executions, plan_blobs, plan_bytes, already_erased, not_found, plan_held, plan_floor, plan_shared, plan_digest,
		requested_by, reason, legal_basis, regime, external_ref, received_at, due_at, fenced_at,
		record, run_at, approvals, grace_until, wrap, planned)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?) RETURNING seq`,
		func(r *row) { seq = r.int(0) },
		f.ID, sc.Tenant, sc.Tag[:], sc.ExecutionID, flag(sc.ofRefs), flag(sc.WholeTenant),
		orNull(joinRefs(sc.refs)), orNull(joinHashes(sc.Subjects)), sc.Class, micros(sc.CapturedBefore), string(ledger.ErasureAwaiting),
		p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, p.Held, p.Floor, p.Shared, digestOrNull(f.PlanDigest),
		f.RequestedBy, f.Reason, f.LegalBasis, f.Regime, f.ExternalRef, micros(f.ReceivedAt), micros(f.DueAt), f.At.UnixMicro(),
		f.RunAt.UnixMicro(), int64(f.Approvals), micros(f.GraceUntil), int64(sc.wrap), flag(planned))
	return seq, err
}

func digestOrNull(d [32]byte) any {
	if d == ([32]byte{}) {
		return nil
	}
	return d[:]
}

// Where what a fence found goes: beside a plan that was counted before, or in its place.
const (
	besidePlan  = "fenced_executions = ?, fenced_blobs = ?, fenced_bytes = ?, fenced_already = ?, fenced_missing = ?"
	inPlanPlace = `plan_executions = ?, plan_blobs = ?, plan_bytes = ?, already_erased = ?, not_found = ?,
		plan_held = 0, plan_floor = 0, plan_shared = 0`
)

// saveFence makes the row of an erasure that of one that fenced: what it found is
// counted by the engine, and its refs are those whose rows it erased or found erased.
func saveFence(ctx context.Context, w *conn, sc *scope, seq, recordSeq int64) error {
	p, where := sc.plan, inPlanPlace
	_, err := w.one(ctx, "SELECT planned, dropped FROM erasures WHERE seq = ?", func(r *row) {
		if r.bool(0) {
			where = besidePlan
		}
		if sc.ofRefs {
			p.AlreadyErased = max(0, p.AlreadyErased-r.int(1)) // what it dropped itself is not others'
		}
	}, seq)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, `UPDATE erasures SET closing = 0, scope_refs = NULL, tombstoned = x'', wrap = max(wrap, ?),
		record = CASE record WHEN 0 THEN ? ELSE record END, `+where+" WHERE seq = ?",
		int64(sc.wrap), recordSeq, p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, seq)
	if err != nil || len(sc.named) == 0 {
		return err
	}
	rows := make([][]any, len(sc.named))
	for i := range sc.named {
		rows[i] = []any{seq, sc.named[i][:]}
	}
	return w.insertMany(ctx, "INSERT INTO erasure_refs (erasure, ref) VALUES ", " ON CONFLICT DO NOTHING", rows)
}
