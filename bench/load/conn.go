package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// conn is the raw client: one connection and its buffers. A request leaves in
// one write, and nothing is allocated per exchange.
type conn struct {
	addr string
	raw  net.Conn
	in   *bufio.Reader
	out  []byte
	body bytes.Buffer
}

// Raw is the cheap driver: HTTP/1.1 straight on a TCP connection.
func Raw(ctx context.Context, addr string) (Client, error) {
	c := &conn{addr: addr, in: bufio.NewReaderSize(nil, 32<<10)}
	return c, c.redial(ctx)
}

func (c *conn) redial(ctx context.Context) error {
	raw, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	c.raw = raw
	c.in.Reset(raw)
	return nil
}

func (c *conn) Close() error { return c.raw.Close() }

func (c *conn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// Do writes the request and reads its whole answer. A connection that the server
// asked to close is replaced before the next exchange.
func (c *conn) Do(r *Request, body []byte) (Answer, error) {
	c.out = append(c.out[:0], r.rawHead()...)
	if body != nil {
		c.out = append(c.out, "Content-Length: "...)
		c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
		c.out = append(c.out, "\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, body...)

	start := time.Now()
	if _, err := c.raw.Write(c.out); err != nil {
		return Answer{}, fmt.Errorf("write request: %w", err)
	}
	ans, closing, err := c.read()
	ans.Took = time.Since(start)
	if err != nil {
		return ans, fmt.Errorf("read answer: %w", err)
	}
	if closing {
		_ = c.raw.Close()
		return ans, c.redial(context.Background())
	}
	return ans, nil
}

func (c *conn) read() (ans Answer, closing bool, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return ans, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return ans, false, errors.New("not an HTTP/1 status line")
	}
	if ans.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return ans, false, fmt.Errorf("status line: %w", err)
	}
	h, err := c.readHeaders()
	if err != nil {
		return ans, false, err
	}
	ans.Null = h.null
	if ans.Status == 204 || ans.Status == 304 {
		return ans, h.closing, nil
	}
	ans.Body, err = c.readBody(h)
	return ans, h.closing, err
}

// headers holds the few response headers that a client of this package needs.
type headers struct {
	length  int64 // -1: not stated
	chunked bool
	closing bool
	null    bool
}

func (c *conn) readHeaders() (headers, error) {
	h := headers{length: -1}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return h, errors.New("header line without a colon")
		}
		if err := h.take(name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
}

func (h *headers) take(name, value []byte) (err error) {
	switch {
	case is(name, "content-length"):
		h.length, err = strconv.ParseInt(string(value), 10, 64)
	case is(name, "transfer-encoding"):
		h.chunked = is(value, "chunked")
	case is(name, "connection"):
		h.closing = is(value, "close")
	case is(name, "blobd-resolution"):
		h.null = string(value) == "null"
	}
	return err
}

func is(got []byte, lower string) bool {
	return len(got) == len(lower) && bytes.EqualFold(got, []byte(lower))
}

func (c *conn) readBody(h headers) ([]byte, error) {
	c.body.Reset()
	switch {
	case h.chunked:
		return c.readChunked()
	case h.length < 0 && !h.closing:
		return nil, errors.New("no Content-Length and no chunks on a connection that stays open")
	case h.length > maxAnswer:
		return nil, fmt.Errorf("body of %d bytes is more than %d", h.length, maxAnswer)
	case h.length < 0:
		_, err := c.body.ReadFrom(io.LimitReader(c.in, maxAnswer))
		return c.body.Bytes(), err
	}
	c.body.Grow(int(h.length))
	b := c.body.AvailableBuffer()[:h.length]
	_, err := io.ReadFull(c.in, b)
	return b, err
}

func (c *conn) readChunked() ([]byte, error) {
	if _, err := c.body.ReadFrom(io.LimitReader(httputil.NewChunkedReader(c.in), maxAnswer)); err != nil {
		return nil, err
	}
	// The chunked reader leaves the trailer's end, an empty line, unread.
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			return c.body.Bytes(), nil
		}
	}
}
