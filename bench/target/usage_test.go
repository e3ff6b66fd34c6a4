package target

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4321 (a ) name) S 1 4321 4321 0 -1 4194560 3083 0 0 0 150 25 7 9 20 0 12 0 123456 1 2"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := 1750 * time.Millisecond; got != want { // 150 + 25 ticks of 10 ms
		t.Errorf("parseStat = %s, want %s", got, want)
	}
	for _, bad := range []string{"", "1 (x) S 1 2 3", "1 (x) S 1 1 1 0 -1 1 1 0 0 0 many 25"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q) gave no error", bad)
		}
	}
}
