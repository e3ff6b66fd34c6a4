package api_test

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/blobd/blobd/api"
)

// A filtered page looks at no more rows than its bound, and then says where to go
// on though it is short.
func TestAFilteredPageIsBounded(t *testing.T) {
	numbers := make([]int, 50_000)
	for i := range numbers {
		numbers[i] = i
	}
	even := func(n int) bool { return n%2 == 0 }
	one := func(n int) bool { return n == 3 }
	none := func(int) bool { return false }
	late := func(n int) bool { return n == 49_999 }
	for _, c := range []struct {
		name  string
		limit int
		of    []int
		pass  func(int) bool
		found []int
		next  string // "": none
		most  int    // rows read
	}{
		{"the first of many", 3, numbers, even, []int{0, 2, 4}, "4", 1004},
		{"all of few", 3, numbers[:6], even, []int{0, 2, 4}, "", 6},
		{"one more than all", 3, numbers[:7], even, []int{0, 2, 4}, "4", 7},
		{"none at all", 3, nil, even, nil, "", 0},
		{"rare ones", 2, numbers, one, []int{3}, "20002", 21_000},
		{"nothing within the bound", 1, numbers, late, nil, "20001", 21_000},
		{"nothing of few", 100, numbers[:500], none, nil, "", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, next, read, err := api.LookThrough(c.limit, c.of, c.pass)
			must(t, err)
			got := ""
			if next != nil {
				b, err := base64.RawURLEncoding.DecodeString(*next)
				must(t, err)
				got = string(b)
			}
			if !slices.Equal(found, c.found) || got != c.next || read > c.most {
				t.Errorf("found %v, next %q, read %d; want %v, %q, at most %d", found, got, read, c.found, c.next, c.most)
			}
		})
	}
}
