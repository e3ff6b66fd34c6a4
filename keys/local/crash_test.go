package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

type moment int

const (
	before moment = iota // the operation did not happen
	after                // it did, and still failed
	halfway
)

// faultyDisk fails the operation at one place in the order of all of them. Like
// a crash, it fails everything that comes after too, until heal.
type faultyDisk struct {
	osDisk
	failAt int // 1 is the next operation; 0: none
	when   moment
	seen   []string
	broken bool
}

func (d *faultyDisk) heal() { *d = faultyDisk{} }

func (d *faultyDisk) step(name string, act func() error) error {
	d.seen = append(d.seen, name)
	if d.broken {
		return syscall.EIO
	}
	if len(d.seen) != d.failAt {
		return act()
	}
	d.broken = true
	if d.when == after {
		_ = act()
	}
	return syscall.EIO
}

func (d *faultyDisk) Create(path string) (f file, err error) {
	err = d.step("create", func() (err error) { f, err = d.osDisk.Create(path); return err })
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d}, nil
}

func (d *faultyDisk) Rename(from, to string) error {
	return d.step("rename", func() error { return d.osDisk.Rename(from, to) })
}

func (d *faultyDisk) Remove(path string) (err error) {
	return d.step("remove", func() error { return d.osDisk.Remove(path) })
}

func (d *faultyDisk) SyncDir(path string) error {
	return d.step("syncdir", func() error { return d.osDisk.SyncDir(path) })
}

func (d *faultyDisk) Read(path string) (b []byte, err error) {
	err = d.step("read", func() (err error) { b, err = d.osDisk.Read(path); return err })
	return b, err
}

type faultyFile struct {
	file
	d *faultyDisk
}

func (f *faultyFile) Write(b []byte) (n int, err error) {
	if f.d.when == halfway && len(f.d.seen)+1 == f.d.failAt {
		_, _ = f.file.Write(b[:len(b)/2])
	}
	err = f.d.step("write", func() (err error) { n, err = f.file.Write(b); return err })
	return n, err
}

func (f *faultyFile) Sync() error { return f.d.step("sync", f.file.Sync) }

func (f *faultyFile) Close() error {
	err := f.d.step("close", f.file.Close)
	if err != nil {
		_ = f.file.Close()
	}
	return err
}

// saveSteps is the order that save promises.
var saveSteps = []string{"remove", "create", "write", "sync", "close", "rename", "syncdir"}

// change is one change of a keyring that has "acme" at versions 1 and 2.
type change struct {
	name   string
	act    func(context.Context, *Keyring) error
	old    string // what state says before it
	new    string // and after it
	finalV bool   // version 1 must not unwrap after it
}

var changes = []change{
	{"create", func(ctx context.Context, k *Keyring) error { return k.Create(ctx, "new") }, "acme 1-2", "acme 1-2, new 1-1", false},
	{"rotate", func(ctx context.Context, k *Keyring) error { _, err := k.Rotate(ctx, "acme"); return err }, "acme 1-2", "acme 1-3", false},
	{"trim", func(ctx context.Context, k *Keyring) error { return k.Trim(ctx, "acme", 2) }, "acme 1-2", "acme 2-2", true},
	{"destroy", func(ctx context.Context, k *Keyring) error { return k.Destroy(ctx, "acme") }, "acme 1-2", "", true},
}

func TestACrashAtAnyStepLeavesTheOldOrTheNewFile(t *testing.T) {
	for _, c := range changes {
		for at, step := range saveSteps {
			for _, when := range []moment{before, after, halfway} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, step, when), func(t *testing.T) {
					crash(t, c, at+1, when)
				})
			}
		}
	}
}

func crash(t *testing.T, c change, at int, when moment) {
	ctx := t.Context()
	d := new(faultyDisk)
	k, v1 := prepared(t, d)
	d.failAt, d.when, d.seen = at, when, nil
	wantError(t, c.act(ctx, k), blobd.ErrUnavailable)
	if !d.broken {
		t.Fatal("the fault did not strike")
	}

	// Nobody has seen the change, and nothing is wrapped by a key that is not durable.
	if got := state(t, k); got != c.old {
		t.Fatalf("the failed change shows: %s", got)
	}
	w, err := k.Wrap(ctx, "acme", [][]byte{[]byte("later")})
	must(t, err)
	unwraps(t, k, w[0], "later")

	// What a new process would find is whole.
	found := mustOpen(t, copyDir(t, k.path), Options{})
	if got := state(t, found); got != c.old && got != c.new {
		t.Fatalf("after a crash: %s", got)
	}
	if state(t, found) == c.old {
		unwraps(t, found, v1, "first")
		unwraps(t, found, w[0], "later")
	}

	// The change can be repeated once the disk is well, and then stays.
	d.heal()
	must(t, c.act(ctx, k))
	must(t, k.Close())
	again := mustOpen(t, k.path, Options{})
	if got := state(t, again); got != c.new {
		t.Fatalf("repeated: %s", got)
	}
	if c.finalV {
		got, err := again.Unwrap(ctx, "acme", []keys.Wrapped{v1})
		must(t, err)
		wantError(t, got[0].Err, blobd.ErrErased)
	}
	noTemp(t, k.path)
}

func TestSaveGoesThroughItsSteps(t *testing.T) {
	for _, c := range changes {
		d := new(faultyDisk)
		k, _ := prepared(t, d)
		d.seen = nil
		must(t, c.act(t.Context(), k))
		if got, want := fmt.Sprint(d.seen), fmt.Sprint(saveSteps); got != want {
			t.Fatalf("%s: %s, want %s", c.name, got, want)
		}
	}
}

// TestACrashWhileCreating lets the first open fail at every step; the next one,
// still with Create, must give an empty keyring that works.
func TestACrashWhileCreating(t *testing.T) {
	steps := append([]string{"syncdir", "remove"}, saveSteps...)
	for at, step := range steps {
		for _, when := range []moment{before, after, halfway} {
			t.Run(fmt.Sprintf("%s-%d/%d", step, at, when), func(t *testing.T) {
				path := keyringPath(t)
				d := &faultyDisk{failAt: at + 1, when: when}
				_, err := open(path, Options{Create: true}, d)
				wantError(t, err, blobd.ErrUnavailable)
				if d.seen[at] != step {
					t.Fatalf("struck %s, want %s", d.seen[at], step)
				}
				k := mustOpen(t, path, Options{Create: true})
				if got := state(t, k); got != "" {
					t.Fatalf("not empty: %s", got)
				}
				must(t, k.Create(t.Context(), "acme"))
				noTemp(t, path)
			})
		}
	}
}

func TestAFaultWhileOpeningIsAnErrorAndChangesNothing(t *testing.T) {
	for at, step := range []string{"remove", "syncdir", "read"} {
		for _, when := range []moment{before, after} {
			k, v1 := prepared(t, osDisk{})
			must(t, k.Close())
			d := &faultyDisk{failAt: at + 1, when: when}
			_, err := open(k.path, Options{}, d)
			wantError(t, err, blobd.ErrUnavailable)
			if d.seen[at] != step {
				t.Fatalf("struck %s, want %s", d.seen[at], step)
			}
			unwraps(t, mustOpen(t, k.path, Options{}), v1, "first")
		}
	}
}

// prepared returns a keyring with "acme" at versions 1 and 2, and a secret
// "first" wrapped under version 1.
func prepared(t *testing.T, d disk) (*Keyring, keys.Wrapped) {
	t.Helper()
	k, err := open(keyringPath(t), Options{Create: true, Now: clock}, d)
	must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	must(t, k.Create(t.Context(), "acme"))
	w, err := k.Wrap(t.Context(), "acme", [][]byte{[]byte("first")})
	must(t, err)
	_, err = k.Rotate(t.Context(), "acme")
	must(t, err)
	return k, w[0]
}

// state tells tenants and their versions, oldest and newest.
func state(t *testing.T, k *Keyring) (all string) {
	t.Helper()
	tenants, err := k.Tenants(t.Context())
	must(t, err)
	for i, tenant := range tenants {
		s, err := k.Status(t.Context(), tenant)
		must(t, err)
		if i > 0 {
			all += ", "
		}
		all += fmt.Sprintf("%s %d-%d", tenant, s.Oldest, s.Newest)
	}
	return all
}

func unwraps(t *testing.T, k *Keyring, w keys.Wrapped, want string) {
	t.Helper()
	got, err := k.Unwrap(t.Context(), "acme", []keys.Wrapped{w})
	must(t, err)
	if got[0].Err != nil || string(got[0].Plaintext) != want {
		t.Fatalf("does not unwrap to %q: %v", want, got[0].Err)
	}
}

// copyDir copies a keyring's directory as it lies there and returns the path of
// the copied keyring.
func copyDir(t *testing.T, path string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(path))))
	must(t, os.Chmod(dir, 0o700))
	copied := filepath.Join(dir, filepath.Base(path))
	must(t, os.Chmod(copied, 0o600))
	return copied
}

func noTemp(t *testing.T, path string) {
	t.Helper()
	left, err := filepath.Glob(path + ".tmp*")
	must(t, err)
	if len(left) != 0 {
		t.Fatalf("left behind: %q", left)
	}
}
