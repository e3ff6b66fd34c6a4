package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/blobd/blobd"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrateLock is held by who migrates a database.
const migrateLock int64 = 0x626c6f6264 // "blobd"

// Schema says how a database stands to this program.
type Schema struct {
	Have  int64 // number of its newest migration; 0: an empty database
	Known int64 // of this program's
}

// Status reads the schema of the database at url, and changes nothing.
func Status(ctx context.Context, url string) (Schema, error) {
	s, err := withProvider(ctx, url, func(ctx context.Context, p *goose.Provider, db *sql.DB) (Schema, error) {
		return schemaOf(ctx, p, db)
	})
	return s, classify("migration status", err)
}

// Migrate brings the database at url up to this program's schema. Programs that
// migrate at once wait for each other. A schema newer than this program's is
// ErrConflict and is left as it is.
func Migrate(ctx context.Context, url string) error {
	_, err := withProvider(ctx, url, func(ctx context.Context, p *goose.Provider, db *sql.DB) (Schema, error) {
		s, err := schemaOf(ctx, p, db)
		if err != nil || s.Have == s.Known {
			return s, err
		}
		if s.Have > s.Known {
			return s, newer(s)
		}
		return s, migrateAlone(ctx, p, db)
	})
	return classify("migrate", err)
}

func newer(s Schema) error {
	return fmt.Errorf("the ledger's schema %d is newer than this program's %d: %w", s.Have, s.Known, blobd.ErrConflict)
}

// migrateAlone holds a lock in a transaction beside the one that migrates, so
// that it needs no session of its own and ends with its holder. Who does not get
// it waits without a connection: behind a small pool the holder needs them.
func migrateAlone(ctx context.Context, p *goose.Provider, db *sql.DB) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 20*time.Millisecond, time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		alone, err := migrateIfAlone(ctx, p, db)
		if err == nil && !alone {
			return struct{}{}, errMigrating
		}
		if err != nil {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	return err
}

var errMigrating = fmt.Errorf("another program migrates the ledger: %w", blobd.ErrUnavailable)

// migrateIfAlone migrates, and reports whether it had the lock.
func migrateIfAlone(ctx context.Context, p *goose.Provider, db *sql.DB) (alone bool, err error) {
	guard, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, guard.Rollback()) }()
	_, err = guard.ExecContext(ctx,
		"SELECT set_config('idle_in_transaction_session_timeout', '0', TRUE), set_config('statement_timeout', '0', TRUE)")
	if err != nil {
		return false, err
	}
	err = guard.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock($1)", migrateLock).Scan(&alone)
	if err != nil || !alone {
		return false, err
	}
	s, err := schemaOf(ctx, p, db) // others may have been first
	switch {
	case err != nil || s.Have == s.Known:
		return true, err
	case s.Have > s.Known:
		return true, newer(s)
	}
	_, err = p.Up(ctx)
	return true, err
}

// schemaOf reads the versions. goose would make its table to read it.
func schemaOf(ctx context.Context, p *goose.Provider, db *sql.DB) (s Schema, err error) {
	known := p.ListSources()
	s.Known = known[len(known)-1].Version
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there); err != nil || !there {
		return s, err
	}
	s.Have, err = p.GetDBVersion(ctx)
	return s, err
}

func withProvider[T any](ctx context.Context, url string, f func(context.Context, *goose.Provider, *sql.DB) (T, error)) (result T, err error) {
	config, err := parse(url)
	if err != nil {
		return result, err
	}
	c := config.ConnConfig
	if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	db := stdlib.OpenDB(*c)
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return result, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return result, err
	}
	return f(ctx, p, db)
}
