package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	engine "modernc.org/sqlite"
)

// pragma is a setting that every connection must have.
type pragma struct{ name, set, want string }

// walPages is how large the write-ahead log may get before the writer copies it
// into the database file.
const walPages = "4000"

// pragmas are set on every connection and read back: a driver or a file that
// does not honour one would break a promise without a sign.
func pragmas(readOnly bool) []pragma {
	p := []pragma{
		{"busy_timeout", "2000", "2000"},
		{"cache_size", "-4096", "-4096"},
		{"foreign_keys", "1", "1"},
		{"journal_mode", "wal", "wal"},
		{"secure_delete", "1", "1"},
		{"synchronous", "full", "2"},
		{"temp_store", "memory", "2"},
		{"wal_autocheckpoint", walPages, walPages},
	}
	if readOnly {
		p = append(p, pragma{"query_only", "1", "1"})
	}
	return p
}

// dsn names the file so that no character of its path is read as an option.
func dsn(path string, settings []pragma) string {
	q := url.Values{}
	for _, p := range settings {
		q.Add("_pragma", p.name+"("+p.set+")")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// statement is what the driver's prepared statements can do.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// conn is one connection with its prepared statements. It speaks to the driver
// directly: the pooling and scanning of database/sql cost more than most of the
// statements here. It is not safe for concurrent use.
type conn struct {
	raw        driver.Conn
	statements map[string]prepared
	many       map[manyKey]string
	moved      bool // since the transaction began, a statement may have changed what the memo keeps
	restated   bool // likewise, what facts are made of
}

// prepared is a statement, and whether it changes what the memo keeps, or orders,
// which both memo and facts speak of.
type prepared struct {
	statement
	moves  bool
	orders bool
}

// moving finds the statements that change executions, their keys or blobs, ordering
// those that change orders.
var (
	moving   = regexp.MustCompile(`\b(INTO|UPDATE|DELETE FROM)\s+(executions|execution_keys|blobs)\b`)
	ordering = regexp.MustCompile(`\b(INTO|UPDATE|DELETE FROM)\s+(orders|order_refs|order_subjects)\b`)
)

func openConn(ctx context.Context, path string, readOnly bool) (*conn, error) {
	settings := pragmas(readOnly)
	raw, err := new(engine.Driver).Open(dsn(path, settings))
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, statements: make(map[string]prepared), many: make(map[manyKey]string)}
	if err := c.checkPragmas(ctx, settings); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) checkPragmas(ctx context.Context, settings []pragma) error {
	for _, p := range settings {
		got := ""
		err := c.query(ctx, "PRAGMA "+p.name, func(r *row) {
			got = strings.ToLower(fmt.Sprint(r.values[0]))
		})
		if err != nil {
			return err
		}
		if got != p.want {
			return fmt.Errorf("pragma %s is %q where %q is needed", p.name, got, p.want)
		}
	}
	return nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// prepare returns the statement of a query text, made once per connection.
func (c *conn) prepare(query string) (statement, error) {
	if p, ok := c.statements[query]; ok {
		c.note(p)
		return p.statement, nil
	}
	raw, err := c.raw.Prepare(query)
	if err != nil {
		return nil, err
	}
	s, ok := raw.(statement)
	if !ok {
		return nil, errors.Join(errors.New("the driver's statements take no context"), raw.Close())
	}
	p := prepared{s, moving.MatchString(query), ordering.MatchString(query)}
	c.statements[query] = p
	c.note(p)
	return s, nil
}

// note remembers what a statement may change.
func (c *conn) note(p prepared) {
	c.moved = c.moved || p.moves || p.orders
	c.restated = c.restated || p.orders
}

// exec runs a statement and returns how many rows it changed. Arguments are
// int64, string, []byte or nil, one per "?".
func (c *conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// insert is exec for one row, and returns its number too.
func (c *conn) insert(ctx context.Context, query string, args ...any) (number, rows int64, err error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, 0, err
	}
	result, err := s.ExecContext(ctx, named(args))
	if err != nil {
		return 0, 0, err
	}
	if number, err = result.LastInsertId(); err != nil {
		return 0, 0, err
	}
	rows, err = result.RowsAffected()
	return number, rows, err
}

// query calls each once per row. The row is only valid during the call.
func (c *conn) query(ctx context.Context, query string, each func(*row), args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, named(args))
	if err != nil {
		return err
	}
	r := row{values: make([]driver.Value, len(rows.Columns()))}
	for err == nil {
		if err = rows.Next(r.values); err == nil {
			each(&r)
			err = r.err
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// one is query for at most one row, and reports whether there was one.
func (c *conn) one(ctx context.Context, query string, each func(*row), args ...any) (found bool, err error) {
	err = c.query(ctx, query, func(r *row) { found = true; each(r) }, args...)
	return found, err
}

func named(args []any) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return values
}

// transact runs f in one transaction. After nil it is durable. Whatever else
// happens, panics too, nothing of it stays; broken reports that the connection
// could not be brought back to a known state and must not be used again.
func (c *conn) transact(f func() error) (broken bool, err error) {
	ctx := context.Background() // a transaction once begun runs to its end
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		if _, rollback := c.exec(ctx, "ROLLBACK"); rollback != nil {
			broken = true // SQLite may have rolled back on its own; a new connection is sure
		}
	}()
	if err := f(); err != nil {
		return false, err
	}
	if _, err := c.exec(ctx, "COMMIT"); err != nil {
		return false, err
	}
	committed = true
	return false, nil
}

// savepoint undoes what f changed, and only that, if f refuses or fails.
func (c *conn) savepoint(ctx context.Context, f func() error) error {
	if _, err := c.exec(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	failure := f()
	if failure != nil {
		if _, err := c.exec(ctx, "ROLLBACK TO part"); err != nil {
			return fmt.Errorf("%w: %w", errRollback, err)
		}
	}
	if _, err := c.exec(ctx, "RELEASE part"); err != nil {
		return fmt.Errorf("%w: %w", errRollback, err)
	}
	return failure
}

// errRollback marks a failure after which the whole transaction must go.
var errRollback = errors.New("roll back a part of a transaction")

// placeholders returns "?,?,…" with n marks.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// padded returns how many marks a list of n values is given, so that lists of
// all lengths share a few prepared statements.
func padded(n int) int {
	i, _ := slices.BinarySearch(paddings[:], n)
	if i == len(paddings) {
		return n
	}
	return paddings[i]
}

// paddings are the lengths that lists of values are brought to.
var paddings = [...]int{1, 4, 16, 64, 256}
