package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recording is one recorded body with the texts that its index says are in it.
type recording struct {
	file  string
	model string
	body  []byte
	texts []string // extracted by us, in wire order
	kinds []string // of texts, as the index says
	facts []fact   // of texts, as the index says
}

type fact struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// recordings reads the recorded provider traffic. A checkout without it skips;
// CI never does.
func recordings(t *testing.T) []recording {
	t.Helper()
	dir := os.Getenv("BLOBD_FIXTURES")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "fixtures")
	}
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if os.IsNotExist(err) {
		const message = "no recorded traffic: name its folder in BLOBD_FIXTURES"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	must(t, err)
	lines := strings.Split(strings.TrimRight(string(index), "\n"), "\n")
	column := make(map[string]int)
	for i, name := range strings.Split(lines[0], "\t") {
		column[name] = i
	}
	var all []recording
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		cell := func(name string) string { return cells[column[name]] }
		r := recording{file: cell("file"), model: cell("model")}
		r.body, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(r.file)))
		must(t, err)
		if sum := sha256.Sum256(r.body); hex.EncodeToString(sum[:]) != cell("sha256") {
			t.Fatalf("%s is not the file of the index", r.file)
		}
		provider, shape := cell("provider"), cell("shape")
		r.texts = extract(t, provider, shape, r.body)
		r.expect(t, cell("reasoning"), cell("inband"))
		if provider == "think-tags" {
			if s := inband(visible(t, shape, r.body)); s != "" {
				r.texts = append(r.texts, s)
			}
		}
		all = append(all, r)
	}
	return all
}

// expect notes what the index says of the readable texts.
func (r *recording) expect(t *testing.T, reasoning, inband string) {
	t.Helper()
	var parts []struct {
		Kind  string `json:"kind"`
		Texts []fact `json:"texts"`
	}
	must(t, json.Unmarshal([]byte(reasoning), &parts))
	for _, p := range parts {
		for _, text := range p.Texts {
			r.facts, r.kinds = append(r.facts, text), append(r.kinds, p.Kind)
		}
	}
	if inband == "" {
		return
	}
	var raw []fact
	must(t, json.Unmarshal([]byte(inband), &raw))
	for _, text := range raw {
		if text.Bytes > 0 {
			r.facts, r.kinds = append(r.facts, text), append(r.kinds, "text")
		}
	}
}

// check reports whether the extracted texts are those of the index.
func (r *recording) check(t *testing.T) {
	t.Helper()
	if len(r.texts) != len(r.facts) {
		t.Fatalf("%s: %d readable texts, the index says %d", r.file, len(r.texts), len(r.facts))
	}
	for i, text := range r.texts {
		sum := sha256.Sum256([]byte(text))
		if hex.EncodeToString(sum[:]) != r.facts[i].SHA256 || len(text) != r.facts[i].Bytes {
			t.Errorf("%s: text %d has %d bytes and another digest than the index says (%d bytes)", r.file, i, len(text), r.facts[i].Bytes)
		}
	}
}

func TestRecordingsHoldTheTextsOfTheirIndex(t *testing.T) {
	total := 0
	for _, r := range recordings(t) {
		r.check(t)
		total += len(r.texts)
	}
	if total < 50 {
		t.Errorf("only %d texts: the extractors or the folder are not whole", total)
	}
}
