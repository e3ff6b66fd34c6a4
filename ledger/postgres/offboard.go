package postgres

import (
	"context"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// DropKeys implements ledger.Jobs.
func (l *Ledger) DropKeys(ctx context.Context, lease ledger.Lease, limit int) (ledger.Plan, bool, error) {
	return ledger.Plan{}, false, classify("drop keys", blobd.ErrInvalid)
}
