package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobd/blobd/internal/servers"
)

func TestPostgresScripts(t *testing.T) {
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	url := server.URL(server.Database(t))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/postgres",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values["servers"] = make(map[string]*process)
			env.Setenv("BLOBD_LEDGER_DSN", url)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    serveScript,
			"term":     termScript,
			"kill9":    killScript,
			"exitcode": exitCodeScript,
			"field":    fieldScript,
		},
	})
}

// killScript: kill9 DIR ends a server by SIGKILL.
func killScript(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	p := ts.Value("servers").(map[string]*process)[dir]
	if neg || p == nil {
		ts.Fatalf("usage: kill9 DIR")
	}
	ts.Check(p.cmd.Process.Kill())
	<-p.ended // how it ended is known
	ts.Setenv("BLOBD_SERVER", "")
	ts.Setenv("BLOBD_DATA_DIR", "")
}

func TestMigrateRefuses(t *testing.T) {
	if code := run(t.Context(), []string{"migrate", "status"}, nil, nil, io.Discard, io.Discard); code != exitError {
		t.Errorf("without a shared ledger: exit code %d", code)
	}
	server := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})
	url := server.URL(server.Database(t))
	environ := []string{"BLOBD_LEDGER_DSN=" + url}
	if code := run(t.Context(), []string{"migrate", "up"}, environ, nil, io.Discard, io.Discard); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	_, err = c.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
	must(t, err)
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"}} {
		if code := run(t.Context(), args, environ, nil, io.Discard, io.Discard); code != exitError {
			t.Errorf("%s with a newer schema: exit code %d", fmt.Sprint(args), code)
		}
	}
	server.Stop()
	if code := run(t.Context(), []string{"migrate", "status"}, environ, nil, io.Discard, io.Discard); code != exitUnsure {
		t.Errorf("without a server: exit code %d", code)
	}
}
