package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
)

// classify turns a key service's error into what the core promises. Erased and
// not found become ErrKeyMissing: that a key is destroyed on purpose is the
// ledger's word alone, so from here it is a loss to be alarmed about and never
// an absence. What is unclassified stays so.
func classify(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blobd.ErrErased), errors.Is(err, blobd.ErrNotFound):
		// %v: a caller must not find "erased" or "not found" in the chain.
		return fmt.Errorf("%s: %w (key service: %v)", op, blobd.ErrKeyMissing, err)
	case errors.Is(err, blobd.ErrUnavailable):
		return fmt.Errorf("%s: %w", op, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", op, blobd.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
