package servers

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// fsckTime bounds how long a check may take on a busy machine.
const fsckTime = 30 * time.Second

// TiledLog is where a log of the C2SP tlog-tiles layout lies.
type TiledLog struct {
	URL   string // file, http or https; `checkpoint` and `tile/` are below it
	Token string // sent as a bearer token; "": none is
	Key   string // file of the public key, as signed notes have it
}

// Fsck runs the public checker of tiled logs, cmd/fsck of
// transparency-dev/tessera, and returns its exit code and what it printed. It
// exits with 0 over a log that is wrong too: a log passes if it is said to.
func Fsck(t testing.TB, l TiledLog) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fsckTime)
	defer cancel()
	// A worker that meets a wrong tile ends, and the checker waits for ever once
	// no worker is left: there are more of them than tiles to compare.
	args := []string{"--ui=false", "-N=16", "--storage_url=" + l.URL, "--public_key=" + l.Key}
	if l.Token != "" {
		args = append(args, "--bearer_token="+l.Token)
	}
	cmd := exec.CommandContext(ctx, program(t, "fsck"), args...)
	cmd.Env = bareEnv()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Fatalf("fsck did not end: %v\n%s", err, out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
