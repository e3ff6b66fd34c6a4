package api

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/store"
)

// The answer of a put is written by hand: it is byte for byte what the encoder
// makes of the wire type.
func TestStoredIsTheWireType(t *testing.T) {
	for _, s := range []store.Stored{
		{Ref: blobd.RefOf(nil), Digest: blobd.DigestOf(nil), Size: 7, StepID: `a"\<é` + "\u2028", Class: "notes", CreatedAt: time.Unix(1_700_000_000, 120_000_000)},
		{CreatedAt: time.Unix(0, 1), ExpiresAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 7200))},
	} {
		for _, id := range []string{"x", `run/"1"`, "日本"} {
			want, err := json.Marshal(&wire.Stored{
				Ref: s.Ref.String(), Digest: s.Digest.Hex(), Size: s.Size, ExecutionID: id, StepID: s.StepID, Class: s.Class,
				CreatedAt: s.CreatedAt.UTC(), ExpiresAt: timeOrNull(s.ExpiresAt),
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := appendStored(nil, id, s); string(got) != string(want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
}

func TestBuffersAreWiped(t *testing.T) {
	p := newBuffers()
	for _, n := range []int64{0, 1, 4096, 4097, 1 << 20, 1 << 25, 1<<25 + 1} {
		b := p.take(n)
		if int64(cap(b.b)) < n || len(b.b) != 0 {
			t.Fatalf("take(%d): len %d, cap %d", n, len(b.b), cap(b.b))
		}
		b.b = append(b.b, "secret"...)
		memory := b.b
		p.release(b)
		if string(memory) != "\x00\x00\x00\x00\x00\x00" {
			t.Errorf("take(%d): %q is left", n, memory)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{
		`{"reasoning":[{"kind":"text","text":"a"}]}`, `{"a":1}`, `{"stepId":"\ud800"}`, "{\"stepId\":\"\xff\"}", `{} {}`, `{"stepId":"a","stepId":"b"}`,
	} {
		f.Add([]byte(s))
	}
	lists := listLimits()
	f.Fuzz(func(t *testing.T, b []byte) {
		var q wire.CaptureRequest
		err := decodeJSON("body", b, '{', &q, lists)
		if err == nil {
			// What was read once reads the same again: nothing was guessed.
			again, err := json.Marshal(&q)
			if err != nil {
				t.Fatalf("%q was read and cannot be written: %v", b, err)
			}
			var r wire.CaptureRequest
			if err := decodeJSON("body", again, '{', &r, lists); err != nil {
				t.Fatalf("%q became %q: %v", b, again, err)
			}
			return
		}
		p := newErrorTable().classify(err)
		if newErrorTable().kinds[p.code].status != 400 {
			t.Fatalf("%q: %v is not 400", b, err)
		}
	})
}
