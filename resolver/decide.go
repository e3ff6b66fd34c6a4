package resolver

import (
	"errors"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// verdict is what the ledger says about one ref.
type verdict uint8

const (
	null           verdict = iota // never stored, not yours, outside the audience
	live                          // the bytes, if they prove themselves
	nullErased                    // the execution or the blob was erased
	nullExpired                   // past its maximum by the ledger's clock
	nullClosed                    // closed, reversibly, by an erasure
	nullRestricted                // closed by a restriction
	nullLost                      // an operator accepted the loss
	nullOutsider                  // the asker is outside the audience
	missing                       // an error until an operator accepts the loss
	doubtful                      // an error until the clock is trusted again: only time would make it a null
)

// isNull reports whether a runtime is told null.
func (v verdict) isNull() bool { return v != live && v != missing && v != doubtful }

// decide is the table "States and answers" of docs/lifecycle.md for a read. It
// is a pure function of one answer of the ledger; asker is nil for a reader
// whom the audience does not bind.
//
// The order matters: a fence beats all, then what an order closes; a loss that nobody
// accepted is an error before anything that would make it a null by accident, except
// what the fence or an order decided.
func decide(v ledger.View, b *ledger.Blob, asker *asker) verdict {
	if v.Execution != nil && v.Execution.State == ledger.ExecutionErased {
		return nullErased
	}
	switch closedBy(v, b) {
	case ledger.ClosedRestricted:
		return nullRestricted
	case ledger.ClosedErasure:
		return nullClosed
	}
	return decideOpen(v, b, asker)
}

// closedBy says why a ref is closed; 0: it is not. A row knows of what closes its
// whole execution too, and of what is stronger than that.
func closedBy(v ledger.View, b *ledger.Blob) ledger.CloseReason {
	if b != nil && b.Closed != 0 {
		return b.Closed
	}
	switch x := v.Execution; {
	case x == nil || x.State != ledger.ExecutionClosed:
		return 0
	case x.CloseReason == ledger.ClosedRestricted:
		return ledger.ClosedRestricted
	}
	return ledger.ClosedErasure
}

// decideOpen is decide for what no order closes, or for a reader whom it lets through.
func decideOpen(v ledger.View, b *ledger.Blob, asker *asker) verdict {
	if b == nil {
		if v.Recovery != ledger.RecoveryNone {
			return missing // the ledger forgot puts and cannot say which
		}
		return null
	}
	switch b.State {
	case ledger.BlobErased:
		return nullErased
	case ledger.BlobLost:
		return nullLost
	case ledger.BlobMissing:
		return missing
	case ledger.BlobSuperseded:
		if asker == nil && b.Held {
			return live // what a hold keeps past its maximum an auditor may read
		}
		return nullExpired
	case ledger.BlobExpired:
		return nullExpired
	case ledger.BlobCollected:
		return null
	case ledger.BlobLive:
	default:
		return missing // a state that this version does not know
	}
	switch {
	case asker != nil && !asker.mayRead(b.Audience):
		return nullOutsider // whatever the time is
	case asker == nil && b.Held:
	case v.Doubtful(b) && v.Execution != nil:
		return doubtful
	case b.Expired(v.Now) && v.Trusted.IsZero():
		return nullExpired
	}
	if v.Execution == nil {
		return missing // a row without its execution
	}
	return live
}

// asker is who a text would be shown to.
type asker struct {
	named bool
	tag   [32]byte // of the principal, when named
}

// mayRead reports whether an audience admits the asker. No audience admits
// everyone of the tenant; an audience admits only named members.
func (a *asker) mayRead(audience [][32]byte) bool {
	return len(audience) == 0 || a.named && slices.Contains(audience, a.tag)
}

// joined makes one error of many: the refs that they are about are gathered under one
// of the errors, the gravest; anything that is not definite makes the whole call
// indefinite.
func joined(errs []error) error {
	var refs []blobd.Ref
	var gravest error
	for _, err := range errs {
		if err == nil {
			continue
		}
		var about *blobd.RefsError
		if !errors.As(err, &about) {
			return err
		}
		refs = append(refs, about.Refs...)
		if gravity(about.Err) > gravity(gravest) {
			gravest = about.Err
		}
	}
	if gravest == nil {
		return nil
	}
	return &blobd.RefsError{Refs: refs, Err: gravest}
}

// gravity orders what is told of several blobs: that nobody knows before that one is
// corrupt, and that before an absence.
func gravity(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, blobd.ErrUnavailable):
		return 3
	case errors.Is(err, blobd.ErrCorrupt):
		return 2
	}
	return 1
}
