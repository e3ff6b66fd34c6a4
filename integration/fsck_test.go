package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/internal/servers"
)

// TestAPublicCheckerPassesOverTheLog: a checker that is not ours makes the whole tree
// out of the leaves, and finds it in the served tiles and in an exported folder: while
// the log has less than one tile, and after it has grown over two. One changed byte of
// a folder, and it says which tile is wrong.
func TestAPublicCheckerPassesOverTheLog(t *testing.T) {
	t.Parallel()
	l := logDrill{t: t, dir: filepath.Join(t.TempDir(), "data"), out: t.TempDir()}
	s := start(t, l.dir)
	_, token := s.newToken("operator")
	l.keep(s, "key", "/v1/evidence/key")
	l.keep(s, "checkpoint-0", "/v1/evidence/checkpoint") // there is one from now on
	for _, entries := range []int{20, 600} {
		l.grow(s, entries)
		l.export(s)
		l.check(s, token)
	}
	// The log that passed has full and partial tiles and bundles, and a level above.
	for _, name := range []string{
		"tile/0/000", "tile/0/001", "tile/0/002.p/*", "tile/entries/000", "tile/entries/001", "tile/entries/002.p/*", "tile/1/000.p/2",
	} {
		_ = one(t, l.file("log"), name)
	}

	if _, ok := l.fsck(servers.TiledLog{URL: s.url + "/v1/evidence"}); ok {
		t.Error("fsck passes without a token")
	}
	s.stop()
	for file, says := range map[string]string{
		"tile/0/000":           `tile/0/000: log has`,
		"tile/0/002.p/*":       `tile/0/002\.p/\d+: log has`,
		"tile/1/000.p/2":       `tile/1/000\.p/2: log has`,
		"tile/entries/001":     `tile/(0/001|1/000\.p/2): log has`, // its leaves make both
		"tile/entries/002.p/*": `tile/0/002\.p/\d+: log has`,
		"checkpoint":           `failed to fetch and verify checkpoint`,
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			damaged := copyOf(t, l.file("log"))
			flip(t, one(t, damaged, file))
			_, said := servers.Fsck(t, servers.TiledLog{URL: "file://" + damaged, Key: l.file("key")})
			if _, ok := passed(t, said); ok || !regexp.MustCompile(says).MatchString(said) {
				t.Errorf("want %q, and fsck says\n%s", says, said)
			}
		})
	}
}

// flip changes the last byte of a file, or of a checkpoint the last but a few: there it
// is one of the signature.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	at := len(b) - 1
	if filepath.Base(path) == "checkpoint" {
		at -= 20
	}
	b[at] ^= 1
	must(t, os.WriteFile(path, b, 0o600))
}

// one is the only file of a folder that fits a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%s is %q", pattern, found)
	}
	return found[0]
}

// grow puts until the published log has so many entries.
func (l *logDrill) grow(s *server, entries int) {
	l.t.Helper()
	published := func() int { return headOf(l.t, s.get("/v1/evidence/checkpoint").body).size }
	for i := range entries - published() {
		s.mustPut("grows", fmt.Appendf(nil, "text %d on the way to %d", i, entries))
	}
	s.eventually(time.Minute, "the log to grow", func() bool { return published() >= entries })
}

// check runs the public checker over the served tiles and over the exported folder. What
// is served may have grown since the export.
func (l *logDrill) check(s *server, token string) {
	l.t.Helper()
	checkpoint, err := os.ReadFile(filepath.Join(l.file("log"), "checkpoint"))
	must(l.t, err)
	exported := headOf(l.t, checkpoint)
	folder, ok := l.fsck(servers.TiledLog{URL: "file://" + l.file("log")})
	if !ok || folder != exported {
		l.t.Errorf("fsck finds %+v in the exported folder, want %+v", folder, exported)
	}
	served, ok := l.fsck(servers.TiledLog{URL: s.url + "/v1/evidence", Token: token})
	if !ok || served.size < exported.size || served.size == exported.size && served != exported {
		l.t.Errorf("fsck finds %+v in the served tiles, want %+v", served, exported)
	}
}

// fsck reports the tree that the public checker found whole.
func (l *logDrill) fsck(log servers.TiledLog) (head, bool) {
	l.t.Helper()
	log.Key = l.file("key")
	code, said := servers.Fsck(l.t, log)
	found, ok := passed(l.t, said)
	if !ok {
		l.t.Logf("fsck over %s ends with %d and says\n%s", log.URL, code, said)
	}
	return found, ok && code == 0
}

// head is a tree: how many entries, and the root hash in base64.
type head struct {
	size int
	root string
}

// headOf reads the second and third line of a checkpoint.
func headOf(t *testing.T, checkpoint []byte) head {
	t.Helper()
	lines := strings.Split(string(checkpoint), "\n")
	if len(lines) < 4 {
		t.Fatalf("a checkpoint is %q", checkpoint)
	}
	size, err := strconv.Atoi(lines[1])
	must(t, err)
	return head{size, lines[2]}
}

var whole = regexp.MustCompile(`Successfully fsck'd log with size (\d+) and root (\S+) `)

// passed reports the tree that fsck says it found whole.
func passed(t *testing.T, said string) (head, bool) {
	t.Helper()
	m := whole.FindStringSubmatch(said)
	if m == nil {
		return head{}, false
	}
	size, err := strconv.Atoi(m[1])
	must(t, err)
	return head{size, m[2]}, true
}
