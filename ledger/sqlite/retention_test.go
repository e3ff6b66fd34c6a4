package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	for name, query := range map[string]string{"due": dueQuery, "expired": expiredQuery, "stored": storedQuery} {
		plan := steps(t, l, query)
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN b\n") || strings.Contains(plan, "SCAN d") ||
			strings.Contains(plan, "SCAN e") || strings.Contains(plan, "SCAN k") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// A ledger of before policies had versions keeps what they said, and what it holds
// is found by sweeps.
func TestPoliciesOfBeforeHadVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	now := func() time.Time { return time.Unix(1_900_000_000, 0) }
	l := openTest(t, path, now)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	entry := ledger.Entry{Tenant: "acme", Kind: ledger.EntryTenant, At: now(), Body: []byte("{}")}
	must(l.CreateTenant(ctx, ledger.Tenant{ID: "acme", CreatedAt: now()}, entry))
	var key [16]byte
	capture := ledger.Capture{
		Tenant: "acme", Tag: blobd.ExecutionTag{1}, ExecutionID: "x", Key: ledger.WrappedKey{ID: key, Ciphertext: []byte("k")}, At: now(),
		StepID: "s", Entry: entry,
	}
	for i := range 3 {
		n := ledger.NewBlob{Ref: blobd.Ref{byte(i)}, Class: "reasoning", Kind: blobd.KindText, Repeat: [32]byte{byte(i + 1)}}
		capture.Blobs = append(capture.Blobs, n)
		capture.Parts = append(capture.Parts, ledger.Part{Index: i, Kind: blobd.KindText, Status: ledger.PartKept, Blob: i})
	}
	_, err := l.Commit(ctx, capture)
	must(err)
	must(l.write(ctx, "go back", func(w *conn) error { // to what the migration finds
		for _, q := range []string{
			"DROP TABLE policy_versions", "DROP TABLE due", "DROP TABLE classes", "DROP TABLE sweeps", "DROP INDEX blobs_expired",
			"CREATE TABLE policies (tenant TEXT NOT NULL REFERENCES tenants (id), class TEXT NOT NULL, maximum INTEGER NOT NULL, PRIMARY KEY (tenant, class)) STRICT, WITHOUT ROWID",
			"INSERT INTO policies VALUES ('acme', 'reasoning', 90000000001), ('acme', 'other', 0)",
			"DELETE FROM goose_db_version WHERE version_id = 5",
		} {
			if _, err := w.exec(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	}))
	must(l.Close())
	l = openTest(t, path, now)
	v, err := l.Lookup(ctx, capture.Tag, []blobd.Ref{{1}})
	must(err)
	if want := now().Add(91 * time.Second).UTC(); !v.Blobs[0].ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", v.Blobs[0].ExpiresAt, want)
	}
	rows, err := l.Due(ctx, ledger.DueQuery{Tenant: "acme", Class: "reasoning", Limit: 10})
	must(err)
	if len(rows) != 3 {
		t.Errorf("%d rows are found, want 3", len(rows))
	}
	classes, err := l.Classes(context.Background(), "acme", "", 10)
	must(err)
	if len(classes) != 1 || len(classes[0].Policies) != 1 || !classes[0].Policies[0].Existing {
		t.Errorf("classes: %+v", classes)
	}
}
