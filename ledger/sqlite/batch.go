package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// batch is one transaction's captures. What no capture's outcome depends on
// (attempt records, subjects, counters, evidence) is gathered here and
// written together at the end.
type batch struct {
	w          *conn
	known      *facts
	memo       *memo
	totals     totals
	executions map[blobd.ExecutionTag]*executionState
	parts      [][]any
	subjects   [][]any
	entries    []ledger.Entry
	due        []newDue
	classes    map[class]int64 // the ledger's; only read
	newClasses map[class]int64 // learned by this batch
}

// executionState is an execution's row as the batch sees it, and what the batch
// adds to it.
type executionState struct {
	isNew        bool // has no row
	tenant       string
	state        ledger.ExecutionState
	keyID        [16]byte
	keyVersion   uint32
	endedAt      time.Time
	n            int64 // its row's number
	blobs, bytes int64

	// For the memo, once the batch is durable:
	made       *ledger.Execution // inserted by this batch
	rows       []ledger.Blob     // inserted
	superseded bool              // a row was
}

// totals are the counters of the deployment's row that commits move.
type totals struct{ writes, blobs, bytes, executions, records int64 }

func newBatch(ctx context.Context, w *conn, known *facts, m *memo, classes map[class]int64) (*batch, error) {
	b := &batch{
		w: w, known: known, memo: m, executions: make(map[blobd.ExecutionTag]*executionState),
		classes: classes, newClasses: map[class]int64{},
	}
	found, err := w.one(ctx, "SELECT writes, blobs, bytes, executions, records FROM deployment", func(r *row) {
		b.totals = totals{r.int(0), r.int(1), r.int(2), r.int(3), r.int(4)}
	})
	if err == nil && !found {
		err = fmt.Errorf("no deployment row: %w", blobd.ErrCorrupt)
	}
	return b, err
}

func (b *batch) flush(ctx context.Context) error {
	err := b.w.insertMany(ctx, `INSERT INTO parts (seq, execution_tag, step_id, attempt, part_index, ref, kind,
		status, provider, model, at) SELECT * FROM (VALUES `, `) AS p WHERE NOT EXISTS (SELECT 1 FROM blobs b
		WHERE b.execution_tag = p.column2 AND b.ref = p.column6 AND b.step_id = p.column3
			AND b.attempt = p.column4 AND b.part_index = p.column5) ON CONFLICT DO NOTHING`, b.parts)
	if err != nil {
		return err
	}
	if err := b.flushDue(ctx); err != nil {
		return err
	}
	err = b.w.insertMany(ctx, "INSERT INTO subjects (execution_tag, ref, subject) VALUES ",
		" ON CONFLICT DO NOTHING", b.subjects)
	if err != nil {
		return err
	}
	for _, e := range b.executions {
		if e.blobs == 0 && e.bytes == 0 {
			continue
		}
		_, err := b.w.exec(ctx, "UPDATE executions SET blobs = blobs + ?, bytes = bytes + ? WHERE n = ?",
			e.blobs, e.bytes, e.n)
		if err != nil {
			return err
		}
	}
	if err := appendEntries(ctx, b.w, ledger.JoinPuts(b.entries)...); err != nil {
		return err
	}
	t := &b.totals
	_, err = b.w.exec(ctx, "UPDATE deployment SET writes = ?, blobs = ?, bytes = ?, executions = ?, records = ?",
		t.writes, t.blobs, t.bytes, t.executions, t.records)
	return err
}

// manyRows are how many rows one insert statement takes, largest first.
var manyRows = [...]int{32, 8, 1}

// insertMany inserts rows of equal width with few statements.
func (c *conn) insertMany(ctx context.Context, head, tail string, rows [][]any) error {
	for _, size := range manyRows {
		for len(rows) >= size {
			width := len(rows[0])
			args := make([]any, 0, size*width)
			for _, r := range rows[:size] {
				args = append(args, r...)
			}
			if _, err := c.exec(ctx, c.manyQuery(head, tail, size, width), args...); err != nil {
				return err
			}
			rows = rows[size:]
		}
	}
	return nil
}

type manyKey struct {
	head string
	rows int
}

// manyQuery returns the text of an insert of several rows, made once.
func (c *conn) manyQuery(head, tail string, rows, width int) string {
	key := manyKey{head, rows}
	q, ok := c.many[key]
	if !ok {
		values := "(" + placeholders(width) + ")"
		q = head + values + strings.Repeat(", "+values, rows-1) + tail
		c.many[key] = q
	}
	return q
}
