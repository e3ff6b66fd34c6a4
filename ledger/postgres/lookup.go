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

// The statements of a resolve: the deployment's row, the execution's and the blobs'
// with all that decides what may be read of them. They answer at least one row, and
// the execution stands in every row. The plain one only looks whether the tenant has
// orders that could matter, in the same snapshot; where it has, the covered one is
// asked, whose answer is whole by itself.
const (
	lookupHead = "SELECT (SELECT coalesce($3::bigint, " + serverClock + ")), " + timeline + ", d.recovery, t.minimum_wrap"
	lookupTail = `, ` + blobColumns + ", " + ruleColumns + ", "
	lookupFrom = ` FROM deployment d
		LEFT JOIN executions e ON e.tag = $1
		LEFT JOIN execution_keys k ON k.tag = e.tag
		LEFT JOIN tenants t ON t.id = e.tenant
		LEFT JOIN blobs b ON b.execution_tag = $1 AND `

	lookupPlain   = lookupHead + ", (SELECT orders_around($1)), " + executionStored + ", 0" + lookupTail + uncovered + lookupFrom
	lookupCovered = lookupHead + ", 0, " + executionColumns + lookupTail + coverColumns + lookupFrom

	ofRef    = "b.ref = ANY($2::bytea[])" + governing
	ofRepeat = "b.repeat = ANY($2::bytea[]) AND b.repeat IS NOT NULL AND b.state IN (1, 2)" + governing
)

// lookup is one way to find blobs.
type lookup struct {
	op             string
	plain, covered string
	key            func(*ledger.Blob) [32]byte
}

// Lookup implements ledger.Blobs.
func (l *Ledger) Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	if len(refs) < 1 || len(refs) > maxRefs {
		return ledger.View{}, classify("lookup", fmt.Errorf("%d refs: %w", len(refs), blobd.ErrInvalid))
	}
	keys := make([][32]byte, len(refs))
	for i, r := range refs {
		keys[i] = r
	}
	byRef := lookup{"lookup", lookupPlain + ofRef, lookupCovered + ofRef, func(b *ledger.Blob) [32]byte { return b.Ref }}
	return l.view(ctx, byRef, tag, keys)
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	if len(repeats) > maxRefs {
		return ledger.View{}, classify("lookup repeats", fmt.Errorf("%d repeats: %w", len(repeats), blobd.ErrInvalid))
	}
	byRepeat := lookup{"lookup repeats", lookupPlain + ofRepeat, lookupCovered + ofRepeat, func(b *ledger.Blob) [32]byte { return b.Repeat }}
	return l.view(ctx, byRepeat, tag, repeats)
}

// What orders_around tells.
const (
	anyHold   = 1
	anyCloser = 2
)

// lookupRow is one row of a lookup.
type lookupRow struct {
	now         time.Time
	timeline    string
	recovery    int16
	minimumWrap *int64
	around      int16 // what is open in the tenant, where the statement looked for no more
	execution   executionRow
	blob        blobRow
}

func scanLookup(r pgx.CollectableRow) (*lookupRow, error) {
	row := new(lookupRow)
	to := []any{moment{&row.now}, &row.timeline, &row.recovery, &row.minimumWrap, &row.around}
	to = append(to, row.execution.to()...)
	return row, r.Scan(append(to, row.blob.to()...)...)
}

// view asks one statement, a second one where orders may cover what it found, and
// puts the blobs in the order of keys.
func (l *Ledger) view(ctx context.Context, q lookup, tag blobd.ExecutionTag, keys [][32]byte) (v ledger.View, err error) {
	covered := false
	for _, query := range []string{q.plain, q.covered} {
		rows, err := list(ctx, l, q.op, scanLookup, query, tag[:], raw(keys), l.now())
		if err != nil {
			return ledger.View{}, err
		}
		if v, covered, err = l.viewOf(rows, keys, q.key); err != nil {
			return ledger.View{}, classify(q.op, err)
		}
		if !covered {
			break
		}
	}
	return v, nil
}

// viewOf makes the view of what was found, and reports whether orders may cover it
// that the statement did not look at.
func (l *Ledger) viewOf(rows []*lookupRow, keys [][32]byte, keyOf func(*ledger.Blob) [32]byte) (v ledger.View, covered bool, err error) {
	if len(rows) == 0 {
		return v, false, errNoDeployment
	}
	first := rows[0]
	if err := l.checkTimeline(first.timeline); err != nil {
		return v, false, err
	}
	v = ledger.View{
		Now: first.now, Recovery: ledger.RecoveryState(first.recovery), MinimumWrap: uint32(deref(first.minimumWrap)),
		Blobs: make([]*ledger.Blob, len(keys)),
	}
	if v.Execution, err = first.execution.execution(); err != nil {
		return v, false, err
	}
	covered = first.around&anyCloser != 0
	found := make(map[[32]byte]*ledger.Blob, len(rows))
	for _, row := range rows {
		b, err := row.blob.blob(first.now)
		if err != nil {
			return v, false, err
		}
		if b != nil {
			found[keyOf(b)] = b
			covered = covered || first.around&anyHold != 0 && b.Expired(first.now)
		}
	}
	for i, k := range keys {
		v.Blobs[i] = found[k] // a key that was asked for twice gets it twice
	}
	return v, covered, nil
}
