package main

import (
	"os"

	"github.com/blobd/blobd/retention/clock"
)

// maxHolidays bounds the file of holidays, in bytes.
const maxHolidays = 1 << 20

// decodeClocks reads the file of holidays.
func (c *config) decodeClocks() []error {
	path := c.values.String("holidays")
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHolidays {
		return []error{c.wrong("holidays", "wants a readable file of at most 1 MiB")}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return []error{c.wrong("holidays", "wants a readable file of at most 1 MiB")}
	}
	if c.Calendars, err = clock.ParseHolidays(string(text)); err != nil {
		return []error{c.wrong("holidays", "wants one date on a line, and after it the regimes that it is a holiday of: "+err.Error())}
	}
	return nil
}
