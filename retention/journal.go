package retention

import (
	"context"
	"log/slog"
	"time"

	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/store"
)

// MarkInterval is how often a high-water mark of the writes is journalled.
const MarkInterval = 3 * time.Second

// Marks publishes high-water marks, and journal records that a crash or an
// outage left unpublished.
type Marks struct {
	store   *store.Store
	journal *evidence.Journal
	now     func() time.Time
	log     *slog.Logger
}

// NewMarks builds the loop.
func NewMarks(s *store.Store, j *evidence.Journal, now func() time.Time, log *slog.Logger) *Marks {
	return &Marks{store: s, journal: j, now: now, log: log}
}

// Run works until ctx ends, marks a last time, and returns the cause.
func (m *Marks) Run(ctx context.Context) error {
	tick := time.NewTicker(MarkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.mark(context.WithoutCancel(ctx))
			return context.Cause(ctx)
		case <-tick.C:
			m.mark(ctx)
		}
	}
}

func (m *Marks) mark(ctx context.Context) {
	if m.store.Serving() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, MarkInterval)
	defer cancel()
	err := m.journal.Flush(ctx)
	if err == nil {
		err = m.journal.Mark(ctx, m.now().UTC())
	}
	if err != nil {
		m.log.Warn("journal waits", "error", err)
	}
}
