package servers

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func count(t *testing.T, p *Postgres, database, table string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), p.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPostgres(t *testing.T) {
	p := NewPostgres(t, PostgresOptions{})
	t.Run("keeps what was committed over kill -9 and a restart", func(t *testing.T) {
		db := p.Database(t)
		p.Exec(t, db, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1), (2)")
		backends := p.backends()
		p.Kill()
		if len(backends) == 0 || p.Running() {
			t.Fatalf("%d backends, running: %v", len(backends), p.Running())
		}
		p.Start()
		if n := count(t, p, db, "kept"); n != 2 {
			t.Fatalf("%d rows", n)
		}
		p.Stop()
		p.Start()
		if n := count(t, p, db, "kept"); n != 2 {
			t.Fatalf("%d rows", n)
		}
	})
	t.Run("copies a prepared database", func(t *testing.T) {
		prepared := 0
		for range 2 {
			db := p.Prepared(t, "one table", func(url string) {
				prepared++
				c, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close(t.Context()) }()
				if _, err := c.Exec(t.Context(), "CREATE TABLE one (n int)"); err != nil {
					t.Fatal(err)
				}
			})
			if n := count(t, p, db, "one"); n != 0 {
				t.Fatalf("%d rows", n)
			}
		}
		if prepared != 1 {
			t.Fatalf("prepared %d times", prepared)
		}
	})
	t.Run("answers again after a pause", func(t *testing.T) {
		p.Pause()
		p.Resume()
		if err := p.ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
