package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/postgres"
)

// Postgres is a PostgreSQL server that nobody else uses, with an empty database
// of a superuser.
type Postgres struct {
	URL  string
	Data string // its data folder
}

// Name implements Engine.
func (p *Postgres) Name() string { return "postgres" }

// Open implements Engine.
func (p *Postgres) Open(ctx context.Context, settings string) (ledger.Ledger, error) {
	return postgres.Open(ctx, postgres.Options{URL: p.URL + "&" + settings})
}

func postgresTables() []*table {
	const template = "WHERE execution_tag = (SELECT tag FROM executions) ORDER BY "
	return []*table{
		{name: "executions", changes: map[string]change{"tag": fixedBytes, "id": id, "created_at": later}},
		{name: "execution_keys", changes: map[string]change{"tag": fixedBytes, "id": fixedBytes}},
		{name: "blobs", rows: template + "created_at", changes: map[string]change{
			"execution_tag": fixedBytes, "ref": fixedBytes, "repeat": fixedBytes, "created_at": later,
		}},
		{name: "subjects", rows: template + "ref", changes: map[string]change{
			"execution_tag": fixedBytes, "ref": fixedBytes, "subject": person,
		}},
		{name: "parts", rows: template + "seq", changes: map[string]change{
			"execution_tag": fixedBytes, "ref": fixedBytes, "at": later,
		}},
		{name: "evidence", rows: "WHERE kind = 'put' ORDER BY id", changes: map[string]change{"at": later, "body": entryBody}},
		{name: "evidence_indexes", rows: "ORDER BY n DESC LIMIT " + strconv.Itoa(BlobsPerExecution)},
	}
}

// Copy implements Engine: COPY with all indexes in place. Triggers are off, for
// one of them takes a lock for each row.
func (p *Postgres) Copy(ctx context.Context, executions int, progress func(done int)) (err error) {
	c, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if _, err := c.Exec(ctx, "SET session_replication_role = replica; SET synchronous_commit = off"); err != nil {
		return err
	}
	var last, size int64
	if err := c.QueryRow(ctx, "SELECT max(id), (SELECT size FROM evidence_log) FROM evidence").Scan(&last, &size); err != nil {
		return err
	}
	var copies []copying
	for _, t := range postgresTables() {
		switch t.name {
		case "evidence":
			t.changes["id"] = numbered(last)
		case "evidence_indexes":
			t.changes = map[string]change{"entry": numbered(last), "n": numbered(size - 1), "hashes": trees(size)}
		}
		cp := copying{table: t}
		if err := cp.read(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		copies = append(copies, cp)
	}
	for _, g := range groups(executions) {
		for i := range copies {
			if err := copies[i].write(ctx, c, g); err != nil {
				return fmt.Errorf("copy %s: %w", copies[i].table.name, err)
			}
		}
		progress(g.to)
	}
	return p.finish(ctx, c, int64(executions-1))
}

// copying is a table with the template's rows.
type copying struct {
	*table
	columns  []string
	template [][]any
}

// read reads the template's rows, without the columns that the server numbers.
func (cp *copying) read(ctx context.Context, c *pgx.Conn) error {
	rows, err := c.Query(ctx, `SELECT column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name = $1 AND is_identity = 'YES'`, cp.name)
	if err != nil {
		return err
	}
	if cp.omit, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	rows, err = c.Query(ctx, "SELECT * FROM "+cp.name+" "+cp.rows)
	if err != nil {
		return err
	}
	for _, f := range rows.FieldDescriptions() {
		cp.columns = append(cp.columns, f.Name)
	}
	cp.template, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]any, error) { return r.Values() })
	cp.columns, cp.template = cp.without(cp.columns, cp.template)
	return err
}

func (cp *copying) write(ctx context.Context, c *pgx.Conn, g group) error {
	rows := make(chan []any, 64)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(rows)
		_ = cp.each(cp.columns, cp.template, g, func(v []any) error { // its only error is that of ctx
			select {
			case rows <- append([]any(nil), v...):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	_, err := c.CopyFrom(ctx, pgx.Identifier{cp.name}, cp.columns, pgx.CopyFromFunc(func() ([]any, error) {
		return <-rows, nil
	}))
	return err
}

// finish moves the counters and looks after the tables as autovacuum would.
func (p *Postgres) finish(ctx context.Context, c *pgx.Conn, copies int64) error {
	blobs := copies * BlobsPerExecution
	if _, err := c.Exec(ctx, "SELECT setval('evidence_ids', (SELECT max(id) FROM evidence))"); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "UPDATE evidence_log SET size = size + $1, low = low + $1", blobs)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "UPDATE evidence_checkpoints SET size = size + $1", blobs); err != nil {
		return err
	}
	_, err = c.Exec(ctx, `UPDATE counters SET writes = writes + $1, blobs = blobs + $1, entries = entries + $1,
		bytes = bytes + $2, executions = executions + $3 WHERE slot = 0`, blobs, blobs*blobSize, copies)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// Sizes implements Engine.
func (p *Postgres) Sizes(ctx context.Context) (sizes []Size, err error) {
	c, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	rows, err := c.Query(ctx, `SELECT coalesce(t.relname, c.relname), c.relname, pg_table_size(c.oid), i.indexrelid IS NOT NULL
		FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i') ORDER BY 1, 4, 2`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (s Size, err error) {
		return s, r.Scan(&s.Table, &s.Name, &s.Bytes, &s.Index)
	})
}

// processes are the server's, all of them.
func (p *Postgres) processes() ([]int, error) {
	b, err := os.ReadFile(filepath.Join(p.Data, "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	parent, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, err
	}
	return family(parent)
}

// CPU implements Engine.
func (p *Postgres) CPU() (time.Duration, error) {
	pids, err := p.processes()
	if err != nil {
		return 0, err
	}
	return cpuOf(pids), nil
}

// Memory implements Engine.
func (p *Postgres) Memory() (int64, error) {
	pids, err := p.processes()
	if err != nil {
		return 0, err
	}
	return memoryOf(pids)
}
