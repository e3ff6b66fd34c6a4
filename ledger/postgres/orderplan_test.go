package postgres

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/blobd/blobd/ledger"
)

// TestOrderPlans looks at how the server runs what asks for orders, over ten thousand
// rows and ten thousand open orders that cover something else: nothing reads a table
// that grows from end to end.
func TestOrderPlans(t *testing.T) {
	b := newBench(t)
	l := b.withTenant(t, Options{})
	c := session(t, l.options.URL)
	do(t, c, `INSERT INTO executions (tag, tenant, id, state, reason, created_at, blobs, bytes)
		SELECT decode(md5(n::text), 'hex'), 'acme', 'x' || n, 1, 0, n, 0, 0 FROM generate_series(1, 10000) n`)
	do(t, c, "INSERT INTO execution_keys SELECT tag, tenant, tag, 1, tag FROM executions")
	do(t, c, "INSERT INTO blobs SELECT tag, sha256(tag), 1, 'reasoning', 'text', '', 1, 1, '', created_at, sha256(tag), tag FROM executions")
	do(t, c, "INSERT INTO subjects SELECT execution_tag, ref, sha256(ref) FROM blobs")
	do(t, c, "INSERT INTO classes (tenant, name) VALUES ('acme', 'reasoning')")
	do(t, c, "UPDATE blobs SET class_n = (SELECT n FROM classes)")
	do(t, c, `INSERT INTO erasures (id, tenant, execution_tag, execution_id, of_refs, state, plan_executions, plan_blobs, plan_bytes,
			already_erased, not_found, requested_by, reason, legal_basis, regime, external_ref, fenced_at, record, wrap, run_at, closing)
		SELECT 'e' || n, 'acme', decode(md5(n::text), 'hex'), '', FALSE, 'erased', 0, 0, 0, 0, 0, '', '', '', '', '', n, n, 1, n, FALSE
		FROM generate_series(1, 10000) n`)
	do(t, c, "INSERT INTO erasure_rows SELECT (SELECT min(seq) FROM erasures) + created_at % 1000, execution_tag, ref, created_at % 10 > 0 FROM blobs")
	// Of each form a thousand, over executions, refs and people that have rows, and
	// over other classes; a tenth of them is lifted.
	for form, what := range map[int]string{1: "decode(md5(n::text), 'hex'), ''", 2: "decode(md5(n::text), 'hex'), ''", 3: "'', ''", 4: "'', 'c' || n", 5: "'', ''"} {
		tenant := "'acme'"
		if form == 5 {
			tenant = "'t' || n"
		}
		do(t, c, `INSERT INTO orders (id, kind, tenant, form, execution_id, refs, subjects, captured_before, erasure_id, matter, reason, owner,
				purposes, placed_at, placed_by, record, lifted_at, execution_tag, class)
			SELECT $1::text || n, 1 + n % 4, `+tenant+`, $1::int, '', '', '', n, '', '', '', '', '{}', n, '', n, CASE WHEN n % 10 = 0 THEN n END, `+what+`
			FROM generate_series(101, 2100) n`, []string{"", "1", "2", "3", "4", "5"}[form])
	}
	do(t, c, "INSERT INTO order_refs SELECT seq, sha256(execution_tag) FROM orders WHERE form = 2 AND lifted_at IS NULL")
	do(t, c, "INSERT INTO order_subjects SELECT seq, sha256(sha256(decode(md5(placed_at::text), 'hex'))) FROM orders WHERE form = 3 AND lifted_at IS NULL")
	do(t, c, "ANALYZE")

	tag, ref := [16]byte{1}, refOf(1)
	one := [][]byte{ref[:]}
	place := ledger.ScopeCursor{CreatedAt: time.UnixMicro(5000), N: 5000}
	erasures := "executions, execution_keys, blobs, subjects, orders, order_refs, order_subjects, erasures, erasure_rows"
	statements := map[string]statement{
		"resolve":        {lookupPlain + ofRef, []any{tag[:], one, nil}},
		"resolve closed": {lookupCovered + ofRef, []any{tag[:], one, nil}},
		"put: orders":    {ordersMet, []any{[]string{acme}, [][]byte{tag[:]}, []string{"reasoning"}, int64(0), one, one}},
		"put: rows":      {rowsOf, []any{[][]byte{tag[:]}, one, [][]byte{tag[:]}, one}},
		"covers a row":   {"SELECT order_over_row('acme', $1, $2, 'reasoning', 1, '{1}')", []any{tag[:], ref[:]}},
		"covers a whole": {"SELECT order_over_execution('acme', $1)", []any{tag[:]}},
		"due":            {dueQuery, []any{acme, "reasoning", 0, 0, 5, 4}},
		"met":            {metQuery, []any{acme, [][]byte{tag[:]}, one}},
		"held":           {heldInTenant, []any{"nobody"}},
		"newest":         {newestOfClass, []any{acme, "reasoning", int64(math.MaxInt64), int64(math.MaxInt64), 10}},
		"dropped":        {"SELECT r.ref" + droppedRows + " ORDER BY r.execution_tag, r.ref LIMIT 10", []any{1, []byte{}, []byte{}}},
		"erased refs":    {erasedRefs, []any{"e5"}},
		"claim":          {"SELECT seq FROM erasures WHERE state IN ('running', 'passing', 'grace', 'deferred') AND run_at <= $1 ORDER BY run_at, seq LIMIT 1", []any{1}},
	}
	person := hash("subject", 1)
	for name, s := range map[string]ledger.Scope{
		"execution": {Tenant: acme, Tag: tag}, "refs": {Tenant: acme, Tag: tag, Refs: refsOf([][32]byte{ref})},
		"subjects": {Tenant: acme, Subjects: [][32]byte{person}}, "class": {Tenant: acme, Class: "reasoning"},
		"tenant": {Tenant: acme, WholeTenant: true},
	} {
		sql, args := pageAfter(&s, place, 10)
		if name == "subjects" {
			sql, args = pageAfter(&s, ledger.ScopeCursor{}, 10)
		}
		statements["page of "+name] = statement{sql, args}
	}
	for name, q := range statements {
		for _, table := range nested(t, l.options.URL, q) {
			if strings.Contains(erasures, table) {
				t.Errorf("%s reads all of %s", name, table)
			}
		}
	}
}

type statement struct {
	sql  string
	args []any
}

// nested returns the tables that a statement, and what it asks by functions, reads from
// end to end when it is run.
func nested(t *testing.T, url string, q statement) (tables []string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	plans := 0
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, found := strings.Cut(n.Message, "plan:\n")
		var plan any
		if !found || json.Unmarshal([]byte(text), &plan) != nil {
			return
		}
		plans++
		walk(plan, func(node map[string]any) {
			if kind, _ := node["Node Type"].(string); strings.HasSuffix(kind, "Seq Scan") {
				tables = append(tables, node["Relation Name"].(string))
			}
		})
	}
	c, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer func() { _ = c.Close(context.Background()) }()
	for _, s := range []string{
		"LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0", "SET auto_explain.log_nested_statements = on",
		"SET auto_explain.log_format = json", "SET auto_explain.log_level = notice",
	} {
		do(t, c, s)
	}
	rows, err := c.Query(t.Context(), q.sql, append([]any{pgx.QueryExecModeCacheDescribe}, q.args...)...)
	must(t, err)
	rows.Close()
	must(t, rows.Err())
	if plans == 0 {
		t.Fatal("the server told no plan")
	}
	return tables
}
