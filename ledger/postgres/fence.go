package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// scope is what an erasure's scope holds at one moment.
type scope struct {
	ledger.Scope
	ofRefs       bool
	refs         []blobd.Ref // sorted, each once
	known        bool        // the execution has a row, or of a wider scope the tenant
	tenantKnown  bool        // the tenant has a row
	holds        bool        // the tenant has an open hold
	floors       bool        // and a policy with a floor
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

// lock queues the tenant's lock for a fence. It is shared by those within one
// execution that place no order; a worker of an epoch holds its row before it asks
// for that lock, so the rows come before that of a whole tenant.
func (sc *scope) lock(t *tx, alone bool) {
	switch {
	case sc.WholeTenant:
		t.exec("SELECT 1 FROM epochs WHERE tenant = $1 AND state IN (1, 2, 3) ORDER BY seq FOR UPDATE", sc.Tenant)
		t.tenantAlone(sc.Tenant)
	case alone:
		t.tenantAlone(sc.Tenant)
	default:
		t.shareTenant(sc.Tenant)
	}
	t.scan(nil, []any{&sc.holds, &sc.floors}, mayProtect, sc.Tenant)
}

// read queues the reading of a scope, of one row for a whole execution and for what
// is wider. With lock it keeps others from changing what it read: the execution
// first, and in a later statement the blobs in order.
func (sc *scope) read(t *tx, lock bool) {
	if !sc.Form().Bounded() {
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
	t.scan(&sc.tenantKnown, []any{&sc.fenced}, "SELECT fenced_at IS NOT NULL FROM tenants WHERE id = $1", sc.Tenant)
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
	if !sc.Form().Bounded() {
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
	if !s.Form().Fenceable() {
		return ledger.Plan{}, classify(op, fmt.Errorf("no fence is of this form: %w", blobd.ErrInvalid))
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
	if err := f.CheckCallback(); err != nil {
		return e, rec, classify(op, err)
	}
	f.Scope = storedScope(f.Scope)
	err = l.writeAlone(ctx, op, closes(&f), func(ctx context.Context, x *tx, alone bool) (err error) {
		e, rec = ledger.Erasure{}, ledger.Record{}
		return fence(ctx, x, f, alone, &e, &rec)
	})
	if err != nil {
		return ledger.Erasure{}, ledger.Record{}, err
	}
	return e, rec, nil
}

// fence locks and reads in one round trip, and changes in another.
func fence(ctx context.Context, x *tx, f ledger.Fence, alone bool, e *ledger.Erasure, rec *ledger.Record) error {
	sc := newScope(f.Scope, f.Scope.Form() == ledger.ScopeRefs)
	sc.lock(x, alone)
	sc.read(x, true)
	again := false
	var first recordRow
	// After the lock, so that of two fences with one id the second sees the first.
	x.scan(&again, append(erasureTo(e), first.to()...),
		"SELECT "+erasureColumns+", "+recordColumns+" FROM erasures x LEFT JOIN journal j ON j.seq = x.record WHERE x.id = $1", f.ID)
	if err := x.flush(ctx); err != nil {
		return err
	}
	if again {
		*rec = first.get()
		return sameScope(e, &f.Scope)
	}
	if err := sc.count(); err != nil {
		return err
	}
	if f.Callback != nil && !sc.tenantKnown {
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	}
	to, err := proceed(ctx, x, sc, &f, alone, rec)
	if err != nil {
		return err
	}
	var record any // the newest
	if to.state == string(ledger.ErasureAwaiting) {
		record = int64(0)
	}
	insertErasure(x, &f, sc.ofRefs, to, record)
	if f.Callback != nil {
		if err := insertWebhook(ctx, x, &f.Callback.Webhook); err != nil {
			return err
		}
		x.append(f.Callback.Entry)
		x.move(counts{entries: 1})
	}
	x.readErasure(e, f.ID)
	return nil
}

func sameScope(e *ledger.Erasure, s *ledger.Scope) error {
	have, want := e.Scope, *s
	want.Refs = nil
	if e.OfRefs != (len(s.Refs) > 0) || compareScopes(&have, &want) != 0 {
		return fmt.Errorf("the erasure id has another scope: %w", blobd.ErrConflict)
	}
	return nil
}

// proceed fences what was read and locked, or else closes it, or awaits approvals.
func proceed(ctx context.Context, x *tx, sc *scope, f *ledger.Fence, alone bool, rec *ledger.Record) (standing, error) {
	mustClose := closes(f)
	if f.Strict || f.Approvals == 0 && !mustClose {
		protected, err := sc.protected(ctx, x, f.At)
		if err != nil {
			return standing{}, err
		}
		if protected && f.Strict {
			return standing{}, fmt.Errorf("something in scope is protected: %w", blobd.ErrHeld)
		}
		mustClose = mustClose || protected
	}
	switch {
	case f.Approvals == 0 && !mustClose:
		return fenceNow(ctx, x, sc, f, rec)
	case !sc.tenantKnown:
		return standing{}, fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case f.Approvals > 0:
		x.append(f.Asked...)
		x.move(counts{entries: int64(len(f.Asked))})
		return standing{state: string(ledger.ErasureAwaiting), closing: true, plan: f.Plan, planned: planned(f), runAt: f.RunAt, grace: f.GraceUntil, wrap: sc.wrap}, nil
	case !alone:
		return standing{}, errAlone
	}
	return closeScope(x, sc, f, rec), nil
}

// planned reports whether a fence comes with a plan, which stays where it only closes.
func planned(f *ledger.Fence) bool { return f.PlanDigest != [32]byte{} }

// fenceNow fences what was read and locked, with the evidence and the record of it.
func fenceNow(ctx context.Context, x *tx, sc *scope, f *ledger.Fence, rec *ledger.Record) (standing, error) {
	moved, err := applyFence(ctx, x, sc, *f, false)
	if err != nil {
		return standing{}, err
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
	return sc.running(f.RunAt), nil
}

// running is where an erasure goes that fenced.
func (sc *scope) running(runAt time.Time) standing {
	return standing{state: string(ledger.ErasureRunning), plan: sc.plan, runAt: runAt, wrap: sc.wrap, named: sc.named}
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
