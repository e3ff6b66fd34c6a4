package sqlite

import (
	"context"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// maxRefs bounds what one call may name.
const maxRefs = 256

// executionQuery answers for an execution; one of the blob queries is joined to
// it, so that one statement sees one state. The first column tells them apart.
const (
	executionQuery = "SELECT 0, " + executionColumns +
		" FROM executions e LEFT JOIN execution_keys k ON k.n = e.n WHERE e.tag = ?"
	blobsQuery = " UNION ALL SELECT 1, " + blobColumns +
		" FROM blobs b WHERE b.execution_tag = ? AND "
)

// lookupQueries are the statements for lists of each padded length.
type lookupQueries map[int]string

func makeLookupQueries(condition, more string) lookupQueries {
	q := make(lookupQueries)
	for _, n := range []int{1, 4, 16, 64, 256} {
		q[n] = executionQuery + blobsQuery + condition + " IN (" + placeholders(n) + ")" + more
	}
	return q
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
	v, err := l.view(ctx, tag, l.byRef, keys, func(b *ledger.Blob) [32]byte { return b.Ref })
	return v, classify("lookup", err)
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	if len(repeats) > maxRefs {
		return ledger.View{}, classify("lookup repeats", fmt.Errorf("%d repeats: %w", len(repeats), blobd.ErrInvalid))
	}
	v, err := l.view(ctx, tag, l.byRepeat, repeats, func(b *ledger.Blob) [32]byte { return b.Repeat })
	return v, classify("lookup repeats", err)
}

// view asks one statement for an execution and the blobs that keys name, and
// puts them in the order of keys.
func (l *Ledger) view(ctx context.Context, tag blobd.ExecutionTag, queries lookupQueries,
	keys [][32]byte, keyOf func(*ledger.Blob) [32]byte,
) (ledger.View, error) {
	known, err := l.known(ctx)
	if err != nil {
		return ledger.View{}, err
	}
	query, args := executionQuery, []any{tag[:]}
	if len(keys) > 0 {
		n := padded(len(keys))
		query = queries[n]
		args = append(make([]any, 0, n+2), tag[:], tag[:])
		for i := range n {
			args = append(args, keys[min(i, len(keys)-1)][:])
		}
	}
	v := ledger.View{Recovery: known.recovery, Blobs: make([]*ledger.Blob, len(keys))}
	var found []*ledger.Blob
	err = l.withReader(ctx, func(c *conn) error {
		// The statement is shorter than what watching the context costs.
		return c.query(context.WithoutCancel(ctx), query, func(r *row) {
			if r.int(0) == 0 {
				v.Execution = r.execution(1, tag)
			} else {
				found = append(found, r.blob(1))
			}
		}, args...)
	})
	if err != nil {
		return ledger.View{}, err
	}
	v.Now = stored(l.now())
	if v.Execution != nil {
		v.MinimumWrap = known.minimumWrap[v.Execution.Tenant]
		known.setMaximum(v.Execution.Tenant, found)
	}
	arrange(v.Blobs, found, keys, keyOf)
	return v, nil
}

// setMaximum fills in what the policies say now.
func (f *facts) setMaximum(tenant string, blobs []*ledger.Blob) {
	for _, b := range blobs {
		b.Maximum = f.maximum[class{tenant, b.Class}]
	}
}

// arrange puts each found blob where its key was asked for; a key that was
// asked for twice gets it twice.
func arrange(to, found []*ledger.Blob, keys [][32]byte, keyOf func(*ledger.Blob) [32]byte) {
	if len(keys) == 1 && len(found) == 1 {
		to[0] = found[0]
		return
	}
	byKey := make(map[[32]byte]*ledger.Blob, len(found))
	for _, b := range found {
		byKey[keyOf(b)] = b
	}
	for i, k := range keys {
		to[i] = byKey[k]
	}
}
