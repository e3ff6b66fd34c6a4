package sqlite

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// steps is the plan of a statement, a line for each step.
func steps(t *testing.T, l *Ledger, query string) string {
	t.Helper()
	var lines []string
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = int64(0)
	}
	err := l.read(t.Context(), "explain", func(c *conn) error {
		return c.query(t.Context(), "EXPLAIN QUERY PLAN "+query, func(r *row) { lines = append(lines, r.text(3)) }, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// What a sweep reads is found by an index and never sorted, so that its time follows
// what is due.
func TestWhatIsDueIsFoundByAnIndex(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	held := standing{holds: true}
	for name, query := range map[string]string{
		"due": standing{}.selectDue(dueQuery), "expired": standing{}.selectDue(expiredQuery), "stored": storedQuery,
		"due, with holds": held.selectDue(dueQuery), "expired, with holds": held.selectDue(expiredQuery),
	} {
		plan := steps(t, l, query)
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN b\n") || strings.Contains(plan, "SCAN d") ||
			strings.Contains(plan, "SCAN e") || strings.Contains(plan, "SCAN k") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// older makes the file of an older program, whose schema had a version, and fills it.
func older(t *testing.T, path string, version int64, statements ...string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db := sql.OpenDB(connector{dsn(path, pragmas(false))})
	files, err := fs.Sub(migrations, "migrations")
	must(err)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	must(err)
	_, err = p.UpTo(t.Context(), version)
	must(err)
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	must(db.Close())
}

const (
	olderTenant = "INSERT INTO tenants (id, created_at, name_key, index_key, index_wrap, minimum_wrap) VALUES ('acme', 0, x'01', x'02', 1, 1)"
	// An execution with the tag 01 and 15 zeros, and a blob in it.
	olderExecution = `INSERT INTO executions (tag, tenant, id, state, reason, key_id, key_version, created_at, blobs, bytes)
		VALUES (x'01000000000000000000000000000000', 'acme', 'x', 1, 0, zeroblob(16), 1, 1900000000000000, 3, 30)`
	olderKey  = "INSERT INTO execution_keys (n, wrapped) VALUES (1, x'09')"
	olderBlob = `INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size, step_id, created_at, repeat, wrapped)
		VALUES (x'01000000000000000000000000000000', x'%s', 1, 'reasoning', 'text', '', 10, 20, 's', 1900000000000000,
		x'%s', x'08')`
)

// A ledger of before policies had versions keeps what they said, and what it holds
// is found by sweeps.
func TestPoliciesOfBeforeHadVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	captured := time.Unix(1_900_000_000, 0).UTC()
	statements := []string{olderTenant, olderExecution, olderKey}
	for n := range 3 {
		statements = append(statements, fmt.Sprintf(olderBlob, blobd.Ref{byte(n)}.Hex(), blobd.Ref{byte(n + 1)}.Hex()))
	}
	statements = append(statements, "INSERT INTO policies VALUES ('acme', 'reasoning', 90000000001), ('acme', 'other', 0)")
	older(t, path, 4, statements...)
	l := openTest(t, path, time.Now)
	ctx := t.Context()
	v, err := l.Lookup(ctx, blobd.ExecutionTag{1}, []blobd.Ref{{1}})
	if err != nil {
		t.Fatal(err)
	}
	if want := captured.Add(91 * time.Second); !v.Blobs[0].ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", v.Blobs[0].ExpiresAt, want)
	}
	rows, err := l.Due(ctx, ledger.DueQuery{Tenant: "acme", Class: "reasoning", Limit: 10})
	if err != nil || len(rows) != 3 {
		t.Errorf("%d rows are found, want 3: %v", len(rows), err)
	}
	classes, err := l.Classes(ctx, "acme", "", 10)
	if err != nil || len(classes) != 1 || len(classes[0].Policies) != 1 || !classes[0].Policies[0].Existing {
		t.Errorf("classes: %+v: %v", classes, err)
	}
}
