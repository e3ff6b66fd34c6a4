package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// untilScript: until N CMD… runs a command again and again until it ends with this
// code: what time alone brings about is waited for by asking.
func untilScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until N CMD...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	path, last := lookPath(ts, args[1]), []byte(nil)
	for end := time.Now().Add(startTime); time.Now().Before(end); {
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"HOME", "PATH", "TMPDIR", "BLOBD_SERVER", "BLOBD_DATA_DIR"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // its code is what counts
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == want {
			return
		}
		last = out.Bytes()
	}
	ts.Fatalf("%v never ended with %d: %s", args[1:], want, last)
}
