package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Standby is a copy of a running server, as a replica has it that gets no more
// from now on.
type Standby struct{ dir string }

// Standby copies the running server.
func (p *Postgres) Standby(t testing.TB) Standby {
	t.Helper()
	dir := filepath.Join(filepath.Dir(p.data), "standby"+strconv.FormatInt(p.names.Add(1), 10))
	p.tool(postgresUser(t), "pg_basebackup", "-D", dir, "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", "blobd",
		"-X", "stream", "-c", "fast", "--no-sync")
	return Standby{dir}
}

// Failover ends the server as kill -9 does and promotes a standby to be the
// server, at the same address: a new timeline, without what was committed since
// the copy.
func (p *Postgres) Failover(t testing.TB, s Standby) {
	t.Helper()
	p.Kill()
	if err := os.Rename(p.data, p.data+".dead"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.dir, p.data); err != nil {
		t.Fatal(err)
	}
	// A recovery that finds no more ends on a timeline of its own.
	writeAs(t, postgresUser(t), filepath.Join(p.data, "recovery.signal"), "", os.O_CREATE)
	writeAs(t, postgresUser(t), filepath.Join(p.data, "postgresql.auto.conf"), "restore_command = 'false'\n", os.O_APPEND)
	p.Start()
	if err := os.RemoveAll(p.data + ".dead"); err != nil {
		t.Fatal(err)
	}
}

// writeAs writes to a file that belongs to who.
func writeAs(t testing.TB, who *syscall.Credential, path, text string, flag int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if who == nil {
		return
	}
	if err := f.Chown(int(who.Uid), int(who.Gid)); err != nil {
		t.Fatal(err)
	}
}
