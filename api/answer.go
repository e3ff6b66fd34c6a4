package api

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// largestAnswer is how much of an answer with texts is in memory at once. A
	// longer one is sent in pieces as it is written.
	largestAnswer = 1 << 20
	// piece is how much of a text is written at a time: whole quanta of base64.
	piece = 6 << 10
	// pieceRoom is the most that a piece or a part without its text becomes: a
	// control character takes six bytes, and so does one of an origin.
	pieceRoom = 6*piece + 256
	// partRoom is about what a part takes beside its text.
	partRoom = 320
)

// answerRoom is about what writing texts of n bytes takes in memory.
func answerRoom(n int64) int64 { return min(n+n/8+2*pieceRoom, largestAnswer) }

// textAnswer writes a 200 whose JSON holds texts, in pooled memory that is wiped.
// Nothing is sent before the memory is full or the answer is whole; every text
// was proved before the first write. Where the answer outgrows the memory it has
// no Content-Length. A failed write means that the caller went away.
type textAnswer struct {
	c     *call
	buf   *buffer
	about int64 // bytes, of all of it
	sent  bool  // the head and some of the body are gone
}

// newTextAnswer makes room for texts of n bytes in so many parts.
func (c *call) newTextAnswer(n int64, parts int) textAnswer {
	n += int64(parts) * partRoom
	return textAnswer{c: c, buf: c.rt.api.buffers.take(answerRoom(n)), about: n}
}

// raw writes JSON as it is, of at most pieceRoom bytes.
func (t *textAnswer) raw(s string) {
	t.reserve()
	t.buf.b = append(t.buf.b, s...)
}

// reserve makes room for a piece: append never moves the memory, which would
// leave an unwiped copy behind.
func (t *textAnswer) reserve() {
	if cap(t.buf.b)-len(t.buf.b) < pieceRoom {
		t.flush()
	}
}

func (t *textAnswer) flush() {
	c := t.c
	if !t.sent {
		t.sent = true
		c.w.Header()[headerContentType] = c.rt.api.shared.json
		c.status = http.StatusOK
		c.allowWrite(2 * t.about)
	}
	_, _ = c.w.Write(t.buf.b)
	clear(t.buf.b)
	t.buf.b = t.buf.b[:0]
}

// content writes a text as a member: "text" where it is valid UTF-8, "base64"
// otherwise.
func (t *textAnswer) content(text []byte) {
	if !utf8.Valid(text) {
		t.raw(`"base64":"`)
		for len(text) > 0 {
			n := min(piece, len(text))
			t.reserve()
			t.buf.b = base64.StdEncoding.AppendEncode(t.buf.b, text[:n])
			text = text[n:]
		}
		t.raw(`"`)
		return
	}
	t.raw(`"text":"`)
	for len(text) > 0 {
		n := min(piece, len(text))
		t.reserve()
		t.buf.b = appendEscaped(t.buf.b, text[:n])
		text = text[n:]
	}
	t.raw(`"`)
}

// appendEscaped writes what stands between the quotes of a JSON string. b has the
// room, and text is valid UTF-8 or a stretch of it: what is escaped is ASCII, so
// it does not matter where a character was cut.
func appendEscaped(b, text []byte) []byte {
	for {
		n := plainLen(text)
		b = append(b, text[:n]...)
		if n == len(text) {
			return b
		}
		start := len(b)
		b, _ = jsontext.AppendQuote(b, text[n:n+1])
		end := start + copy(b[start:], b[start+1:len(b)-1]) // without the quotes
		clear(b[end:])                                      // nothing of a text past the end
		b, text = b[:end], text[n+1:]
	}
}

// plainLen is how many bytes at the front need no escape. Most texts need few, so
// eight are looked at at a time.
func plainLen(text []byte) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(text); n += 8 {
		w := binary.LittleEndian.Uint64(text[n:])
		quote, backslash := w^each*'"', w^each*'\\'
		// The top bit of some byte is set where one is below a space, or equal.
		if ((w-each*' ')&^w|(quote-each)&^quote|(backslash-each)&^backslash)&top != 0 {
			break
		}
	}
	for n < len(text) && text[n] >= ' ' && text[n] != '"' && text[n] != '\\' {
		n++
	}
	return n
}

// end sends what is left and wipes the memory.
func (t *textAnswer) end() {
	if t.sent {
		t.flush()
		return
	}
	t.c.write(http.StatusOK, t.c.rt.api.shared.json, t.buf.b)
}

// release wipes the memory; nothing more may be written.
func (t *textAnswer) release() { t.c.rt.api.buffers.release(t.buf) }
