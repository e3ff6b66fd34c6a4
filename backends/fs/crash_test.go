package fs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	blobfs "github.com/blobd/blobd/backends/fs"
)

// crashFolder tells a process of the test binary that it is the one to be
// killed, and where it works; crashRun numbers it.
const crashFolder, crashRun = "BLOBD_FS_CRASH_FOLDER", "BLOBD_FS_CRASH_RUN"

func TestMain(m *testing.M) {
	if folder := os.Getenv(crashFolder); folder != "" {
		fmt.Println("failed:", putAndErase(folder, os.Getenv(crashRun)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// putAndErase works until it is killed, and says what it is about to do and what
// was acknowledged.
func putAndErase(folder, run string) error {
	s, err := tryOpen(folder, blobfs.Options{SegmentSize: 256 << 10, IndexBatch: 50})
	if err != nil {
		return err
	}
	var out sync.Mutex
	say := func(word, step string) {
		out.Lock()
		defer out.Unlock()
		_, _ = fmt.Println(word, step) // one write: a line is whole or not there
	}
	errs := make(chan error)
	for w := range 8 {
		go func() { errs <- work(s, fmt.Sprintf("%s-%d", run, w), say) }()
	}
	return <-errs
}

func work(s *blobfs.Store, worker string, say func(word, step string)) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		step := fmt.Sprintf("%s-%d", worker, i)
		name, data := crashBlob(step)
		if err := s.Put(ctx, name, data); err != nil {
			return err
		}
		say("put", step)
		if i%4 != 3 {
			continue
		}
		step = fmt.Sprintf("%s-%d", worker, i-2)
		name, _ = crashBlob(step)
		say("erasing", step)
		if _, err := s.Erase(ctx, backends.Scope{Names: []string{name}}); err != nil {
			return err
		}
		say("erased", step)
	}
}

// crashBlob makes the bytes of a step: some fit in a page, some need several.
func crashBlob(step string) (string, []byte) {
	size := 0
	for _, c := range step {
		size = size*31 + int(c)
	}
	return blob(1, step+strings.Repeat(" text of "+step, size%1500))
}

func TestKilledAtAnyMomentNothingAcknowledgedIsLostAndNothingErasedIsBack(t *testing.T) {
	const runs, lines = 8, 150
	folder := t.TempDir()
	last := make(map[string]string) // step → the last word about it
	for run := range runs {
		for _, line := range runUntilKilled(t, folder, run, lines+37*run) {
			word, step, ok := strings.Cut(line, " ")
			if !ok || word == "failed:" {
				t.Fatalf("the child said %q", line)
			}
			last[step] = word
		}
		s := open(t, folder, blobfs.Options{})
		for step, word := range last {
			checkStep(t, s, step, word)
		}
		checkListed(t, s)
		closeStore(t, s)
	}
	if len(last) < runs*lines/2 {
		t.Fatalf("only %d steps were seen", len(last))
	}
}

// runUntilKilled returns the lines of a child that is killed after some.
func runUntilKilled(t *testing.T, folder string, run, lines int) (said []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), crashFolder+"="+folder, fmt.Sprintf("%s=%d", crashRun, run))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			break // a last line without its end was never acknowledged
		}
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, strings.TrimSpace(line))
		if len(said) == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if len(said) < lines {
		t.Fatalf("the child ended after %q", said)
	}
	return said
}

func checkStep(t *testing.T, s *blobfs.Store, step, word string) {
	t.Helper()
	name, data := crashBlob(step)
	switch word {
	case "put":
		has(t, s, name, data)
	case "erased":
		lacks(t, s, name)
		clean(t, s, backends.Scope{Names: []string{name}})
	case "erasing": // either; a repetition ends it
		erase(t, s, backends.Scope{Names: []string{name}})
		lacks(t, s, name)
	default:
		t.Fatalf("step %s: %q", step, word)
	}
}

// checkListed: whatever is visible is whole, acknowledged or not.
func checkListed(t *testing.T, s *blobfs.Store) {
	t.Helper()
	for after := ""; ; {
		page, err := s.List(t.Context(), "", after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			data, err := s.Get(t.Context(), o.Name)
			parts, ok := backends.ParseBlobName(o.Name)
			if err != nil || !ok || blobd.RefOf(data) != parts.Ref || o.Size != int64(len(data)) {
				t.Fatalf("%+v: %d bytes, %v", o, len(data), err)
			}
			after = o.Name
		}
		if len(page) < 1000 {
			return
		}
	}
}
