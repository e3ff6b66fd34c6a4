package main

import (
	"strconv"
	"time"
	_ "time/tzdata" // CRON_TZ works where the system has no zones

	"github.com/blobd/blobd/retention"
)

// leastHorizon keeps a horizon from being too short for the reads and puts that
// are under way; it is far below any that makes sense.
const leastHorizon = time.Minute

// decodeEpochs reads how key epochs are run.
func (c *config) decodeEpochs() (errs []error) {
	text := c.values.String
	horizon, err := time.ParseDuration(text("keys.horizon"))
	if err != nil || horizon < leastHorizon {
		errs = append(errs, c.wrong("keys.horizon", "wants a duration like 720h, at least "+leastHorizon.String()))
	}
	rate, err := strconv.Atoi(text("keys.rewrapRate"))
	if err != nil || rate < 0 {
		errs = append(errs, c.wrong("keys.rewrapRate", "wants a whole number of keys a second; 0: no bound"))
	}
	schedule, err := retention.ParseSchedule(text("keys.rotateCron"))
	if err != nil {
		errs = append(errs, c.wrong("keys.rotateCron", "wants five fields of cron or a word like @monthly, after CRON_TZ=Zone if need be"))
	}
	c.Epochs = retention.EpochOptions{Horizon: horizon, Rate: rate, Schedule: schedule}
	return errs
}
