package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// erasureColumns are scanned by erasureRow, from erasures x.
const erasureColumns = `x.id, x.tenant, x.execution_tag, x.execution_id, x.of_refs, x.state,
	x.plan_executions, x.plan_blobs, x.plan_bytes, x.already_erased, x.not_found,
	x.keys_destroyed, x.objects_deleted, x.versions_deleted, x.failed, x.remaining, x.settled, x.swept, x.last_error,
	x.requested_by, x.reason, x.legal_basis, x.regime, x.external_ref,
	x.received_at, x.due_at, x.fenced_at, x.erased_at, x.attempts, x.wrap, x.details, x.whole_tenant`

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
	if q.State != "" {
		f.and("x.state = %", string(q.State))
	}
	f.args = append(f.args, q.Limit)
	return list(ctx, l, op, scanErasure,
		f.sql+" ORDER BY x.fenced_at DESC, x.id DESC LIMIT $"+strconv.Itoa(len(f.args)), f.args...)
}

// ErasedRefs implements ledger.Erasures.
func (l *Ledger) ErasedRefs(ctx context.Context, erasureID string) (refs []blobd.Ref, err error) {
	const op = "erased refs"
	rows, err := list(ctx, l, op, pgx.RowTo[[]byte], `SELECT r.ref FROM erasures x LEFT JOIN erasure_refs r ON r.erasure = x.seq
		WHERE x.id = $1 ORDER BY r.ref`, erasureID)
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
