package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/ledger"
)

// Faults that end with the server as it was: they share one.
func TestFaults(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]func(*testing.T, *bench){
		"read-only mode is unavailable, reads go on":        readOnlyMode,
		"a statement past its time is unavailable":          statementTimeout,
		"a caller's deadline holds while all are busy":      poolExhaustion,
		"callers that leave give their connections back":    leavingCallers,
		"a commit whose answer is lost is whole or nothing": ambiguousCommit,
		"a session has nothing of ours after a transaction": noSessionState,
		"a pool in transaction mode may stand between":      behindAPool,
		"a role without rights over the server is enough":   plainRole,
		"commits are synchronous whatever the default":      synchronousCommit,
		"a password is in no error":                         noPassword,
		"damage is corrupt and never an absence":            damage,
		"hot statements read by index":                      plans,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

func readOnlyMode(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	do(t, session(t, l.options.URL), fmt.Sprintf("ALTER DATABASE %s SET default_transaction_read_only = on", l.pool.Config().ConnConfig.Database))
	l.pool.Reset()
	_, err := l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrUnavailable)
	_, _, err = l.Fence(t.Context(), fenceOf(1))
	refused(t, err, blobd.ErrUnavailable)
	refused(t, l.Check(t.Context()), blobd.ErrUnavailable)
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)})
	must(t, err)
	if v.Blobs[0].State != ledger.BlobLive || v.Execution.State != ledger.ExecutionOpen {
		t.Fatalf("view %+v", v)
	}
	do(t, session(t, b.server.URL("postgres")),
		fmt.Sprintf("ALTER DATABASE %s RESET default_transaction_read_only", l.pool.Config().ConnConfig.Database))
	put(t, l, 1, 2) // without help: the first refusal gave the old connections up
	must(t, l.Check(t.Context()))
}

func statementTimeout(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Timeout: 300 * time.Millisecond})
	put(t, l, 1, 1)
	c := session(t, l.options.URL)
	tag := tagOf(1)
	do(t, c, "BEGIN")
	do(t, c, "SELECT 1 FROM executions WHERE tag = $1 FOR UPDATE", tag[:])
	_, _, err := l.Fence(t.Context(), fenceOf(1))
	refused(t, err, blobd.ErrUnavailable)
	_, err = l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrUnavailable)
	do(t, c, "ROLLBACK")
	// The server gave it up too: nobody waits for the row any more.
	put(t, l, 1, 2)
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1), refOf(2)})
	must(t, err)
	if v.Execution.State != ledger.ExecutionOpen || v.Execution.Blobs != 2 {
		t.Fatalf("execution %+v", v.Execution)
	}
}

// hold takes all connections of a pool.
func hold(t *testing.T, l *Ledger) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []func()
	for range l.pool.Config().MaxConns {
		c, err := l.pool.Acquire(ctx)
		must(t, err)
		all = append(all, c.Release)
	}
	return func() {
		for _, f := range all {
			f()
		}
	}
}

func poolExhaustion(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{Timeout: time.Hour})
	put(t, l, 1, 1)
	release := hold(t, l)
	for name, call := range map[string]func(context.Context) error{
		"lookup": func(ctx context.Context) error {
			_, err := l.Lookup(ctx, tagOf(1), []blobd.Ref{refOf(1)})
			return err
		},
		"commit": func(ctx context.Context) error { _, err := l.Commit(ctx, capture(1, 2)); return err },
		"fence":  func(ctx context.Context) error { _, _, err := l.Fence(ctx, fenceOf(1)); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, blobd.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	release()
	put(t, l, 2, 3)
}

func leavingCallers(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 10 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*n)*50*time.Microsecond)
				_, err := l.Lookup(ctx, tagOf(1), []blobd.Ref{refOf(1)})
				if err != nil && !errors.Is(err, blobd.ErrUnavailable) {
					t.Errorf("lookup: %v", err)
				}
				_, err = l.Commit(ctx, capture(1, 1000*i+n+2))
				if err != nil && !errors.Is(err, blobd.ErrUnavailable) {
					t.Errorf("commit: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	l.work.Wait()
	hold(t, l)() // all are there again
	wholeExecution(t, l, 1)
}

// wholeExecution checks that what is counted of an execution is what is there.
func wholeExecution(t *testing.T, l *Ledger, x int) {
	t.Helper()
	s, err := l.Execution(t.Context(), acme, tagOf(x))
	must(t, err)
	records, err := l.Records(t.Context(), ledger.RecordQuery{Tag: tagOf(x), Limit: 100_000})
	must(t, err)
	live := int64(0)
	for _, n := range s.Classes {
		live += n
	}
	if s.Blobs != live || s.Bytes != 100*live || int64(len(records)) != live {
		t.Fatalf("%d blobs of %d bytes are counted, %d are live with %d records", s.Blobs, s.Bytes, live, len(records))
	}
	for _, r := range records {
		if r.Blob == nil || len(r.Blob.WrappedKey) == 0 {
			t.Fatalf("record %+v has no blob", r)
		}
	}
}

func noSessionState(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	_, _, err := l.Fence(t.Context(), fenceOf(1, refOf(1)))
	must(t, err)
	_, err = l.Entries(t.Context(), 0, 10)
	must(t, err)
	for range l.pool.Stat().TotalConns() {
		c, err := l.pool.Acquire(t.Context())
		must(t, err)
		defer c.Release()
		var statements, locks int
		var timeout, idle string
		must(t, c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_prepared_statements WHERE name <> ''),
			(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
			current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')`).
			Scan(&statements, &locks, &timeout, &idle))
		if statements != 0 || locks != 0 || timeout != "0" || idle != "0" {
			t.Fatalf("%d statements, %d locks, timeouts %s and %s are left", statements, locks, timeout, idle)
		}
	}
}

func behindAPool(t *testing.T, b *bench) {
	url := b.server.Pooled(t, b.server.Database(t))
	var wg sync.WaitGroup
	nodes := make([]*Ledger, 3)
	for i := range nodes {
		wg.Go(func() { // all migrate at once
			l, err := Open(t.Context(), Options{URL: url})
			if err != nil {
				t.Errorf("open: %v", err)
			}
			nodes[i] = l
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	addTenant(t, nodes[0])
	for i, l := range nodes {
		defer func() { _ = l.Close() }()
		for w := range 6 {
			wg.Go(func() {
				for n := range 20 {
					if _, err := l.Commit(t.Context(), capture(w, 1000*(6*i+w)+n)); err != nil && !isKeyConflict(err) {
						t.Errorf("commit: %v", err)
					}
					if _, err := l.Lookup(t.Context(), tagOf(w), []blobd.Ref{refOf(1000 * (6*i + w))}); err != nil {
						t.Errorf("lookup: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	for w := range 6 {
		wholeExecution(t, nodes[w%3], w)
		_, _, err := nodes[(w+1)%3].Fence(t.Context(), fenceOf(w))
		must(t, err)
	}
	s, err := nodes[0].Stats(t.Context())
	must(t, err)
	if s.Blobs != 0 || s.Executions != 0 || s.ErasuresOpen != 6 {
		t.Fatalf("stats %+v", s)
	}
}

func isKeyConflict(err error) bool {
	var conflict *ledger.KeyConflict
	return errors.As(err, &conflict)
}

func plainRole(t *testing.T, b *bench) {
	name := b.server.Database(t)
	b.server.Exec(t, "postgres", "CREATE ROLE plain LOGIN", fmt.Sprintf("ALTER DATABASE %s OWNER TO plain", name))
	defer b.server.Exec(t, "postgres", fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name), "DROP ROLE plain",
		"CREATE DATABASE "+name) // which the end of the test drops
	l, err := Open(t.Context(), Options{URL: strings.Replace(b.server.URL(name), "blobd@", "plain@", 1)})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	addTenant(t, l)
	put(t, l, 1, 1)
	_, _, err = l.Fence(t.Context(), fenceOf(1))
	must(t, err)
	_, err = l.Timeline(t.Context())
	must(t, err)
	must(t, l.Check(t.Context()))
}

func synchronousCommit(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	name := l.pool.Config().ConnConfig.Database
	b.server.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = off", name))
	defer b.server.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %s RESET synchronous_commit", name))
	l.pool.Reset()
	var inside, outside string
	must(t, l.pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&outside))
	must(t, l.write(t.Context(), "show", func(_ context.Context, x *tx) error {
		x.scan(nil, []any{&inside}, "SHOW synchronous_commit")
		return nil
	}))
	if inside != "on" || outside != "off" {
		t.Fatalf("synchronous_commit is %s in a transaction and %s outside", inside, outside)
	}
	lazy := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true, Settings: []string{"fsync=off"}})
	_, err := Open(t.Context(), Options{URL: lazy.URL(lazy.Database(t))})
	refused(t, err, blobd.ErrInvalid)
}

func noPassword(t *testing.T, b *bench) {
	const secret = "s3cr3t-w0rd"
	for _, url := range []string{
		"postgres://blobd:" + secret + "@" + b.server.Address() + "/there-is-none?sslmode=disable",
		"postgres://blobd:" + secret + "@" + b.server.Address() + ":5:5/x",
		"postgres://blobd:" + secret + "@[::1/x",
		"host=127.0.0.1 port=zero password=" + secret,
		"postgres://blobd:" + secret + "%zz@localhost/x",
	} {
		_, err := Open(t.Context(), Options{URL: url})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
			t.Errorf("error %v", err)
		}
	}
}

func damage(t *testing.T, b *bench) {
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	put(t, l, 2, 2)
	tag := tagOf(1)
	do(t, session(t, l.options.URL), "DELETE FROM execution_keys WHERE tag = $1", tag[:])
	_, err := l.Lookup(t.Context(), tag, []blobd.Ref{refOf(1)})
	refused(t, err, blobd.ErrCorrupt)
	_, err = l.Commit(t.Context(), capture(1, 3))
	refused(t, err, blobd.ErrCorrupt)
	do(t, session(t, l.options.URL), "UPDATE blobs SET repeat = '\\x00'")
	_, err = l.Lookup(t.Context(), tagOf(2), []blobd.Ref{refOf(2)})
	refused(t, err, blobd.ErrCorrupt)
}

func TestNothingIsLeftRunning(t *testing.T) {
	b := newBench(t)
	ignore := goleak.IgnoreCurrent()
	l := b.withTenant(t, Options{})
	put(t, l, 1, 1)
	must(t, l.Close())
	must(t, l.Close())
	_, err := l.Commit(t.Context(), capture(1, 2))
	refused(t, err, blobd.ErrUnavailable)
	_, err = l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1)})
	refused(t, err, blobd.ErrUnavailable)
	goleak.VerifyNone(t, ignore)
}
