package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// A PostgreSQL backup is restored into a database of its own, and looked into there.
func TestBackupCheckOfADatabase(t *testing.T) {
	server := servers.NewPostgres(t, servers.PostgresOptions{InMemory: true})
	live := server.Database(t)
	folder := t.TempDir()
	settings := map[string]string{"ledger.dsn": server.URL(live)}
	r := start(t, testConfig(t, folder, settings))
	if status, answer := r.ask(t, "POST", putPath, strings.NewReader("a thought")); status != http.StatusCreated {
		t.Fatalf("put: %d %s", status, answer)
	}
	r.end(t)
	server.Exec(t, "postgres", "CREATE DATABASE restored TEMPLATE "+live)
	r = start(t, testConfig(t, folder, settings))
	erase := `{"scope":{"executionId":"x"},"reason":"asked for"}`
	if status, answer := r.ask(t, "POST", "/v1/erasures", strings.NewReader(erase)); status != http.StatusAccepted {
		t.Fatalf("erase: %d %s", status, answer)
	}
	r.end(t)
	environ := []string{"BLOBD_LEDGER_DSN=" + server.URL(live)}
	check := func(backup string) (code int, opens backupOpens) {
		var out bytes.Buffer
		code = run(t.Context(), []string{"backup", "check", "--data-dir", folder, "--ledger", backup, "--json"}, environ, nil, &out, io.Discard)
		var verdict backupVerdict
		if code == exitOK || code == exitPartly {
			must(t, json.Unmarshal(out.Bytes(), &verdict))
			opens = *verdict.Backup
		}
		return code, opens
	}
	if code, opens := check(server.URL("restored")); code != exitPartly || opens.ErasedExecutions != 1 {
		t.Errorf("exit code %d, %+v: the backup opens what was erased", code, opens)
	}
	if code, opens := check(server.URL(live)); code != exitOK || opens.ErasedExecutions != 0 {
		t.Errorf("exit code %d, %+v: the ledger itself opens nothing that was erased", code, opens)
	}
	if code, _ := check(server.URL("absent")); code == exitOK {
		t.Error("a database that is not there passes")
	}
}
