package api

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// readExecutionID reads the id out of the path, or out of its header where the
// path has "-" in its place.
func (c *call) readExecutionID() error {
	id := c.r.PathValue("executionId")
	if values, given := c.r.Header[wire.HeaderExecutionID]; given {
		if id != "-" || len(values) != 1 {
			return refuse(wire.CodeInvalid, "%s: want one value, and - in the path", wire.HeaderExecutionID)
		}
		b, err := decodeBase64URL(values[0])
		if err != nil {
			return refuse(wire.CodeInvalid, "%s: want base64url", wire.HeaderExecutionID)
		}
		id = string(b)
	}
	c.executionID = id
	return invalid(blobd.CheckExecutionID(id))
}

// decodeBase64URL accepts base64url with or without padding, and only one
// spelling of each: no line breaks, no stray bits.
func decodeBase64URL(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	if strings.HasSuffix(s, "=") {
		return base64.URLEncoding.Strict().DecodeString(s)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// readQuery reads the query keys of the route. A key that the route does not
// have, or that comes twice, is refused.
func (c *call) readQuery() error {
	var seen [maxQuery]bool
	for rest := c.r.URL.RawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, errKey := url.QueryUnescape(key)
		value, errValue := url.QueryUnescape(value)
		if errKey != nil || errValue != nil || strings.Contains(pair, ";") || !utf8.ValidString(value) {
			return refuse(wire.CodeInvalid, "the query is not well-formed")
		}
		i := c.rt.queryIndex(key)
		switch {
		case i < 0:
			return refuse(wire.CodeInvalid, "the query has a key that this route does not have")
		case seen[i]:
			return refuse(wire.CodeInvalid, "the query has the key %s twice", c.rt.query[i].name)
		}
		seen[i], c.query[i] = true, value
	}
	return nil
}

func (rt *boundRoute) queryIndex(key string) int {
	for i := range rt.query {
		if rt.query[i].name == key {
			return i
		}
	}
	return -1
}

// param returns the value of a query key of the route, "" where it is absent.
func (c *call) param(key string) string {
	if i := c.rt.queryIndex(key); i >= 0 {
		return c.query[i]
	}
	return ""
}

// intParam reads a query key as a decimal number within bounds.
func (c *call) intParam(key string, absent, least, most int64) (int64, error) {
	s := c.param(key)
	if s == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most || s[0] == '+' {
		return 0, refuse(wire.CodeInvalid, "%s: want a whole number from %d to %d", key, least, most)
	}
	return n, nil
}

// pathRef reads the ref in the path.
func (c *call) pathRef() (blobd.Ref, error) {
	ref, err := blobd.ParseRef(c.r.PathValue("ref"))
	return ref, invalid(err)
}

// oneHeader returns the only value of a header.
func (c *call) oneHeader(name string) (value string, given bool, err error) {
	values, given := c.r.Header[name]
	if given && len(values) != 1 {
		return "", true, refuse(wire.CodeInvalid, "%s: want one value", name)
	}
	if !given {
		return "", false, nil
	}
	return values[0], true, nil
}
