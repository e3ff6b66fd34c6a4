package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd/ledger"
)

// Engine is an engine of the ledger with a place of its own, empty at first.
type Engine interface {
	Name() string
	// Open opens the ledger, which nobody else has open. settings are more of the
	// URL of an engine that has one: NAME=VALUE, joined by "&".
	Open(ctx context.Context, settings string) (ledger.Ledger, error)
	// Copy copies the template until there are so many executions, while no
	// ledger is open. progress is told how many there are.
	Copy(ctx context.Context, executions int, progress func(done int)) error
	// Sizes returns what every table and index takes.
	Sizes(ctx context.Context) ([]Size, error)
	// CPU is the processor time that the engine's server used so far, and Memory
	// what it has resident in bytes; 0 where it is this process.
	CPU() (time.Duration, error)
	Memory() (int64, error)
}

// Size is what a table or an index takes.
type Size struct {
	Table, Name string
	Index       bool
	Bytes       int64
}

// Fill makes a ledger of an engine's that holds so many executions, and proves
// through the ledger's own methods that it is one.
func Fill(ctx context.Context, e Engine, executions int, progress func(done int)) error {
	l, err := e.Open(ctx, "")
	if err != nil {
		return err
	}
	if err := errors.Join(makeTemplate(ctx, l), l.Close()); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	if err := e.Copy(ctx, executions, progress); err != nil {
		return err
	}
	if l, err = e.Open(ctx, ""); err != nil {
		return err
	}
	return errors.Join(Probe(ctx, l, executions), l.Close())
}
