package ledger

import "context"

// Timelines is what an engine is too whose database lives on a server of its
// own, which may come back with a past: after a failover to a replica that had
// not everything, or a restore.
type Timelines interface {
	// Timeline names the database's present history in less than 64 bytes. It
	// changes whenever commits that were answered may be gone, and seldom else.
	Timeline(ctx context.Context) (string, error)
	// Trust says that the journal was compared on a timeline. From then on what
	// decides a read or makes a change is ErrUnavailable on any other, from the
	// first statement that meets it; what recovery needs goes on.
	Trust(timeline string)
}
