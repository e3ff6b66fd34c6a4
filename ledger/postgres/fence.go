package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// scope is what an erasure's scope holds at one moment.
type scope struct {
	ledger.Scope
	ofRefs       bool
	refs         []blobd.Ref // sorted, each once
	known        bool        // the execution, or the whole tenant, has a row
	fenced       bool        // the tenant was off-boarded
	whole        ledger.Plan // of a whole tenant, where it was counted
	tenant       string      // its
	state        int16
	blobs, bytes int64                  // live in the execution
	wrap         int64                  // see ledger.Erasure
	found        map[blobd.Ref]scopeRow // rows of the refs
	rows         []blobd.Ref            // refs whose rows a fence would erase
	live         ledger.Plan            // of those, what counts as live
	missing      []blobd.Ref            // refs without a row
	named        []blobd.Ref            // refs whose rows it erases or finds erased
	plan         ledger.Plan
}

// scopeRow is the row of a named ref.
type scopeRow struct {
	state ledger.BlobState
	size  int64
}

func newScope(s ledger.Scope, ofRefs bool) *scope {
	sc := &scope{Scope: s, ofRefs: ofRefs, refs: slices.Clone(s.Refs), found: make(map[blobd.Ref]scopeRow)}
	slices.SortFunc(sc.refs, func(a, b blobd.Ref) int { return bytes.Compare(a[:], b[:]) })
	sc.refs = slices.Compact(sc.refs)
	return sc
}

// read queues the reading of a scope, of one row for a whole execution. With
// lock it keeps others from changing what it read: the execution first, and in
// a later statement the blobs in order.
func (sc *scope) read(t *tx, lock bool) {
	if sc.WholeTenant {
		sc.readTenant(t, lock)
		return
	}
	ofExecution, ofBlobs := "", ""
	if lock {
		ofExecution, ofBlobs = " FOR NO KEY UPDATE", " ORDER BY ref FOR NO KEY UPDATE"
	}
	t.scan(&sc.known, []any{&sc.tenant, &sc.state, &sc.blobs, &sc.bytes},
		"SELECT tenant, state, blobs, bytes FROM executions WHERE tag = $1"+ofExecution, sc.Tag[:])
	t.scan(nil, []any{&sc.wrap}, wrapOf, sc.Tag[:], sc.Tenant)
	t.scan(nil, []any{&sc.fenced}, "SELECT fenced_at IS NOT NULL FROM tenants WHERE id = $1", sc.Tenant)
	if !sc.ofRefs {
		return
	}
	t.each(func(r pgx.CollectableRow) error {
		var ref blobd.Ref
		var row scopeRow
		err := r.Scan(fixed(ref[:]), &row.state, &row.size)
		sc.found[ref] = row
		return err
	}, "SELECT ref, state, size FROM blobs WHERE execution_tag = $1 AND ref = ANY($2::bytea[])"+ofBlobs, sc.Tag[:], raw(sc.refs))
}

// wrapOf is the newest KEK version under which a backup may hold what a scope
// ($1) of a tenant ($2) has; a statement after the execution's lock.
const wrapOf = `SELECT coalesce(
		(SELECT version FROM execution_keys WHERE tag = $1),
		(SELECT coalesce((SELECT max(wrap) FROM erasures WHERE execution_tag = $1), 0) FROM executions WHERE tag = $1),
		(SELECT minimum_wrap FROM tenants WHERE id = $2), 0)`

// count makes the plan of what was read.
func (sc *scope) count() error {
	if sc.WholeTenant {
		return sc.countTenant()
	}
	if sc.known && sc.tenant != sc.Tenant {
		return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	}
	switch {
	case sc.ofRefs:
		sc.countRefs(sc.erased())
	case sc.erased():
		sc.plan.AlreadyErased = 1
	case !sc.known:
		sc.plan.NotFound = 1
	default:
		sc.plan = ledger.Plan{Executions: 1, Blobs: sc.blobs, Bytes: sc.bytes}
	}
	return nil
}

// erased reports whether the execution is, or its tenant.
func (sc *scope) erased() bool {
	return sc.fenced || ledger.ExecutionState(sc.state) == ledger.ExecutionErased
}

func (sc *scope) countRefs(erased bool) {
	for _, ref := range sc.refs {
		b, found := sc.found[ref]
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
			sc.rows = append(sc.rows, ref)
			sc.plan.Blobs++
			sc.plan.Bytes += b.size
			if b.state == ledger.BlobLive {
				sc.live.Blobs++
				sc.live.Bytes += b.size
			}
		}
	}
}

// Plan implements ledger.Erasures.
func (l *Ledger) Plan(ctx context.Context, s ledger.Scope) (ledger.Plan, error) {
	const op = "plan"
	if err := s.Check(); err != nil {
		return ledger.Plan{}, classify(op, err)
	}
	var sc *scope
	err := l.readOnly(ctx, "REPEATABLE READ", func(_ context.Context, x *tx) error {
		sc = newScope(s, len(s.Refs) > 0)
		sc.read(x, false)
		return nil
	})
	if err == nil {
		err = sc.count()
	}
	if err != nil {
		return ledger.Plan{}, classify(op, err)
	}
	return sc.plan, nil
}

// Fence implements ledger.Erasures.
func (l *Ledger) Fence(ctx context.Context, f ledger.Fence) (e ledger.Erasure, rec ledger.Record, err error) {
	const op = "fence"
	if f.ID == "" {
		return e, rec, classify(op, fmt.Errorf("no erasure id: %w", blobd.ErrInvalid))
	}
	if err := f.Scope.Check(); err != nil {
		return e, rec, classify(op, err)
	}
	err = l.write(ctx, op, func(ctx context.Context, x *tx) (err error) {
		e, rec = ledger.Erasure{}, ledger.Record{}
		return fence(ctx, x, f, &e, &rec)
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

// fence locks and reads in one round trip, and changes in another.
func fence(ctx context.Context, x *tx, f ledger.Fence, e *ledger.Erasure, rec *ledger.Record) error {
	sc := newScope(f.Scope, len(f.Scope.Refs) > 0)
	if !sc.WholeTenant {
		x.shareTenant(f.Scope.Tenant)
	}
	sc.read(x, true)
	again := false
	var first recordRow
	// After the lock, so that of two fences with one id the second sees the first.
	x.scan(&again, append(erasureTo(e), first.to()...),
		"SELECT "+erasureColumns+", "+recordColumns+" FROM erasures x JOIN journal j ON j.seq = x.record WHERE x.id = $1", f.ID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if again {
		*rec = first.get()
		return sameScope(*e, f.Scope)
	}
	if err := sc.count(); err != nil {
		return err
	}
	moved, err := applyFence(ctx, x, sc, f, false)
	if err != nil {
		return err
	}
	x.append(f.Entries...)
	moved.entries = int64(len(f.Entries))
	x.move(moved)
	kind := ledger.RecordFence
	switch {
	case sc.WholeTenant:
		kind = ledger.RecordTenant
	case sc.ofRefs:
		kind = ledger.RecordErase
	}
	x.record(rec, ledger.Record{
		Kind: kind, At: f.At, Tenant: f.Scope.Tenant, Tag: f.Scope.Tag, Refs: sc.named, ErasureID: f.ID, Wrap: uint32(sc.wrap),
	})
	insertErasure(x, sc, f, nil)
	*e = newErasure(sc, f)
	return nil
}

func sameScope(e ledger.Erasure, s ledger.Scope) error {
	if e.Scope.Tenant != s.Tenant || e.Scope.Tag != s.Tag || e.OfRefs != (len(s.Refs) > 0) || e.Scope.WholeTenant != s.WholeTenant {
		return fmt.Errorf("the erasure id has another scope: %w", blobd.ErrConflict)
	}
	return nil
}

// newErasure is the row that insertErasure makes.
func newErasure(sc *scope, f ledger.Fence) ledger.Erasure {
	return ledger.Erasure{
		ID: f.ID, Scope: ledger.Scope{Tenant: sc.Tenant, Tag: sc.Tag, ExecutionID: sc.ExecutionID, WholeTenant: sc.WholeTenant},
		OfRefs: sc.ofRefs, State: ledger.ErasureRunning, Plan: sc.plan,
		RequestedBy: f.RequestedBy, Reason: f.Reason, LegalBasis: f.LegalBasis, Regime: f.Regime, ExternalRef: f.ExternalRef,
		ReceivedAt: stored(f.ReceivedAt), DueAt: stored(f.DueAt), FencedAt: stored(f.At), Wrap: uint32(sc.wrap),
	}
}

// applyFence erases what a scope holds, and returns what that takes off the
// counters. A replayed one also enters tombstones for refs whose rows this
// ledger lost.
func applyFence(ctx context.Context, x *tx, sc *scope, f ledger.Fence, replayed bool) (counts, error) {
	switch {
	case sc.WholeTenant:
		fenceTenant(x, sc, f)
		return counts{}, nil
	case sc.ofRefs:
		return eraseRefs(x, sc, f, replayed), nil
	case sc.erased():
		return counts{}, nil
	case !sc.known:
		return counts{}, fenceUnseen(ctx, x, sc, f)
	}
	x.exec("DELETE FROM execution_keys WHERE tag = $1", sc.Tag[:])
	x.exec("UPDATE executions SET state = 3, reason = 0, erased_at = $2, blobs = 0, bytes = 0, lost_blob = FALSE WHERE tag = $1",
		sc.Tag[:], f.At.UnixMicro())
	return counts{blobs: -sc.blobs, bytes: -sc.bytes, executions: -1}, nil
}

// fenceUnseen inserts the fenced row of an execution that had none.
func fenceUnseen(ctx context.Context, x *tx, sc *scope, f ledger.Fence) error {
	var n int64
	sameID := false
	var tag []byte
	x.count(&n, `INSERT INTO executions (tag, tenant, id, state, reason, created_at, erased_at, blobs, bytes)
		VALUES ($1, $2, $3, 3, 0, $4, $4, 0, 0) ON CONFLICT DO NOTHING`, sc.Tag[:], sc.Tenant, sc.ExecutionID, f.At.UnixMicro())
	x.scan(&sameID, []any{&tag}, "SELECT tag FROM executions WHERE tenant = $1 AND id = $2 AND id <> '' AND tag <> $3",
		sc.Tenant, sc.ExecutionID, sc.Tag[:])
	switch err := x.flush(ctx); {
	case err != nil:
		return err
	case n == 1:
		return nil
	case sameID:
		return fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)
	}
	return errAgain // a put of it was in between
}

func eraseRefs(x *tx, sc *scope, f ledger.Fence, replayed bool) counts {
	if len(sc.rows) > 0 {
		x.exec("UPDATE blobs SET state = 2, wrapped = NULL WHERE execution_tag = $1 AND ref = ANY($2::bytea[])", sc.Tag[:], raw(sc.rows))
	}
	if replayed && len(sc.missing) > 0 {
		insertBare(x, nil, sc.Tag, sc.missing, ledger.BlobErased, f.At)
		sc.named = append(sc.named, sc.missing...)
	}
	if len(sc.rows) > 0 || replayed && len(sc.missing) > 0 {
		x.exec("UPDATE executions SET blobs = blobs - $2, bytes = bytes - $3, lost_blob = TRUE WHERE tag = $1 AND state <> 3",
			sc.Tag[:], sc.live.Blobs, sc.live.Bytes)
	}
	return counts{blobs: -sc.live.Blobs, bytes: -sc.live.Bytes}
}

// insertErasure queues the erasure's row. Its record is the newest one, or the
// one that is replayed.
func insertErasure(x *tx, sc *scope, f ledger.Fence, record any) {
	p := sc.plan
	x.exec(`INSERT INTO erasures (id, tenant, execution_tag, execution_id, of_refs, state,
		plan_executions, plan_blobs, plan_bytes, already_erased, not_found,
		requested_by, reason, legal_basis, regime, external_ref, received_at, due_at, fenced_at, run_at, wrap, whole_tenant, record)
		SELECT $1, $2, $3, $4, $5, 'running', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $22,
			coalesce($21::bigint, d.head) FROM deployment d`,
		f.ID, sc.Tenant, sc.Tag[:], sc.ExecutionID, sc.ofRefs,
		p.Executions, p.Blobs, p.Bytes, p.AlreadyErased, p.NotFound,
		f.RequestedBy, []byte(f.Reason), []byte(f.LegalBasis), []byte(f.Regime), []byte(f.ExternalRef),
		micros(f.ReceivedAt), micros(f.DueAt), f.At.UnixMicro(), f.RunAt.UnixMicro(), sc.wrap, record, sc.WholeTenant)
	if len(sc.named) > 0 {
		x.exec("INSERT INTO erasure_refs (erasure, ref) SELECT x.seq, r FROM erasures x, unnest($2::bytea[]) r WHERE x.id = $1",
			f.ID, raw(sc.named))
	}
}
