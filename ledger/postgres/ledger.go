// Package postgres is the shared engine of the ledger: one PostgreSQL database
// and any number of equal nodes.
//
// It promises what package ledger promises. Transactions run at READ COMMITTED
// with explicit locks: whoever changes an execution holds its row, and checks in
// a later statement. Locks are taken in one order (tenant, erasure, executions
// by tag, blobs, counters, journal), so waiting never goes round; what the server still
// rolls back because of others is done again a few times. Nothing hangs on a
// session: a pool in transaction mode may stand between. It answers from the
// primary only, and what it says of an execution comes from one statement.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/groupcommit"
	"github.com/blobd/blobd/ledger"
)

// Options are what a ledger needs from outside. URL is required.
type Options struct {
	// URL is a connection URL or string as libpq knows it, of one host or several.
	// pool_max_conns (default 16) bounds the connections of this node. By default
	// no prepared statement outlives a round trip, which is right behind a pool in
	// transaction mode; default_query_exec_mode=cache_statement is faster and right
	// where the node speaks to the server itself.
	URL string
	// Now is the ledger's clock; nil: the server's.
	Now func() time.Time
	// Timeout bounds one call whose context has no earlier deadline; 0 is 10 s.
	Timeout time.Duration
	// Pause is how long the server waits for a node in the midst of a transaction
	// before it rolls back and lets others go on; 0 is 5 s.
	Pause time.Duration
	// MaxBatch is how many commits may share a transaction; 0 is 64.
	MaxBatch int
}

// Ledger implements ledger.Ledger. Make one with Open.
type Ledger struct {
	pool    *pgxpool.Pool
	options Options
	commits *groupcommit.Group[*commit]
	trusted atomic.Pointer[string]

	mu     sync.RWMutex
	closed bool           // guarded by mu
	work   sync.WaitGroup // commits that run; added to under mu
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open connects to the database and brings an older schema up to date, one node
// at a time. A schema newer than this program's is ErrConflict; a URL that
// cannot be read is ErrInvalid, and is never repeated.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	l, err := open(ctx, o)
	if err != nil {
		return nil, classify("open", err)
	}
	return l, nil
}

func open(ctx context.Context, o Options) (_ *Ledger, err error) {
	if o.Timeout < 0 || o.Pause < 0 || o.MaxBatch < 0 {
		return nil, fmt.Errorf("options: %w", blobd.ErrInvalid)
	}
	o.Timeout = or(o.Timeout, 10*time.Second)
	o.Pause = or(o.Pause, 5*time.Second)
	o.MaxBatch = or(o.MaxBatch, 64)
	config, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	if err := Migrate(ctx, o.URL); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	l := &Ledger{pool: pool, options: o}
	l.commits = groupcommit.New(groupcommit.Limits{Items: o.MaxBatch}, nil, l.commitBatch)
	if err := l.checkServer(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// checkServer refuses a server on which a commit is not durable or a text is
// not kept as it is. synchronous_commit is each transaction's own: see begin.
func (l *Ledger) checkServer(ctx context.Context) error {
	for name, want := range map[string]string{"fsync": "on", "full_page_writes": "on", "server_encoding": "UTF8"} {
		got, _, err := one(ctx, l, "check the server", pgx.RowTo[string], "SELECT current_setting($1)", name)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("the server's %s is %q where %q is needed: %w", name, got, want, blobd.ErrInvalid)
		}
	}
	return nil
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

var errURL = fmt.Errorf("the ledger's URL cannot be read: %w", blobd.ErrInvalid)

// parse reads a URL. Its errors may repeat a password, so they are dropped.
func parse(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errURL
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = 16
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	switch c.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("default_query_exec_mode: arguments need their types: %w", blobd.ErrInvalid)
	}
	c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	c.ConnConfig.ConnectTimeout = or(c.ConnConfig.ConnectTimeout, 5*time.Second)
	return c, nil
}

var errClosed = fmt.Errorf("the ledger is closed: %w", blobd.ErrUnavailable)

// enter counts a commit that Close must wait for.
func (l *Ledger) enter() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	l.work.Add(1)
	return nil
}

func (l *Ledger) isClosed() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.closed
}

// Close waits for what runs and ends all use; calls after it are
// ErrUnavailable. Closing again does nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
	l.pool.Close()
	return nil
}

// now is the ledger's clock as an argument of statements: NULL lets the server
// take its own.
func (l *Ledger) now() any {
	if l.options.Now == nil {
		return nil
	}
	return l.options.Now().UnixMicro()
}

var errNoDeployment = errors.Join(errors.New("no deployment row"), blobd.ErrCorrupt)
