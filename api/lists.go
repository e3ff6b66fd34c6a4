package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// paging is what a listing asks for.
type paging struct {
	limit int
	after string // the cursor's content; "": the start
}

// paging reads limit and cursor.
func (c *call) paging() (paging, error) {
	limit, err := c.intParam("limit", wire.DefaultList, 1, wire.MaxList)
	if err != nil {
		return paging{}, err
	}
	p := paging{limit: int(limit)}
	cursor := c.param("cursor")
	if cursor == "" {
		return p, nil
	}
	b, err := decodeBase64URL(cursor)
	if err != nil || len(b) == 0 {
		return p, errCursor()
	}
	p.after = string(b)
	return p, nil
}

func errCursor() error {
	return refuse(wire.CodeInvalid, "cursor: want next of the page before, as it was given")
}

// cut cuts rows, of which one more than limit was asked for, to a page, and
// makes its cursor out of the last row.
func cut[T any](rows []T, limit int, key func(T) string) ([]T, *string) {
	if len(rows) <= limit {
		return rows, nil
	}
	rows = rows[:limit]
	next := base64.RawURLEncoding.EncodeToString([]byte(key(rows[limit-1])))
	return rows, &next
}

// timedKey is the cursor of rows in order of a time and an id.
func timedKey(t time.Time, id string) string {
	return strconv.FormatInt(t.UnixNano(), 10) + "/" + id
}

// readTimedKey reads a timedKey.
func readTimedKey(s string) (time.Time, string, error) {
	nanos, id, ok := strings.Cut(s, "/")
	n, err := strconv.ParseInt(nanos, 10, 64)
	if !ok || err != nil {
		return time.Time{}, "", errCursor()
	}
	return time.Unix(0, n).UTC(), id, nil
}
