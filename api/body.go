package api

import (
	"errors"
	"io"
	"math/bits"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

const (
	// bodyGrace and bodyRate bound how long a body may take: grace, and its
	// largest size at this many bytes a second. Answers are bounded alike.
	bodyGrace = 30 * time.Second
	bodyRate  = 64 << 10
	// largeAnswer is the size past which an answer gets a deadline of its own.
	largeAnswer = 64 << 10
	// smallest and largest size classes of pooled buffers, as powers of two. A
	// larger one is made to measure and not kept: what nobody uses is in no
	// budget.
	smallestClass = 12
	largestClass  = 20
)

// buffers pools memory for bodies by size class. What was in one is wiped before
// it is pooled.
type buffers struct {
	classes [largestClass - smallestClass + 1]sync.Pool
}

// buffer is pooled memory; its bytes are valid until it is released.
type buffer struct {
	b     []byte
	class int // -1: not pooled
}

func newBuffers() *buffers {
	p := new(buffers)
	for i := range p.classes {
		p.classes[i].New = func() any { return &buffer{make([]byte, 0, 1<<(smallestClass+i)), i} }
	}
	return p
}

func classOf(n int64) int { return max(bits.Len64(uint64(max(n, 1)-1))-smallestClass, 0) }

// roomOf is how much memory take gives for n bytes.
func roomOf(n int64) int64 {
	if class := classOf(n); class <= largestClass-smallestClass {
		return 1 << (smallestClass + class)
	}
	return n
}

// take returns an empty buffer for at least n bytes.
func (p *buffers) take(n int64) *buffer {
	class := classOf(n)
	if class >= len(p.classes) {
		return &buffer{make([]byte, 0, n), -1}
	}
	return p.classes[class].Get().(*buffer)
}

// release wipes and pools a buffer.
func (p *buffers) release(b *buffer) {
	clear(b.b)
	if b.class < 0 {
		return
	}
	b.b = b.b[:0]
	p.classes[b.class].Put(b)
}

// withBody reads the body, at most limit bytes, hands it to use, and wipes it.
// what use is given is valid until use returns. Before it reads, the request
// holds memory for so many copies of the body.
func (a *API) withBody(c *call, limit, copies int64, use func(body []byte) error) error {
	size, err := c.bodySize(limit)
	if err != nil {
		return err
	}
	if err := c.hold(c.r.Context(), copies*roomOf(size)); err != nil {
		return err
	}
	b, err := a.readBody(c, limit)
	defer a.buffers.release(b)
	if err != nil {
		return err
	}
	return c.inTime(func() error { return use(b.b) })
}

// bodySize is how long the body may be: as announced, or as the limit says.
func (c *call) bodySize(limit int64) (int64, error) {
	if err := c.refuseEncoding(); err != nil {
		return 0, err
	}
	size := c.r.ContentLength
	switch {
	case size > limit:
		return 0, errBodyTooLarge(limit)
	case size < 0:
		return limit, nil
	}
	return size, nil
}

func errBodyTooLarge(limit int64) error {
	return refuse(wire.CodeTooLarge, "the body has more than %d bytes", limit)
}

// readBody reads the whole body. A body that ends before its Content-Length, or
// does not arrive in time, is refused.
func (a *API) readBody(c *call, limit int64) (*buffer, error) {
	size := c.r.ContentLength
	if size == 0 {
		return a.buffers.take(0), nil
	}
	c.allowRead(limit)
	if size < 0 {
		return a.readUnsized(c, limit)
	}
	b := a.buffers.take(size)
	b.b = b.b[:size]
	if _, err := io.ReadFull(c.r.Body, b.b); err != nil {
		return b, errBody(err, limit)
	}
	return b, nil
}

// readUnsized reads a body of unknown length into memory that grows, to one byte
// past the limit: the byte that tells the end.
func (a *API) readUnsized(c *call, limit int64) (*buffer, error) {
	body := http.MaxBytesReader(c.w, c.r.Body, limit)
	b := a.buffers.take(0)
	for {
		if len(b.b) == cap(b.b) {
			bigger := a.buffers.take(min(2*int64(cap(b.b)), limit+1))
			bigger.b = append(bigger.b, b.b...)
			a.buffers.release(b)
			b = bigger
		}
		n, err := body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, errBody(err, limit)
		}
	}
}

func errBody(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return errBodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(wire.CodeInvalid, "the body did not arrive in time; nothing was stored")
	}
	return refuse(wire.CodeInvalid, "the body ended before its announced length; nothing was stored")
}

// allowRead gives a body of up to n bytes its time. Connections count by the
// machine's clock, whatever clock the rest goes by; a transport without
// deadlines has none.
func (c *call) allowRead(n int64) {
	if c.r.ContentLength > 0 {
		n = c.r.ContentLength
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(transferTime(n)))
}

// allowWrite gives an answer of n bytes its time.
func (c *call) allowWrite(n int64) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(transferTime(n)))
}

func transferTime(n int64) time.Duration {
	return bodyGrace + time.Duration(n)*time.Second/bodyRate
}

// withJSON reads and decodes a JSON body, hands both to use, and wipes the body.
// The Content-Type is not looked at: a token in a header, not the type, is what
// keeps foreign pages out.
func (a *API) withJSON(c *call, v any, use func(body []byte) error) error {
	return a.withBody(c, a.MaxJSON, jsonCopies, func(body []byte) error {
		if c.rt.optionalBody && len(body) == 0 {
			return use(body)
		}
		if err := decodeJSON("body", body, '{', v, a.lists); err != nil {
			return err
		}
		return use(body)
	})
}

// withoutBody acts for a route that changes something and takes no members: what a
// caller says in a body and nobody reads would pass for done.
func (a *API) withoutBody(c *call, act func() error) error {
	return a.withBody(c, a.MaxJSON, jsonCopies, func(body []byte) error {
		if len(body) > 0 {
			if err := decodeJSON("body", body, '{', new(struct{}), a.lists); err != nil {
				return err
			}
		}
		return act()
	})
}

// readJSON reads and decodes a JSON body and wipes it: what the request holds
// from then on is what was decoded.
func (a *API) readJSON(c *call, v any, limits *json.Unmarshalers) error {
	return a.withBody(c, a.MaxJSON, jsonCopies, func(body []byte) error { return decodeJSON("body", body, '{', v, limits) })
}
