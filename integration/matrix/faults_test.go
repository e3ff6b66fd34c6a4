package matrix

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of known faults names tests that exist.
func TestEveryKnownFaultHasItsTest(t *testing.T) {
	wantTests(t, document, "| fault | held by |", 40)
}

// And so does the table of what people ask for.
func TestEveryRequirementHasItsTests(t *testing.T) {
	wantTests(t, "../../docs/requirements.md", "| | need | held by |", 45)
}

// wantTests reads the table of a document below a header, which names at least so
// many tests as FOLDER `Test…`, and wants each of them declared.
func wantTests(t *testing.T, document, header string, least int) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), header)
	if !found {
		t.Fatal("the table is gone")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	named := regexp.MustCompile("([a-z0-9/]+) `(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1)
	if len(named) < least {
		t.Errorf("the table names %d tests", len(named))
	}
	folders := map[string]string{"s3": "backends/s3", "minio": "backends/minio"}
	for _, n := range named {
		folder := n[1]
		if known, short := folders[folder]; short {
			folder = known
		}
		if !declared(t, folder, n[2]) {
			t.Errorf("%s has no %s", folder, n[2])
		}
	}
}

// declared reports whether a test file of a folder declares a test.
func declared(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "func "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
