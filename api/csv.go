package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/blobd/blobd/api/wire"
)

// typeCSV is the Content-Type of CSV: RFC 4180, in UTF-8, with a header.
const typeCSV = wire.TypeCSV + "; charset=utf-8; header=present"

// wantsCSV reports whether the caller asked for CSV.
func (c *call) wantsCSV() bool {
	for _, value := range c.r.Header["Accept"] {
		for media := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(media, ";")
			if strings.TrimSpace(name) == wire.TypeCSV {
				return true
			}
		}
	}
	return false
}

// column is one column of a report.
type column[L any] struct {
	name string
	cell func(*L) string
}

// safeCell keeps a spreadsheet from taking a text for a formula.
func safeCell(s string) string {
	if s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 {
		return "'" + s
	}
	return s
}

func numberCell(n int64) string { return strconv.FormatInt(n, 10) }

func flagCell(b bool) string { return strconv.FormatBool(b) }

func timeCell(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func textCell(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
