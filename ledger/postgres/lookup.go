package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// maxRefs bounds what one call may name.
const maxRefs = 256

// The statement of a resolve: the deployment's row, the execution's and the
// blobs' with all that decides what may be read of them. It answers at least one
// row, and the execution stands in every row.
const (
	lookupHead = `SELECT (SELECT coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)), ` +
		timeline + `, d.recovery, t.minimum_wrap, ` + executionColumns + ", " + blobColumns + ", " + ruleColumns + `
		FROM deployment d
		LEFT JOIN executions e ON e.tag = $1
		LEFT JOIN execution_keys k ON k.tag = e.tag
		LEFT JOIN tenants t ON t.id = e.tenant
		LEFT JOIN blobs b ON b.execution_tag = $1 AND `
	lookupTail = governing

	lookupByRef    = lookupHead + "b.ref = ANY($2::bytea[])" + lookupTail
	lookupByRepeat = lookupHead + "b.repeat = ANY($2::bytea[]) AND b.repeat IS NOT NULL AND b.state IN (1, 2)" + lookupTail
)

// Lookup implements ledger.Blobs.
func (l *Ledger) Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	if len(refs) < 1 || len(refs) > maxRefs {
		return ledger.View{}, classify("lookup", fmt.Errorf("%d refs: %w", len(refs), blobd.ErrInvalid))
	}
	keys := make([][32]byte, len(refs))
	for i, r := range refs {
		keys[i] = r
	}
	return l.view(ctx, "lookup", lookupByRef, tag, keys, func(b *ledger.Blob) [32]byte { return b.Ref })
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	if len(repeats) > maxRefs {
		return ledger.View{}, classify("lookup repeats", fmt.Errorf("%d repeats: %w", len(repeats), blobd.ErrInvalid))
	}
	return l.view(ctx, "lookup repeats", lookupByRepeat, tag, repeats, func(b *ledger.Blob) [32]byte { return b.Repeat })
}

// lookupRow is one row of a lookup.
type lookupRow struct {
	now         time.Time
	timeline    string
	recovery    int16
	minimumWrap *int64
	execution   executionRow
	blob        blobRow
}

func scanLookup(r pgx.CollectableRow) (*lookupRow, error) {
	row := new(lookupRow)
	to := []any{moment{&row.now}, &row.timeline, &row.recovery, &row.minimumWrap}
	to = append(to, row.execution.to()...)
	return row, r.Scan(append(to, row.blob.to()...)...)
}

// view asks one statement and puts the blobs in the order of keys.
func (l *Ledger) view(ctx context.Context, op, query string, tag blobd.ExecutionTag,
	keys [][32]byte, keyOf func(*ledger.Blob) [32]byte,
) (ledger.View, error) {
	rows, err := list(ctx, l, op, scanLookup, query, tag[:], raw(keys), l.now())
	if err != nil {
		return ledger.View{}, err
	}
	v, err := l.viewOf(rows, keys, keyOf)
	if err != nil {
		return ledger.View{}, classify(op, err)
	}
	return v, nil
}

func (l *Ledger) viewOf(rows []*lookupRow, keys [][32]byte, keyOf func(*ledger.Blob) [32]byte) (v ledger.View, err error) {
	if len(rows) == 0 {
		return v, errNoDeployment
	}
	first := rows[0]
	if err := l.checkTimeline(first.timeline); err != nil {
		return v, err
	}
	v = ledger.View{
		Now: first.now, Recovery: ledger.RecoveryState(first.recovery), MinimumWrap: uint32(deref(first.minimumWrap)),
		Blobs: make([]*ledger.Blob, len(keys)),
	}
	if v.Execution, err = first.execution.execution(); err != nil {
		return v, err
	}
	found := make(map[[32]byte]*ledger.Blob, len(rows))
	for _, row := range rows {
		b, err := row.blob.blob()
		if err != nil {
			return v, err
		}
		if b != nil {
			found[keyOf(b)] = b
		}
	}
	for i, k := range keys {
		v.Blobs[i] = found[k] // a key that was asked for twice gets it twice
	}
	return v, nil
}
