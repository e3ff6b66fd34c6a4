package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

const pgbouncer = "/usr/sbin/pgbouncer"

// Pooled starts a pgbouncer in transaction mode before a database of the
// server, with few connections to it, and returns the database's URL through
// it. Every transaction may meet another session, and none is reset between.
func (p *Postgres) Pooled(t testing.TB, database string) string {
	t.Helper()
	if _, err := os.Stat(pgbouncer); err != nil {
		t.Fatalf("pgbouncer is missing: `make tools` installs what the tests need (%v)", err)
	}
	who := postgresUser(t)
	dir := openFolder(t, who, false)
	port := quietPort(t)
	file := filepath.Join(dir, "pgbouncer.ini")
	settings := []string{
		"[databases]",
		fmt.Sprintf("%s = host=127.0.0.1 port=%d user=blobd", database, p.port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = any", "pool_mode = transaction", "default_pool_size = 3", "max_client_conn = 200",
		"server_round_robin = 1", "",
	}
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(p.URL(database), p.Address(), loopback(port), 1)
	start(t, command{
		path: pgbouncer, args: []string{file}, env: bareEnv("LC_ALL=C"), dir: dir, user: who,
		ready: func(ctx context.Context) error {
			c, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			return errors.Join(c.Ping(ctx), c.Close(ctx))
		},
	})
	return url
}
