package postgres

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plans looks at how the server would run the statements of a resolve and of a
// put over ten thousand rows: none may read a table that grows from end to end.
func plans(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	c := session(t, l.options.URL)
	do(t, c, `INSERT INTO executions (tag, tenant, id, state, reason, created_at, blobs, bytes)
		SELECT decode(md5(n::text), 'hex'), 'acme', 'x' || n, 1, 0, n, 0, 0 FROM generate_series(1, 10000) n`)
	do(t, c, `INSERT INTO execution_keys SELECT tag, tenant, tag, 1, tag FROM executions`)
	do(t, c, `INSERT INTO blobs SELECT tag, sha256(tag), 1, 'reasoning', 'text', '', 1, 1, '', created_at, sha256(tag), tag FROM executions`)
	do(t, c, "INSERT INTO classes (tenant, name) VALUES ('acme', 'reasoning')")
	do(t, c, "UPDATE blobs SET class_n = (SELECT n FROM classes)")
	do(t, c, "ANALYZE")
	tag, ref := tagOf(1), refOf(1)
	one := [][]byte{ref[:]}
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"resolve":   {lookupPlain + ofRef, []any{tag[:], one, nil}},
		"repeats":   {lookupPlain + ofRepeat, []any{tag[:], one, nil}},
		"put: rows": {rowsOf, []any{[][]byte{tag[:]}, one, [][]byte{tag[:]}, one}},
		"put: lock": {"SELECT tag FROM executions WHERE tag = ANY($1::bytea[]) ORDER BY tag FOR NO KEY UPDATE", []any{[][]byte{tag[:]}}},
		// Few rows are due: for many, reading a small table whole is the better plan.
		"due":         {dueQuery, []any{acme, "reasoning", 0, 0, 5, 4}},
		"expired":     {expiredQuery, []any{0, acme, 256}},
		"newest":      {"SELECT e.tag" + fromExecutions + "WHERE e.tenant = $1 ORDER BY e.created_at DESC, e.tag DESC LIMIT 10", []any{acme}},
		"wraps below": {below, []any{acme, 1}},
	} {
		for _, table := range scanned(t, c, q.sql, q.args) {
			switch table {
			case "executions", "execution_keys", "blobs", "parts", "evidence", "journal", "erasures":
				t.Errorf("%s reads all of %s", name, table)
			}
		}
	}
	first := blocks(t, c, dueQuery, acme, "reasoning", 0, 0, math.MaxInt64, 4)
	if late := blocks(t, c, dueQuery, acme, "reasoning", 9000, 0, math.MaxInt64, 4); late > first+4 {
		t.Errorf("a page of due rows reads %v blocks at the beginning and %v far from it", first, late)
	}
}

// blocks returns how many blocks a statement reads, from memory or not.
func blocks(t *testing.T, c *pgx.Conn, sql string, args ...any) float64 {
	t.Helper()
	var plan []byte
	must(t, c.QueryRow(context.Background(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...).Scan(&plan))
	var out []struct {
		Plan struct {
			Hit  float64 `json:"Shared Hit Blocks"`
			Read float64 `json:"Shared Read Blocks"`
		}
	}
	must(t, json.Unmarshal(plan, &out))
	return out[0].Plan.Hit + out[0].Plan.Read
}

// scanned returns the tables that a statement reads from end to end.
func scanned(t *testing.T, c *pgx.Conn, sql string, args []any) (tables []string) {
	t.Helper()
	var plan []byte
	// Parameters as constants, as the engine's own statements are planned.
	must(t, c.QueryRow(context.Background(), "EXPLAIN (FORMAT JSON) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...).Scan(&plan))
	var tree any
	must(t, json.Unmarshal(plan, &tree))
	walk(tree, func(node map[string]any) {
		if kind, _ := node["Node Type"].(string); strings.HasSuffix(kind, "Seq Scan") {
			tables = append(tables, node["Relation Name"].(string))
		}
	})
	return tables
}

func walk(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			walk(x, f)
		}
	case map[string]any:
		f(v)
		for _, x := range v {
			walk(x, f)
		}
	}
}
