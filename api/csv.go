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
func (c *call) wantsCSV() bool { return c.prefers(wire.TypeCSV) }

// prefers reports whether Accept names a media type, and names JSON not more gladly.
func (c *call) prefers(media string) bool {
	var json float64
	asked := 0.0
	for _, value := range c.r.Header["Accept"] {
		for choice := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(choice, ";")
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case media:
				asked = max(asked, quality(parameters))
			case wire.TypeJSON:
				json = max(json, quality(parameters))
			}
		}
	}
	return asked > 0 && asked >= json
}

// quality reads the weight among the parameters of a media range; 1 where there is
// none that can be read.
func quality(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return q
		}
	}
	return 1
}

// column is one column of a report.
type column[L any] struct {
	name string
	cell func(*L) string
}

// safeCell keeps a spreadsheet from taking a text for a formula.
func safeCell(s string) string {
	if s != "" && strings.IndexByte("=+-@\t\r\n", s[0]) >= 0 {
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
