package scale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/sqlite"
)

// SQLite is a file in a folder that nobody else uses.
type SQLite struct{ Dir string }

// Name implements Engine.
func (s *SQLite) Name() string { return "sqlite" }

func (s *SQLite) path() string { return filepath.Join(s.Dir, "ledger.db") }

// Open implements Engine.
func (s *SQLite) Open(context.Context, string) (ledger.Ledger, error) {
	return sqlite.Open(s.path(), sqlite.Options{Now: time.Now})
}

func sqliteTables(entries, size, records int64) []*table {
	return []*table{
		{name: "executions", omit: []string{"n"}, changes: map[string]change{"tag": fixedBytes, "id": id, "created_at": later, "key_id": fixedBytes}},
		{name: "execution_keys", changes: map[string]change{"n": numbered(1)}},
		{name: "blobs", rows: "ORDER BY n", omit: []string{"n"}, changes: map[string]change{
			"execution_tag": fixedBytes, "ref": fixedBytes, "repeat": fixedBytes, "created_at": later, "record": numbered(records),
		}},
		{name: "due", rows: "ORDER BY blob", changes: map[string]change{"created_at": later, "blob": numbered(BlobsPerExecution)}},
		{name: "subjects", rows: "ORDER BY ref", changes: map[string]change{"execution_tag": fixedBytes, "ref": fixedBytes, "subject": person}},
		{name: "evidence", rows: "WHERE kind = 'put' ORDER BY id", changes: map[string]change{"id": numbered(entries), "at": later, "body": entryBody}},
		{name: "evidence_indexes", rows: "ORDER BY n DESC LIMIT " + strconv.Itoa(BlobsPerExecution), changes: map[string]change{
			"n": numbered(size - 1), "entry": numbered(entries), "hashes": trees(size),
		}},
	}
}

// fillPragmas make filling fast; nothing of them stays.
const fillPragmas = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=cache_size(-1000000)&_pragma=wal_autocheckpoint(100000)&_pragma=temp_store(memory)"

// Copy implements Engine: one transaction for each group, with all indexes in
// place.
func (s *SQLite) Copy(ctx context.Context, executions int, progress func(done int)) (err error) {
	db, err := sql.Open("sqlite", "file:"+s.path()+fillPragmas)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	var entries, size, records int64
	err = db.QueryRowContext(ctx, "SELECT (SELECT max(id) FROM evidence), (SELECT size FROM evidence_log), records FROM deployment").
		Scan(&entries, &size, &records)
	if err != nil {
		return err
	}
	var copies []filling
	for _, t := range sqliteTables(entries, size, records) {
		f := filling{table: t}
		if err := f.read(ctx, db); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		copies = append(copies, f)
	}
	for _, g := range groups(executions) {
		if err := fillGroup(ctx, db, copies, g); err != nil {
			return err
		}
		progress(g.to)
	}
	return s.finish(ctx, db, int64(executions-1))
}

// filling is a table with the template's rows.
type filling struct {
	*table
	columns  []string
	template [][]any
}

func (f *filling) read(ctx context.Context, db *sql.DB) (err error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+f.name+" "+f.rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if f.columns, err = rows.Columns(); err != nil {
		return err
	}
	for rows.Next() {
		row := make([]any, len(f.columns))
		to := make([]any, len(f.columns))
		for c := range row {
			to[c] = &row[c]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		f.template = append(f.template, row)
	}
	f.columns, f.template = f.without(f.columns, f.template)
	return rows.Err()
}

// rowsPerInsert bounds the arguments of a statement.
const rowsPerInsert = 100

func fillGroup(ctx context.Context, db *sql.DB, copies []filling, g group) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	for i := range copies {
		if err := copies[i].write(ctx, tx, g); err != nil {
			return fmt.Errorf("fill %s: %w", copies[i].table.name, err)
		}
	}
	return tx.Commit()
}

func (f *filling) write(ctx context.Context, tx *sql.Tx, g group) error {
	insert := func(rows int) string {
		row := "(?" + strings.Repeat(", ?", len(f.columns)-1) + ")"
		return "INSERT INTO " + f.name + " (" + strings.Join(f.columns, ", ") + ") VALUES " + row + strings.Repeat(", "+row, rows-1)
	}
	many, err := tx.PrepareContext(ctx, insert(rowsPerInsert))
	if err != nil {
		return err
	}
	args := make([]any, 0, rowsPerInsert*len(f.columns))
	err = f.each(f.columns, f.template, g, func(v []any) error {
		if args = append(args, v...); len(args) < cap(args) {
			return nil
		}
		_, err := many.ExecContext(ctx, args...)
		args = args[:0]
		return err
	})
	if err == nil && len(args) > 0 {
		_, err = tx.ExecContext(ctx, insert(len(args)/len(f.columns)), args...)
	}
	return errors.Join(err, many.Close())
}

// finish moves the counters.
func (s *SQLite) finish(ctx context.Context, db *sql.DB, copies int64) error {
	blobs := copies * BlobsPerExecution
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{"UPDATE evidence_log SET size = size + ?, last = last + ?", []any{blobs, blobs}},
		{"UPDATE evidence_checkpoints SET size = size + ?", []any{blobs}},
		{"UPDATE deployment SET writes = writes + ?, blobs = blobs + ?, records = records + ?, bytes = bytes + ?, executions = executions + ?",
			[]any{blobs, blobs, blobs, blobs * blobSize, copies}},
		{"PRAGMA wal_checkpoint(TRUNCATE)", nil},
	} {
		if _, err := db.ExecContext(ctx, q.sql, q.args...); err != nil {
			return err
		}
	}
	return nil
}

// Sizes implements Engine.
func (s *SQLite) Sizes(ctx context.Context) (sizes []Size, err error) {
	db, err := sql.Open("sqlite", "file:"+s.path()+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT ifnull(m.tbl_name, d.name), d.name, d.pgsize, ifnull(m.type, 'table') = 'index'
		FROM dbstat d LEFT JOIN sqlite_schema m ON m.name = d.name WHERE d.aggregate = TRUE ORDER BY 1, 4, 2`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var one Size
		if err := rows.Scan(&one.Table, &one.Name, &one.Bytes, &one.Index); err != nil {
			return nil, err
		}
		sizes = append(sizes, one)
	}
	return sizes, rows.Err()
}

// CPU implements Engine: there is no server.
func (s *SQLite) CPU() (time.Duration, error) { return 0, nil }

// Memory implements Engine: there is no server.
func (s *SQLite) Memory() (int64, error) { return 0, nil }
