package postgres

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/internal/servers"
)

// bench lends empty ledgers on one server. To make a database costs a hundred
// times what emptying one does, so that of a closed ledger is emptied and lent
// again.
type bench struct {
	t      testing.TB // whose end is the server's
	server *servers.Postgres

	mu   sync.Mutex
	lent map[*Ledger]string // guarded by mu; to the URL of its database
}

func newBench(t testing.TB, settings ...string) *bench {
	t.Helper()
	return &bench{
		t:      t,
		server: servers.NewPostgres(t, servers.PostgresOptions{Settings: settings, InMemory: true}),
		lent:   make(map[*Ledger]string),
	}
}

// open lends an empty ledger until it is closed, which the end of t does too.
func (b *bench) open(t testing.TB, o Options) *Ledger {
	t.Helper()
	o.URL = b.url(t)
	return b.openAt(t, o)
}

// openAt opens what lies at a URL that the bench lent.
func (b *bench) openAt(t testing.TB, o Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent[l] = o.URL
	return l
}

// reopen closes a ledger and opens what it left behind.
func (b *bench) reopen(t testing.TB, l *Ledger, o Options) *Ledger {
	t.Helper()
	b.mu.Lock()
	o.URL = b.lent[l]
	delete(b.lent, l)
	b.mu.Unlock()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return b.openAt(t, o)
}

// url returns the URL of an empty database.
func (b *bench) url(t testing.TB) string {
	t.Helper()
	if url := b.left(); url != "" {
		empty(t, url)
		return url
	}
	return b.fresh(t)
}

// fresh returns the URL of a database that no ledger had.
func (b *bench) fresh(t testing.TB) string {
	t.Helper()
	return b.server.URL(b.server.Prepared(b.t, "ledger", func(url string) {
		if err := Migrate(context.Background(), url); err != nil {
			t.Fatal(err)
		}
	}))
}

// left takes the database of a ledger that was closed.
func (b *bench) left() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l, url := range b.lent {
		l.mu.RLock()
		closed := l.closed
		l.mu.RUnlock()
		if closed {
			delete(b.lent, l)
			return url
		}
	}
	return ""
}

// empty brings a ledger's database back to how the migrations left it.
func empty(t testing.TB, url string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, `BEGIN;
		SET LOCAL session_replication_role = replica;
		DELETE FROM evidence_checkpoints; DELETE FROM evidence_indexes; DELETE FROM free_texts; DELETE FROM evidence;
		DELETE FROM order_refs; DELETE FROM order_subjects; DELETE FROM orders; DELETE FROM erasure_rows;
		DELETE FROM clock_events; DELETE FROM erasure_refs; DELETE FROM erasures; DELETE FROM journal; DELETE FROM requests; DELETE FROM epochs;
		DELETE FROM parts; DELETE FROM subjects; DELETE FROM blobs; DELETE FROM execution_keys; DELETE FROM executions;
		DELETE FROM webhook_deliveries; DELETE FROM webhooks; DELETE FROM webhook_feed; INSERT INTO webhook_feed DEFAULT VALUES;
		DELETE FROM tokens; DELETE FROM sweeps; DELETE FROM classes; DELETE FROM policy_versions; DELETE FROM tenants;
		DELETE FROM counters; INSERT INTO counters (slot) SELECT generate_series(0, 63);
		DELETE FROM deployment; INSERT INTO deployment DEFAULT VALUES;
		DELETE FROM clock_watch; INSERT INTO clock_watch DEFAULT VALUES;
		DELETE FROM evidence_log; INSERT INTO evidence_log DEFAULT VALUES;
		ALTER SEQUENCE evidence_ids RESTART;
		COMMIT`)
	if err != nil {
		t.Fatal(err)
	}
}

// openTest opens a ledger and closes it with t.
func openTest(t testing.TB, o Options) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
