package ledger_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

var noon = time.Date(2031, 1, 2, 12, 0, 0, 345_678_000, time.UTC)

func put(tenant, body string, at time.Time) ledger.Entry {
	return ledger.Entry{Tenant: tenant, Kind: ledger.EntryPut, At: at, Body: []byte(body)}
}

func TestJoinPuts(t *testing.T) {
	got := ledger.JoinPuts([]ledger.Entry{
		put("a", `{"n":1}`, noon.Add(2)), put("b", `{"n":2}`, noon), put("a", `{"n":3}`, noon.Add(1)),
	})
	want := []ledger.Entry{put("a", `{"puts":[{"n":1},{"n":3}]}`, noon.Add(2)), put("b", `{"puts":[{"n":2}]}`, noon)}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got := ledger.JoinPuts(nil); len(got) != 0 {
		t.Fatalf("no puts make %v", got)
	}
}

// The encoding is what journals hold: a change of it would orphan them.
func TestRecordEncoding(t *testing.T) {
	r := ledger.Record{
		Seq: 7, Kind: ledger.RecordErase, At: noon.In(time.FixedZone("east", 3600)), Tenant: "acme",
		Tag: blobd.ExecutionTag{0xab, 1}, Refs: []blobd.Ref{{0xcd}},
		ErasureID: "e", TokenID: "t", Writes: 9,
	}
	const want = `{"seq":7,"kind":"erase","at":"2031-01-02T12:00:00.345678Z","tenant":"acme",` +
		`"tag":"ab010000000000000000000000000000",` +
		`"refs":["sha256:cd00000000000000000000000000000000000000000000000000000000000000"],` +
		`"erasureId":"e","tokenId":"t","writes":9}`
	got, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	back, err := ledger.DecodeRecord(got)
	if err != nil {
		t.Fatal(err)
	}
	r.At = noon
	if !reflect.DeepEqual(back, r) {
		t.Fatalf("got  %+v\nwant %+v", back, r)
	}
}

func TestDecodeRecordTakesNothingElse(t *testing.T) {
	const mark = `{"seq":1,"kind":"mark","at":"2031-01-02T12:00:00Z","writes":2}`
	if _, err := ledger.DecodeRecord([]byte(mark)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "null", "[]", mark[:len(mark)-1], mark + " ", " " + mark, mark + mark,
		strings.Replace(mark, `"writes":2`, `"writes":2,"more":1`, 1),
		strings.Replace(mark, `"seq":1,"kind":"mark"`, `"kind":"mark","seq":1`, 1),
		strings.Replace(mark, `12:00:00Z`, `13:00:00+01:00`, 1),
		strings.Replace(mark, `12:00:00Z`, `12:00:00.0Z`, 1),
		strings.Replace(mark, `"writes":2`, `"tag":"","writes":2`, 1),
		strings.Replace(mark, `"writes":2`, `"tag":"AB010000000000000000000000000000","writes":2`, 1),
		strings.Replace(mark, `"writes":2`, `"refs":["cd"],"writes":2`, 1),
		strings.Replace(mark, `"seq":1`, `"seq":1.0`, 1),
		strings.Replace(mark, `"seq":1`, `"seq":1,"seq":1`, 1),
	} {
		if _, err := ledger.DecodeRecord([]byte(bad)); !errors.Is(err, blobd.ErrCorrupt) {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

func TestRecordsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ledger.Record{
			Seq:    rapid.Int64Min(1).Draw(t, "seq"),
			Kind:   rapid.SampledFrom([]ledger.RecordKind{ledger.RecordMark, ledger.RecordFence, ledger.RecordOrder, ledger.RecordLift}).Draw(t, "kind"),
			At:     time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "at")).UTC(),
			Tenant: rapid.String().Draw(t, "tenant"), ErasureID: rapid.String().Draw(t, "erasure"),
			TokenID: rapid.String().Draw(t, "token"), Writes: rapid.Int64().Draw(t, "writes"),
			OrderID: rapid.String().Draw(t, "order"), OrderKind: ledger.OrderKind(rapid.Uint8().Draw(t, "order kind")),
			Form: ledger.ScopeForm(rapid.Uint8().Draw(t, "form")), Class: rapid.String().Draw(t, "class"),
		}
		if rapid.Bool().Draw(t, "dates") {
			r.Before = time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "before")).UTC()
			r.Until = time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "until")).UTC()
		}
		for range rapid.IntRange(0, 2).Draw(t, "subjects") {
			r.Subjects = append(r.Subjects, [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "subject")))
			r.Purposes = append(r.Purposes, rapid.String().Draw(t, "purpose"))
		}
		copy(r.Tag[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "tag"))
		for range rapid.IntRange(0, 3).Draw(t, "refs") {
			var ref blobd.Ref
			copy(ref[:], rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "ref"))
			r.Refs = append(r.Refs, ref)
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ledger.DecodeRecord(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		again, err := back.Encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s and %s, %v", b, again, err)
		}
		if !reflect.DeepEqual(back, r) {
			t.Fatalf("got  %+v\nwant %+v", back, r)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"seq":1,"kind":"mark","at":"2031-01-02T12:00:00Z","writes":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ledger.DecodeRecord(b)
		if err != nil {
			return
		}
		if again, err := r.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q was taken and encodes to %q, %v", b, again, err)
		}
	})
}

// The states that nothing leaves: erased is for ever.
func TestNothingLeavesErased(t *testing.T) {
	for _, m := range ledger.BlobMoves() {
		if m.From == ledger.BlobErased || m.From == ledger.BlobCollected || m.To == 0 || m.From == m.To {
			t.Errorf("blob %d to %d by %s", m.From, m.To, m.By)
		}
	}
	for _, m := range ledger.ExecutionMoves() {
		if m.From == ledger.ExecutionErased || m.To == 0 || m.From == m.To {
			t.Errorf("execution %d to %d by %s", m.From, m.To, m.By)
		}
	}
}

// Everything that is not collected can be erased.
func TestAllContentCanBeErased(t *testing.T) {
	for _, from := range []ledger.BlobState{ledger.BlobLive, ledger.BlobMissing, ledger.BlobLost, ledger.BlobSuperseded} {
		if !ledger.Legal(ledger.BlobMoves(), from, ledger.BlobErased) {
			t.Errorf("blob %d cannot be erased", from)
		}
	}
	for _, from := range []ledger.ExecutionState{0, ledger.ExecutionOpen, ledger.ExecutionClosed} {
		if !ledger.Legal(ledger.ExecutionMoves(), from, ledger.ExecutionErased) {
			t.Errorf("execution %d cannot be fenced", from)
		}
	}
}

func TestMovesAreListedOnce(t *testing.T) {
	seen := map[[2]ledger.BlobState]bool{}
	for _, m := range ledger.BlobMoves() {
		pair := [2]ledger.BlobState{m.From, m.To}
		if seen[pair] {
			t.Errorf("%d to %d is listed twice", m.From, m.To)
		}
		seen[pair] = true
	}
}

func TestExpiry(t *testing.T) {
	b := ledger.Blob{CreatedAt: noon}
	if b.Expired(noon.Add(1e6*time.Hour)) || !b.ExpiresAt.IsZero() {
		t.Error("a blob without a maximum expires")
	}
	end := noon.Add(time.Minute)
	b.ExpiresAt = end
	if b.Expired(end.Add(-time.Microsecond)) || !b.Expired(end) || !b.Expired(end.Add(time.Microsecond)) {
		t.Errorf("expires at %v", b.ExpiresAt)
	}
}

func TestKeyConflictIsAConflict(t *testing.T) {
	if err := error(&ledger.KeyConflict{}); !errors.Is(err, blobd.ErrConflict) {
		t.Fatal(err)
	}
}
