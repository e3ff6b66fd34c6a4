package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/resolver"
)

// recorder keeps what a handler writes.
type recorder struct {
	header http.Header
	body   bytes.Buffer
	writes int
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Write(p []byte) (int, error) {
	r.writes++
	return r.body.Write(p)
}

func newRecorded() (*call, *recorder) {
	a := &API{buffers: newBuffers(), shared: newShared()}
	w := &recorder{header: make(http.Header)}
	return &call{w: w, r: &http.Request{Method: http.MethodPost}, rt: &boundRoute{api: a}}, w
}

// wireResolved is the batch as the encoder of the wire type makes it.
func wireResolved(t *rapid.T, a resolver.Answer) []byte {
	out := wire.Resolved{Parts: make([]wire.ResolvedPart, len(a.Parts))}
	if a.FirstHole >= 0 {
		out.FirstHole = &a.FirstHole
	}
	for i, p := range a.Parts {
		w := &out.Parts[i]
		w.Ref, w.Status = p.Ref.String(), wire.StatusNull
		if p.Null {
			continue
		}
		w.Status, w.Digest, w.Size, w.Kind = wire.StatusOK, p.Digest.Hex(), &p.Size, string(p.Kind)
		w.Text, w.Base64 = wireContent(p.Text.Bytes())
	}
	return encoded(t, &out)
}

func wireContent(b []byte) (*wire.Text, []byte) {
	if strings.ToValidUTF8(string(b), "") != string(b) {
		return nil, b
	}
	text := wire.TextOf(b)
	return &text, nil
}

func encoded(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// texts are short and long, valid and not, with everything that JSON escapes.
func texts() *rapid.Generator[[]byte] {
	some := rapid.SampledFrom([]string{
		"", "plain text, some of it long enough to count. ", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é日本\u2028\u2029\U0001F600", "\xff", "\xe2\x80", "<script>&",
	})
	return rapid.Custom(func(t *rapid.T) []byte {
		one := strings.Join(rapid.SliceOfN(some, 0, 4).Draw(t, "words"), "")
		return []byte(strings.Repeat(one, rapid.SampledFrom([]int{1, 2, 200, 3000}).Draw(t, "times")))
	})
}

func TestResolvedIsTheWireType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := resolver.Answer{FirstHole: -1}
		for i, text := range rapid.SliceOfN(texts(), 1, 5).Draw(t, "texts") {
			p := resolver.Part{Ref: blobd.RefOf(text)}
			if p.Null = rapid.Bool().Draw(t, "null"); p.Null {
				if a.FirstHole < 0 {
					a.FirstHole = i
				}
			} else {
				p.Text, p.Digest, p.Size = blobd.TextOf(text), blobd.DigestOf(text), int64(len(text))
				p.Kind = rapid.SampledFrom([]blobd.Kind{blobd.KindText, blobd.KindSummary}).Draw(t, "kind")
			}
			a.Parts = append(a.Parts, p)
		}
		c, w := newRecorded()
		c.writeResolved(a)
		checkWritten(t, c, w, wireResolved(t, a))
	})
}

// checkWritten wants the very bytes of the wire type, and a Content-Length
// unless they went out in pieces.
func checkWritten(t *rapid.T, c *call, w *recorder, want []byte) {
	if !bytes.Equal(w.body.Bytes(), want) {
		t.Fatalf("got  %.300s\nwant %.300s", w.body.Bytes(), want)
	}
	length := w.header[headerContentLength]
	if w.writes == 1 && (len(length) != 1 || length[0] != fmt.Sprint(len(want))) || w.writes > 1 && length != nil {
		t.Fatalf("%d writes of %d bytes, Content-Length %v", w.writes, len(want), length)
	}
	if c.status != http.StatusOK || w.header[headerContentType][0] != wire.TypeJSON {
		t.Fatalf("status %d, %v", c.status, w.header)
	}
}

func TestReadingIsTheWireType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := resolver.ReadAnswer{Truncated: rapid.Bool().Draw(t, "truncated")}
		want := wire.ReadAnswer{Parts: []wire.ReadPart{}, Truncated: a.Truncated}
		for i, text := range rapid.SliceOfN(texts(), 0, 4).Draw(t, "texts") {
			ref, digest, size, body := blobd.RefOf(text), blobd.DigestOf(text), int64(len(text)), blobd.TextOf(text)
			p := resolver.ReadPart{
				StepID: "turn:1 \"é\"", Attempt: 2, Superseded: i == 1, Index: i, Kind: blobd.KindText, Provider: "p", Status: resolver.StatusErased,
			}
			w := wire.ReadPart{
				StepID: p.StepID, Attempt: 2, Superseded: i == 1, Index: i, Kind: "text", Provider: "p", Status: "erased",
			}
			if rapid.Bool().Draw(t, "ok") {
				p.Status, p.Ref, p.Digest, p.Size, p.Text, p.Model = resolver.StatusOK, &ref, &digest, &size, &body, "m"
				w.Status, w.Ref, w.Digest, w.Size, w.Model = "ok", ref.String(), digest.Hex(), &size, "m"
				w.Content = &wire.Content{Untrusted: true, Origin: wire.OriginPrefix + p.StepID}
				w.Content.Text, w.Content.Base64 = wireContent(text)
			}
			a.Parts, want.Parts = append(a.Parts, p), append(want.Parts, w)
		}
		c, rec := newRecorded()
		if err := c.writeReading(a); err != nil {
			t.Fatal(err)
		}
		checkWritten(t, c, rec, encoded(t, &want))
	})
}

// However much an answer is, little of it is in memory, and that is wiped.
func TestALongAnswerIsSentInPieces(t *testing.T) {
	c, w := newRecorded()
	text := bytes.Repeat([]byte{1}, 4<<20) // six bytes each in JSON
	a := newTextAnswerOf(c, text)
	memory := a.buf.b[:cap(a.buf.b)]
	if len(memory) > largestAnswer {
		t.Errorf("%d bytes of memory", len(memory))
	}
	a.end()
	a.release()
	if w.body.Len() != 6*len(text)+len(`"text":""`) || w.writes < 24 {
		t.Errorf("%d bytes in %d writes", w.body.Len(), w.writes)
	}
	if len(bytes.TrimLeft(memory, "\x00")) != 0 {
		t.Error("a text is left in memory")
	}
}

func newTextAnswerOf(c *call, text []byte) *textAnswer {
	a := c.newTextAnswer(int64(len(text)), 1)
	a.content(text)
	return &a
}

// Nothing takes more memory decoded than a request is charged for its body,
// whatever it is made of; a list that would is refused as it comes.
func TestDecodedJSONIsWithinItsCharge(t *testing.T) {
	const size = 2 << 20
	list := func(head, item, tail string) string {
		n := (size - len(head) - len(tail)) / (len(item) + 1)
		return head + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + tail
	}
	capture := func() any { return new(wire.CaptureRequest) }
	read := func() any { return new(wire.ReadRequest) }
	for name, c := range map[string]struct {
		body string
		into func() any
		code wire.Code // "": it is decoded
	}{
		"parts to resolve": {list(`{"parts":[`, `{}`, `]}`), func() any { return new(wire.ResolveRequest) }, wire.CodeTooLarge},
		"captured parts":   {list(`{"reasoning":[`, `{}`, `]}`), capture, wire.CodeTooLarge},
		"subjects":         {list(`{"subjects":[`, `""`, `]}`), capture, wire.CodeTooLarge},
		"audience":         {list(`{"audience":[`, `{}`, `]}`), capture, wire.CodeTooLarge},
		"refs to erase":    {list(`{"scope":{"refs":[`, `""`, `]}}`), func() any { return new(wire.EraseRequest) }, wire.CodeTooLarge},
		"events":           {list(`{"events":[`, `{}`, `]}`), read, wire.CodeTooLarge},
		"parts of events":  {list(`{"events":[`, `{"parts":[{},{},{},{},{},{},{},{},{}]}`, `]}`), read, wire.CodeTooLarge},
		"recorded":         {`{"recorded":{` + numbered(200_000) + `}}`, read, wire.CodeTooLarge},
		"few events":       {`{"events":[` + strings.Repeat(`{},`, 50_000) + `{"parts":[` + strings.Repeat(`{},`, 49_000) + `{}]}]}`, read, ""},
		"few recorded":     {`{"recorded":{` + numbered(50_000) + `}}`, read, ""},
		"captured text":    {`{"reasoning":[{"text":"` + strings.Repeat("x", size) + `"}]}`, capture, ""},
		"escaped text":     {`{"reasoning":[{"text":"` + strings.Repeat("\\n", size/2) + `"}]}`, capture, ""},
		"signature":        {`{"reasoning":[{"signature":"` + strings.Repeat("\\n", size/2) + `"}]}`, capture, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, limits, charge := c.into(), listLimits(), int64(jsonCopies*size)
			if _, ok := v.(*wire.ReadRequest); ok {
				limits, charge = logLimits(), logRoom(int64(len(c.body)))
			}
			before := liveHeap()
			peak := watchHeap()
			err := decodeJSON("body", []byte(c.body), '{', v, limits)
			most := max(peak(), liveHeap())
			runtime.KeepAlive(v)
			switch p := (*problem)(nil); {
			case c.code == "" && err != nil, c.code != "" && (!errors.As(err, &p) || p.code != c.code):
				t.Errorf("decode: %v, want %q", err, c.code)
			}
			if taken := int64(most) - int64(before) + int64(len(c.body)); taken > charge {
				t.Errorf("%d bytes took %d, charged are %d", len(c.body), taken, charge)
			}
		})
	}
}

// numbered are members with names of their own.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":1,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// watchHeap collects and looks until peak is called.
func watchHeap() (peak func() uint64) {
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		m := uint64(0)
		for {
			select {
			case <-stop:
				most <- m
				return
			default:
				m = max(m, liveHeap())
			}
		}
	}()
	return func() uint64 { close(stop); return <-most }
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
