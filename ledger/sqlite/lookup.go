package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// maxRefs bounds what one call may name.
const maxRefs = 256

// executionQuery answers for an execution; one of the blob queries is joined to
// it, so that one statement sees one state. The first column tells them apart.
const (
	executionQuery = "SELECT 0, " + executionColumns + ", e.n" +
		" FROM executions e LEFT JOIN execution_keys k ON k.n = e.n WHERE e.tag = ?"
	blobsQuery = " UNION ALL SELECT 1, " + blobColumns + ", 0" +
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
	v, err := l.view(ctx, tag, byRef, keys)
	return v, classify("lookup", err)
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	if len(repeats) > maxRefs {
		return ledger.View{}, classify("lookup repeats", fmt.Errorf("%d repeats: %w", len(repeats), blobd.ErrInvalid))
	}
	v, err := l.view(ctx, tag, byRepeat, repeats)
	return v, classify("lookup repeats", err)
}

// view answers for an execution and the blobs that keys name, in the order of
// keys: from the memo, or by one statement.
func (l *Ledger) view(ctx context.Context, tag blobd.ExecutionTag, b by, keys [][32]byte) (ledger.View, error) {
	known, err := l.known(ctx)
	if err != nil {
		return ledger.View{}, err
	}
	v := ledger.View{Recovery: known.recovery, Blobs: make([]*ledger.Blob, len(keys))}
	remembered, place := l.memo.view(tag, b, keys, &v)
	if !remembered {
		if err := l.ask(ctx, tag, b, keys, &v, place); err != nil {
			return ledger.View{}, err
		}
	}
	v.Now = stored(l.now())
	if v.Execution != nil {
		known.show(v.Execution)
		v.MinimumWrap = known.minimumWrap[v.Execution.Tenant]
		known.setExpiry(v.Execution, v.Blobs)
	}
	return v, nil
}

// ask fills in a view by one statement, and place, if there is one.
func (l *Ledger) ask(ctx context.Context, tag blobd.ExecutionTag, b by, keys [][32]byte, v *ledger.View, place *vacancy) error {
	query, args := executionQuery, []any{tag[:]}
	if len(keys) > 0 {
		n := padded(len(keys))
		query = l.queries[b][n]
		args = append(make([]any, 0, n+2), tag[:], tag[:])
		for i := range n {
			args = append(args, keys[min(i, len(keys)-1)][:])
		}
	}
	const number = 1 + blobColumnCount
	var n int64
	var found []*ledger.Blob
	err := l.withReader(ctx, func(c *conn) error {
		// The statement is shorter than what watching the context costs.
		return c.query(context.WithoutCancel(ctx), query, func(r *row) {
			if r.int(0) == 0 {
				v.Execution, n = r.execution(1, tag), r.int(number)
			} else {
				found = append(found, r.blob(1))
			}
		}, args...)
	})
	if err != nil {
		return err
	}
	if place != nil {
		l.memo.fill(place, tag, n, v.Execution, found)
	}
	arrange(v.Blobs, found, keys, b)
	return nil
}

// setExpiry fills in what the policies say now.
func (f *facts) setExpiry(e *ledger.Execution, blobs []*ledger.Blob) {
	for _, b := range blobs {
		if b != nil {
			b.ExpiresAt = f.expires(e.Tenant, b, e.EndedAt)
		}
	}
}

// expires is a row's ExpiresAt; a tombstone has no class, and none.
func (f *facts) expires(tenant string, b *ledger.Blob, ended time.Time) time.Time {
	if b.Class == "" {
		return time.Time{}
	}
	return ledger.EndOf(f.versions[class{tenant, b.Class}], b.CreatedAt, ended)
}

// arrange puts each found blob where its key was asked for; a key that was
// asked for twice gets it twice.
func arrange(to, found []*ledger.Blob, keys [][32]byte, named by) {
	if len(keys) == 1 && len(found) == 1 {
		to[0] = found[0]
		return
	}
	byKey := make(map[[32]byte]*ledger.Blob, len(found))
	for _, b := range found {
		byKey[named.of(b)] = b
	}
	for i, k := range keys {
		to[i] = byKey[k]
	}
}
