package sqlite

import (
	"context"
	"fmt"
	"slices"
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
	for _, n := range paddings {
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
	for {
		known, err := l.known(ctx)
		if err != nil {
			return ledger.View{}, err
		}
		v, ok, err := l.viewBy(ctx, known, tag, b, keys)
		if err != nil {
			return ledger.View{}, err
		}
		if ok {
			v.Now = stored(l.now())
			return v, l.complete(ctx, known, &v)
		}
	}
}

// viewBy is view by facts, not yet completed. It is not ok if other facts came while
// the ledger was asked: which statements that takes is a matter of the facts. They are
// taken away before the memo is closed, so if they are the same after the answer came,
// its place in the memo is gone unless the answer is of now.
func (l *Ledger) viewBy(ctx context.Context, known *facts, tag blobd.ExecutionTag, b by, keys [][32]byte) (v ledger.View, ok bool, err error) {
	v = ledger.View{Recovery: known.recovery, Blobs: make([]*ledger.Blob, len(keys))}
	remembered, place := l.memo.view(tag, b, keys, &v)
	if remembered {
		return v, true, nil
	}
	a, err := l.ask(ctx, known, tag, b, keys)
	if err != nil || l.facts.Load() != known {
		return v, false, err
	}
	if place != nil {
		l.memo.fill(place, tag, a.n, a.execution, a.rows)
	}
	v.Execution = a.execution
	arrange(v.Blobs, a.rows, keys, b)
	return v, true, nil
}

// complete fills in what the facts say of a view now.
func (l *Ledger) complete(ctx context.Context, known *facts, v *ledger.View) error {
	if v.Execution == nil {
		return nil
	}
	known.show(v.Execution)
	v.MinimumWrap = known.minimumWrap[v.Execution.Tenant]
	known.setExpiry(v.Execution, v.Blobs)
	past := func(b *ledger.Blob) bool { return b != nil && b.Expired(v.Now) }
	if !known.standing[v.Execution.Tenant].holds || known.erased(v.Execution) || !slices.ContainsFunc(v.Blobs, past) {
		return nil
	}
	return l.withReader(ctx, func(c *conn) error { return tellHeld(ctx, c, v.Execution.Tag, v.Blobs, v.Now) })
}

// answer is what the ledger's file says of an execution and some of its rows.
type answer struct {
	execution *ledger.Execution // nil: it has no row
	n         int64             // of the execution
	rows      []*ledger.Blob
}

// ask answers by one statement, and where an order closes something in the tenant by
// a few that see one state.
func (l *Ledger) ask(ctx context.Context, known *facts, tag blobd.ExecutionTag, b by, keys [][32]byte) (a answer, err error) {
	query, args := executionQuery, []any{tag[:]}
	if len(keys) > 0 {
		n := padded(len(keys))
		query = l.queries[b][n]
		args = append(make([]any, 0, n+2), tag[:], tag[:])
		for i := range n {
			args = append(args, keys[min(i, len(keys)-1)][:])
		}
	}
	// The statement is shorter than what watching the context costs.
	aside := context.WithoutCancel(ctx)
	err = l.withReader(ctx, func(c *conn) error {
		a, err = askRows(aside, c, query, args, tag)
		if err != nil || a.execution == nil || !known.standing[a.execution.Tenant].closes {
			return err
		}
		return c.snapshot(aside, func() error {
			if a, err = askRows(aside, c, query, args, tag); err != nil || a.execution == nil {
				return err
			}
			return l.tellClosed(aside, c, known, a.execution, a.rows)
		})
	})
	return a, err
}

func askRows(ctx context.Context, c *conn, query string, args []any, tag blobd.ExecutionTag) (a answer, err error) {
	const number = 1 + blobColumnCount
	err = c.query(ctx, query, func(r *row) {
		if r.int(0) == 0 {
			a.execution, a.n = r.execution(1, tag), r.int(number)
		} else {
			a.rows = append(a.rows, r.blob(1))
		}
	}, args...)
	return a, err
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
