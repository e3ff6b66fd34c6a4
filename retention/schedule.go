package retention

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/blobd/blobd"
)

// ParseSchedule reads a schedule in cron's five fields, or a word like @monthly,
// with CRON_TZ=Zone before it or in UTC. "" is none.
//
// Every time that the schedule names on the zone's clock comes once: one that a
// change of the clock leaves out comes when the clock has changed, one that it
// repeats comes at the first of the two.
func ParseSchedule(spec string) (cron.Schedule, error) {
	if spec == "" {
		return nil, nil
	}
	zone, rest, err := splitZone(spec)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w: %w", blobd.ErrInvalid, err)
	}
	schedule, err := cron.ParseStandard(rest)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w: %w", blobd.ErrInvalid, err)
	}
	fields, ok := schedule.(*cron.SpecSchedule)
	if !ok { // @every: a distance, on no clock
		return schedule, nil
	}
	fields.Location = time.UTC
	return clockSchedule{fields, zone}, nil
}

// splitZone takes the time zone from a schedule's front.
func splitZone(spec string) (*time.Location, string, error) {
	for _, mark := range []string{"CRON_TZ=", "TZ="} {
		if after, found := strings.CutPrefix(spec, mark); found {
			name, rest, _ := strings.Cut(after, " ")
			zone, err := time.LoadLocation(name)
			return zone, strings.TrimSpace(rest), err
		}
	}
	return time.UTC, spec, nil
}

// clockSchedule reads a schedule on the clock of a zone. The parser's own reading
// leaves out what a change of the clock leaves out, and repeats what it repeats.
type clockSchedule struct {
	fields *cron.SpecSchedule // in UTC: of the clock's face, without a zone
	zone   *time.Location
}

// Next returns the first time after t, zero if there is none.
func (s clockSchedule) Next(t time.Time) time.Time {
	local := t.In(s.zone)
	face := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
	for { // what the clock showed before t comes no more, even if it shows it again
		face = s.fields.Next(face)
		if face.IsZero() {
			return time.Time{}
		}
		if at := instant(face, s.zone); at.After(t) {
			return at
		}
	}
}

// instant returns the first moment at which the clock of a zone shows a face (given
// in UTC), or the moment of the change that leaves it out.
func instant(face time.Time, zone *time.Location) time.Time {
	const day = 24 * 60 * 60
	shown := func(t time.Time) bool {
		local := t.In(zone)
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC).Equal(face)
	}
	_, before := time.Unix(face.Unix()-day, 0).In(zone).Zone()
	_, after := time.Unix(face.Unix()+day, 0).In(zone).Zone()
	early := time.Unix(face.Unix()-int64(max(before, after)), 0)
	late := time.Unix(face.Unix()-int64(min(before, after)), 0)
	switch {
	case shown(early):
		return early
	case shown(late):
		return late
	}
	_, change := early.In(zone).ZoneBounds()
	return change
}
