package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

var noon = time.Date(2031, 1, 2, 12, 0, 0, 0, time.UTC)

const acme = "acme"

func hash(family string, n int) [32]byte { return sha256.Sum256(fmt.Append(nil, family, n)) }

func refOf(n int) blobd.Ref          { return hash("ref", n) }
func tagOf(x int) blobd.ExecutionTag { h := hash("tag", x); return blobd.ExecutionTag(h[:16]) }

func entry(kind ledger.EntryKind) ledger.Entry {
	return ledger.Entry{Tenant: acme, Kind: kind, At: noon, Body: []byte(`{"n":1}`)}
}

// capture puts the n-th blob into the x-th execution.
func capture(x, n int) ledger.Capture {
	key, wrapped := hash("key", x), hash("wrapped", n)
	return ledger.Capture{
		Tenant: acme, Tag: tagOf(x), ExecutionID: fmt.Sprint("execution-", x), At: noon,
		Key: ledger.WrappedKey{ID: [16]byte(key[:16]), Version: 1, Ciphertext: key[:]},
		Blobs: []ledger.NewBlob{{
			Ref: refOf(n), Class: "reasoning", Kind: blobd.KindText, ContentType: "text/plain", Size: 100, SealedSize: 300,
			Repeat: hash("repeat", n), WrappedKey: wrapped[:],
		}},
		Parts:  []ledger.Part{{Kind: blobd.KindText, Status: ledger.PartKept}},
		StepID: fmt.Sprint("step-", n), Attempt: 1, Entry: entry(ledger.EntryPut),
	}
}

func fenceOf(x int, refs ...blobd.Ref) ledger.Fence {
	return ledger.Fence{
		ID: fmt.Sprintf("erasure-%d-%d", x, len(refs)), At: noon, RunAt: noon,
		Scope:   ledger.Scope{Tenant: acme, Tag: tagOf(x), ExecutionID: fmt.Sprint("execution-", x), Refs: refs},
		Entries: []ledger.Entry{entry(ledger.EntryErasure)},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func refused(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// put commits the n-th blob into the x-th execution.
func put(t testing.TB, l *Ledger, x, n int) {
	t.Helper()
	_, err := l.Commit(t.Context(), capture(x, n))
	must(t, err)
}

func (b *bench) withTenant(t testing.TB, o Options) *Ledger {
	t.Helper()
	l := b.open(t, o)
	addTenant(t, l)
	return l
}

func addTenant(t testing.TB, l *Ledger) {
	t.Helper()
	must(t, l.CreateTenant(t.Context(), ledger.Tenant{ID: acme, CreatedAt: noon, MinimumWrap: 1}, entry(ledger.EntryTenant)))
}

// session is a connection of the test's own.
func session(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func do(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := c.Exec(t.Context(), sql, args...)
	must(t, err)
}

// awaitWaiting returns once n sessions of the database wait for a lock.
func awaitWaiting(t testing.TB, url string, n int) {
	t.Helper()
	c := session(t, url)
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		var have int
		must(t, c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&have))
		if have >= n {
			return
		}
	}
	t.Fatal("nobody waits")
}

// half is a transaction of a node that stops before its COMMIT.
type half struct {
	*tx
	finish func() // rolls back what was not committed; later calls do nothing
}

// begun runs f in a transaction that is left open.
func begun(t testing.TB, l *Ledger, f func(context.Context, *tx) error) half {
	t.Helper()
	conn, err := l.pool.Acquire(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	x := l.begin(ctx, conn.Conn())
	finish := sync.OnceFunc(func() {
		x.abort(context.Background())
		conn.Release()
	})
	t.Cleanup(finish) // a test that fails waits for nobody
	must(t, f(ctx, x))
	must(t, x.flush(ctx))
	return half{x, finish}
}

// later runs f aside and returns its error when asked.
func later(f func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}
