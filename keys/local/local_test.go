package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/keystest"
)

// countRandom gives 0x01 over and over for the first key, 0x02 for the second.
type countRandom struct{ n byte }

func (r *countRandom) Read(p []byte) (int, error) {
	r.n++
	copy(p, bytes.Repeat([]byte{r.n}, len(p)))
	return len(p), nil
}

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC) }

func keyringPath(t *testing.T) string {
	return filepath.Join(t.TempDir(), "keys", "keyring.json")
}

func openNew(t *testing.T) *Keyring {
	return mustOpen(t, keyringPath(t), Options{Create: true, Random: new(countRandom), Now: clock})
}

func mustOpen(t *testing.T, path string, o Options) *Keyring {
	t.Helper()
	k, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func TestContract(t *testing.T) {
	keystest.Run(t, keystest.Harness{New: func(t *testing.T) keystest.Service {
		path := keyringPath(t)
		var last *Keyring
		return keystest.Service{Open: func(t *testing.T) keys.Keyring {
			first := last == nil
			if !first {
				must(t, last.Close())
			}
			last = mustOpen(t, path, Options{Create: first})
			return last
		}}
	}})
}

func TestOpenWithoutAKeyringIsKeyMissingAndMakesNone(t *testing.T) {
	path := keyringPath(t)
	_, err := Open(path, Options{})
	wantError(t, err, blobd.ErrKeyMissing)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	_, err = Open(path, Options{})
	wantError(t, err, blobd.ErrKeyMissing)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a keyring was made: %v", err)
	}
}

func TestCreateMakesPrivateFilesAndKeepsAKeyring(t *testing.T) {
	path := keyringPath(t)
	k := mustOpen(t, path, Options{Create: true})
	must(t, k.Create(t.Context(), "acme"))
	for name, want := range map[string]os.FileMode{path: 0o600, path + ".lock": 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s: mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
	must(t, k.Close())
	again := mustOpen(t, path, Options{Create: true})
	if got, err := again.Tenants(t.Context()); err != nil || len(got) != 1 {
		t.Fatalf("tenants %q, %v", got, err)
	}
}

func TestOpenReadsTheGoldenFile(t *testing.T) {
	path := keyringPath(t)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, golden(t), 0o600))
	k := mustOpen(t, path, Options{})
	got, err := k.Status(t.Context(), "acme")
	if err != nil || got != (keys.Status{Newest: 3, Oldest: 2}) {
		t.Fatalf("%+v, %v", got, err)
	}
	wantError(t, k.Create(t.Context(), "gone"), blobd.ErrErased)
}

func TestADamagedKeyringIsNeverReplaced(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {}, "cut": golden(t)[:200], "other": []byte("hello"),
		"newer": signed(t, string(bytes.Replace(golden(t), []byte(`"version": 1`), []byte(`"version": 2`), 1))),
	} {
		for _, create := range []bool{false, true} {
			path := keyringPath(t)
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, content, 0o600))
			_, err := Open(path, Options{Create: create})
			want := blobd.ErrCorrupt
			if name == "newer" {
				want = blobd.ErrInvalid
			}
			wantError(t, err, want)
			got, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(got, content) {
				t.Fatalf("%s: the file was changed", name)
			}
		}
	}
}

func TestWiderPermissionsAreDenied(t *testing.T) {
	for _, mode := range []os.FileMode{0o601, 0o604, 0o620, 0o640, 0o644, 0o666, 0o700, 0o777} {
		k := openNew(t)
		must(t, k.Close())
		must(t, os.Chmod(k.path, mode))
		_, err := Open(k.path, Options{})
		wantError(t, err, blobd.ErrDenied)
		_, err = Open(k.path, Options{Create: true})
		wantError(t, err, blobd.ErrDenied)
	}
	for _, mode := range []os.FileMode{0o701, 0o710, 0o750, 0o755, 0o777} {
		k := openNew(t)
		must(t, k.Close())
		must(t, os.Chmod(filepath.Dir(k.path), mode))
		_, err := Open(k.path, Options{Create: true})
		wantError(t, err, blobd.ErrDenied)
	}
}

func TestALinkIsDenied(t *testing.T) {
	k := openNew(t)
	must(t, k.Close())
	link := filepath.Join(filepath.Dir(k.path), "link.json")
	must(t, os.Symlink(k.path, link))
	_, err := Open(link, Options{})
	wantError(t, err, blobd.ErrDenied)
}

func TestAFolderInItsPlaceIsDenied(t *testing.T) {
	path := keyringPath(t)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.Mkdir(path, 0o600))
	_, err := Open(path, Options{Create: true})
	wantError(t, err, blobd.ErrDenied)
}

func TestASecondOpenIsAConflict(t *testing.T) {
	k := openNew(t)
	_, err := Open(k.path, Options{})
	wantError(t, err, blobd.ErrConflict)
	must(t, k.Close())
	mustOpen(t, k.path, Options{})
}

func TestAFailedOpenReleasesTheLock(t *testing.T) {
	k := openNew(t)
	must(t, k.Close())
	must(t, os.Chmod(k.path, 0o644))
	_, err := Open(k.path, Options{})
	wantError(t, err, blobd.ErrDenied)
	must(t, os.Chmod(k.path, 0o600))
	mustOpen(t, k.path, Options{})
}

func TestOpenRemovesAnUnfinishedFile(t *testing.T) {
	k := openNew(t)
	must(t, k.Close())
	must(t, os.WriteFile(k.path+".tmp", golden(t), 0o600))
	mustOpen(t, k.path, Options{})
	if _, err := os.Lstat(k.path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it is still there: %v", err)
	}
}

func TestCheckSeesAFileThatWentOrOpenedUp(t *testing.T) {
	k := openNew(t)
	must(t, k.Check(t.Context()))
	must(t, os.Chmod(k.path, 0o640))
	wantError(t, k.Check(t.Context()), blobd.ErrDenied)
	must(t, os.Remove(k.path))
	wantError(t, k.Check(t.Context()), blobd.ErrKeyMissing)
}

func TestDestroyedKeysLeaveTheFile(t *testing.T) {
	k := openNew(t)
	ctx := t.Context()
	must(t, k.Create(ctx, "acme"))
	if _, err := k.Rotate(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	key1, key2 := "AQEBAQEBAQEB", "AgICAgICAgIC"
	holds(t, k.path, key1, true)
	must(t, k.Trim(ctx, "acme", 2))
	holds(t, k.path, key1, false)
	holds(t, k.path, key2, true)
	must(t, k.Destroy(ctx, "acme"))
	holds(t, k.path, key2, false)
}

// holds looks into every file of the keyring's directory.
func holds(t *testing.T, path, text string, want bool) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	found := false
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		must(t, err)
		found = found || bytes.Contains(b, []byte(text))
	}
	if found != want {
		t.Fatalf("%q found: %v, want %v", text, found, want)
	}
}

func TestAClosedKeyringAnswersNothing(t *testing.T) {
	k := openNew(t)
	ctx := t.Context()
	must(t, k.Create(ctx, "acme"))
	w, err := k.Wrap(ctx, "acme", [][]byte{[]byte("secret")})
	must(t, err)
	must(t, k.Close())
	must(t, k.Close())
	_, err = k.Unwrap(ctx, "acme", w)
	wantError(t, err, blobd.ErrUnavailable)
	_, err = k.Wrap(ctx, "acme", [][]byte{[]byte("secret")})
	wantError(t, err, blobd.ErrUnavailable)
	wantError(t, k.Create(ctx, "other"), blobd.ErrUnavailable)
	wantError(t, k.Check(ctx), blobd.ErrUnavailable)
	_, err = k.Tenants(ctx)
	wantError(t, err, blobd.ErrUnavailable)
}
