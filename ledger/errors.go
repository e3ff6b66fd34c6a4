package ledger

import (
	"fmt"

	"github.com/blobd/blobd"
)

var errRecord = fmt.Errorf("journal record: %w", blobd.ErrCorrupt)
