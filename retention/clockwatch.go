package retention

import (
	"context"
	"log/slog"
	"time"

	"github.com/blobd/blobd/store"
)

// BeatInterval is how often a node looks at the ledger's clock and notes what it found.
// It bounds how long a confirmation takes to reach the other nodes, and how long a jump
// can be forgotten by a process that ends.
const BeatInterval = 10 * time.Second

// Beats keeps the watch of the ledger's clock going.
type Beats struct {
	store *store.Store
	log   *slog.Logger
}

// NewBeats builds the loop.
func NewBeats(s *store.Store, log *slog.Logger) *Beats { return &Beats{store: s, log: log} }

// Run works until ctx ends, and returns its cause.
func (b *Beats) Run(ctx context.Context) error {
	tick := time.NewTicker(BeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if b.store.Serving() != nil {
			continue // said by readiness; the start looks by itself
		}
		if err := b.store.BeatClock(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("the clock is not looked at", "error", err)
		}
	}
}
