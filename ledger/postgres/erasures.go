package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// passing is the stored state of an erasure that runs and has not fenced.
const passing = "passing"

// erasureColumns are scanned into erasureTo, from erasures x.
const erasureColumns = `x.id, x.tenant, x.execution_tag, x.execution_id, x.of_refs,
	CASE x.state WHEN 'passing' THEN 'running' ELSE x.state END,
	x.plan_executions, x.plan_blobs, x.plan_bytes, x.already_erased, x.not_found,
	x.keys_destroyed, x.objects_deleted, x.versions_deleted, x.failed, x.remaining, x.settled, x.swept, x.last_error,
	x.requested_by, x.reason, x.legal_basis, x.regime, x.external_ref,
	x.received_at, x.due_at, x.fenced_at, x.erased_at, x.attempts, x.wrap, x.details, x.whole_tenant,
	x.subjects, x.class, x.captured_before, x.closing, x.dropped, x.plan_held, x.plan_floor, x.plan_shared, x.plan_digest,
	x.grace_until, x.approvals, x.approved_by, x.decided_by, x.code, x.decision_reason,
	x.planned, x.drop_executions, x.drop_blobs, x.drop_bytes, ` + fencedColumns + `, x.decided_at`

// fencedColumns are what a fence found: beside a plan that was counted before, or in its
// place.
const fencedColumns = `CASE WHEN x.planned THEN x.fenced_executions WHEN x.closing THEN 0 ELSE x.plan_executions END,
	CASE WHEN x.planned THEN x.fenced_blobs WHEN x.closing THEN 0 ELSE x.plan_blobs END,
	CASE WHEN x.planned THEN x.fenced_bytes WHEN x.closing THEN 0 ELSE x.plan_bytes END,
	CASE WHEN x.planned THEN x.fenced_already WHEN x.closing THEN 0 ELSE x.already_erased END,
	CASE WHEN x.planned THEN x.fenced_missing WHEN x.closing THEN 0 ELSE x.not_found END`

// erasureTo returns where erasureColumns are scanned into.
func erasureTo(e *ledger.Erasure) []any {
	return []any{
		&e.ID, &e.Scope.Tenant, fixed(e.Scope.Tag[:]), &e.Scope.ExecutionID, &e.OfRefs, &e.State,
		&e.Plan.Executions, &e.Plan.Blobs, &e.Plan.Bytes, &e.Plan.AlreadyErased, &e.Plan.NotFound,
		&e.Progress.KeysDestroyed, &e.Progress.ObjectsDeleted, &e.Progress.VersionsDeleted, &e.Progress.Failed,
		&e.Progress.Remaining, &e.Progress.Settled, &e.Progress.Swept, &e.Progress.LastError,
		&e.RequestedBy, bytesText{&e.Reason}, bytesText{&e.LegalBasis}, bytesText{&e.Regime}, bytesText{&e.ExternalRef},
		moment{&e.ReceivedAt}, moment{&e.DueAt}, moment{&e.FencedAt}, moment{&e.ErasedAt}, &e.Attempts, &e.Wrap,
		progressDetails{&e.Progress}, &e.Scope.WholeTenant,
		hashes{&e.Scope.Subjects}, &e.Scope.Class, moment{&e.Scope.CapturedBefore}, &e.Closing, &e.Dropped,
		&e.Plan.Held, &e.Plan.Floor, &e.Plan.Shared, fixed(e.PlanDigest[:]),
		moment{&e.GraceUntil}, &e.Approvals, &e.ApprovedBy, &e.DecidedBy, &e.Code, bytesText{&e.DecisionReason},
		&e.Planned, &e.Drops.Executions, &e.Drops.Blobs, &e.Drops.Bytes,
		&e.Fenced.Executions, &e.Fenced.Blobs, &e.Fenced.Bytes, &e.Fenced.AlreadyErased, &e.Fenced.NotFound, moment{&e.DecidedAt},
	}
}

// progressDetails scans a details column into a progress.
type progressDetails struct{ p *ledger.Progress }

// ScanBytes implements pgtype.BytesScanner.
func (d progressDetails) ScanBytes(b []byte) error { return d.p.SetDetails(b) }

func scanErasure(r pgx.CollectableRow) (e ledger.Erasure, err error) {
	err = r.Scan(erasureTo(&e)...)
	return e, err
}

// Erasure implements ledger.Erasures.
func (l *Ledger) Erasure(ctx context.Context, tenant, id string) (ledger.Erasure, error) {
	e, found, err := one(ctx, l, "erasure", scanErasure,
		"SELECT "+erasureColumns+" FROM erasures x WHERE x.id = $1 AND x.tenant = $2", id, tenant)
	return e, classifyFound("erasure", found, err)
}

// ListErasures implements ledger.Erasures.
func (l *Ledger) ListErasures(ctx context.Context, q ledger.ErasureQuery) ([]ledger.Erasure, error) {
	const op = "list erasures"
	if err := checkLimit(op, q.Limit); err != nil {
		return nil, err
	}
	f := filter{"SELECT " + erasureColumns + " FROM erasures x WHERE x.tenant = $1", []any{q.Tenant}}
	if q.Before != (ledger.ErasureCursor{}) {
		f.and("(x.fenced_at, x.id) < (%, %)", q.Before.FencedAt.UnixMicro(), q.Before.ID)
	}
	switch q.State {
	case "":
	case ledger.ErasurePartial:
		f.and("(x.state IN ('running', 'passing') AND x.failed > 0 OR x.state = 'deferred' AND x.dropped > 0)")
	case ledger.ErasureRunning:
		f.and("x.state IN ('running', 'passing')")
	default:
		f.and("x.state = %", string(q.State))
	}
	if !q.DueBefore.IsZero() {
		f.and("x.state NOT IN ('erased', 'denied', 'cancelled') AND x.due_at < %", q.DueBefore.UnixMicro())
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanErasure,
		f.sql+" ORDER BY x.fenced_at DESC, x.id DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

// erasedRefs are those of an erasure that its fence named, and those that it dropped
// before; of one that has not fenced, those that its scope names.
const erasedRefs = `SELECT r.ref FROM erasures x LEFT JOIN LATERAL (
		SELECT n.ref FROM erasure_refs n WHERE n.erasure = x.seq AND NOT x.closing
		UNION SELECT d.ref FROM erasure_rows d WHERE d.erasure = x.seq AND NOT x.closing
		UNION SELECT substring(x.scope_refs FROM i * 32 + 1 FOR 32) FROM generate_series(0, length(x.scope_refs) / 32 - 1) i WHERE x.closing
	) r ON x.of_refs WHERE x.id = $1 ORDER BY r.ref`

// ErasedRefs implements ledger.Erasures.
func (l *Ledger) ErasedRefs(ctx context.Context, erasureID string) (refs []blobd.Ref, err error) {
	const op = "erased refs"
	rows, err := list(ctx, l, op, pgx.RowTo[[]byte], erasedRefs, erasureID)
	if err := classifyFound(op, len(rows) > 0, err); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row == nil {
			return nil, nil // the erasure alone: it names none
		}
		var ref blobd.Ref
		if err := fixed(ref[:]).ScanBytes(row); err != nil {
			return nil, classify(op, err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// readErasure queues the reading of an erasure as it stands then.
func (t *tx) readErasure(to *ledger.Erasure, id string) {
	t.each(func(r pgx.CollectableRow) (err error) {
		*to, err = scanErasure(r)
		return err
	}, "SELECT "+erasureColumns+" FROM erasures x WHERE x.id = $1", id)
}

// standing is where an erasure goes.
type standing struct {
	state   string // as stored
	closing bool
	plan    ledger.Plan
	planned bool        // and plan stays
	fenced  ledger.Plan // what the fence found, beside a plan that stays
	runAt   time.Time
	grace   time.Time
	wrap    int64
	named   []blobd.Ref // refs that it erased or found erased
}

// beside has what a fence found stand beside the plan of an erasure that was asked for
// before. Refs that it dropped itself are not those of others.
func (s *standing) beside(e *ledger.Erasure) {
	if e.OfRefs {
		s.plan.AlreadyErased = max(0, s.plan.AlreadyErased-e.Dropped)
	}
	if e.Planned {
		s.plan, s.planned, s.fenced = e.Plan, true, s.plan
	}
}

func (s *standing) args() []any {
	p := s.plan
	return []any{
		s.state, s.closing, p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound, p.Held, p.Floor, p.Shared,
		s.runAt.UnixMicro(), micros(s.grace), s.wrap,
	}
}

// insertErasure queues an erasure's row. Its record is the newest one, or the one
// that is given: that is replayed, or 0 for none.
func insertErasure(x *tx, f *ledger.Fence, ofRefs bool, to standing, record any) {
	s := &f.Scope
	var digest []byte
	if f.PlanDigest != [32]byte{} {
		digest = f.PlanDigest[:]
	}
	var refs []byte
	if to.closing {
		refs = joined(s.Refs)
	}
	x.exec(`INSERT INTO erasures (state, closing, plan_executions, plan_blobs, plan_bytes, already_erased, not_found,
			plan_held, plan_floor, plan_shared, run_at, grace_until, wrap,
			id, tenant, execution_tag, execution_id, of_refs, scope_refs, subjects, class, captured_before, whole_tenant,
			requested_by, reason, legal_basis, regime, external_ref, received_at, due_at, fenced_at, plan_digest, approvals, record, planned)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
			$24, $25, $26, $27, $28, $29, $30, $31, $32, $33, coalesce($34::bigint, d.head), $35 FROM deployment d`,
		append(to.args(),
			f.ID, s.Tenant, s.Tag[:], s.ExecutionID, ofRefs, notNull(refs), notNull(joined(s.Subjects)), s.Class,
			micros(s.CapturedBefore), s.WholeTenant, f.RequestedBy, []byte(f.Reason), []byte(f.LegalBasis), []byte(f.Regime),
			[]byte(f.ExternalRef), micros(f.ReceivedAt), micros(f.DueAt), f.At.UnixMicro(), digest, f.Approvals, record, to.planned)...)
	to.insertNamed(x, f.ID)
}

// moveErasure queues the move of an erasure that has not fenced. Its first record
// stays; where it has none it is as for insertErasure. What it may have erased before
// counts for its wrap.
func moveErasure(x *tx, id string, to standing, record any) {
	found := to.fenced
	x.exec(`UPDATE erasures SET state = $1, closing = $2, plan_executions = $3, plan_blobs = $4, plan_bytes = $5, already_erased = $6,
			not_found = $7, plan_held = $8, plan_floor = $9, plan_shared = $10, run_at = $11, grace_until = $12, wrap = greatest(wrap, $13),
			record = CASE WHEN record = 0 THEN coalesce($15::bigint, (SELECT head FROM deployment)) ELSE record END, tombstoned = '',
			fenced_executions = $16, fenced_blobs = $17, fenced_bytes = $18, fenced_already = $19, fenced_missing = $20
		WHERE id = $14`, append(to.args(), id, record, found.Executions, found.Blobs, found.Bytes, found.AlreadyErased, found.NotFound)...)
	to.insertNamed(x, id)
}

func (s *standing) insertNamed(x *tx, id string) {
	if len(s.named) > 0 {
		x.exec("INSERT INTO erasure_refs (erasure, ref) SELECT x.seq, r FROM erasures x, unnest($2::bytea[]) r WHERE x.id = $1 ON CONFLICT DO NOTHING",
			id, raw(s.named))
	}
}
