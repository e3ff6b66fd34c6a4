package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	engine "modernc.org/sqlite"

	"github.com/blobd/blobd"
)

//go:embed migrations/*.sql
var migrations embed.FS

// connector hands out connections with the ledger's pragmas.
type connector struct{ dsn string }

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return new(engine.Driver) }

// migrate brings the file's schema up to this program's.
func migrate(ctx context.Context, path string) (err error) {
	db := sql.OpenDB(connector{dsn(path, pragmas(false))})
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > known {
		return fmt.Errorf("the ledger's schema %d is newer than this program's %d: %w", have, known, blobd.ErrConflict)
	}
	_, err = p.Up(ctx)
	return err
}
