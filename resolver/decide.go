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
	null         verdict = iota // never stored, not yours, outside the audience
	live                        // the bytes, if they prove themselves
	nullErased                  // the execution or the blob was erased
	nullExpired                 // past its maximum by the ledger's clock
	nullClosed                  // the execution is closed, reversibly
	nullLost                    // an operator accepted the loss
	nullOutsider                // the asker is outside the audience
	missing                     // an error until an operator accepts the loss
)

// isNull reports whether a runtime is told null.
func (v verdict) isNull() bool { return v != live && v != missing }

// decide is the table "States and answers" of docs/lifecycle.md for a read. It
// is a pure function of one answer of the ledger; asker is nil for a reader
// whom the audience does not bind.
//
// The order matters: a fence beats all; a loss that nobody accepted is an error
// before anything that would make it a null by accident, except what the fence
// or the closing of the whole execution decided.
func decide(v ledger.View, b *ledger.Blob, asker *asker) verdict {
	if x := v.Execution; x != nil {
		switch x.State {
		case ledger.ExecutionErased:
			return nullErased
		case ledger.ExecutionClosed:
			return nullClosed
		}
	}
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
	case ledger.BlobSuperseded, ledger.BlobExpired:
		return nullExpired
	case ledger.BlobCollected:
		return null
	case ledger.BlobLive:
	default:
		return missing // a state that this version does not know
	}
	switch {
	case b.Expired(v.Now):
		return nullExpired
	case asker != nil && !asker.mayRead(b.Audience):
		return nullOutsider
	case v.Execution == nil:
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

// joined makes one error of many: the refs of missing and corrupt blobs are
// gathered under one of the errors, the gravest first; anything that is not
// definite makes the whole call indefinite.
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
		if gravest == nil || !errors.Is(gravest, blobd.ErrCorrupt) && errors.Is(about.Err, blobd.ErrCorrupt) {
			gravest = about.Err
		}
	}
	if gravest == nil {
		return nil
	}
	return &blobd.RefsError{Refs: refs, Err: gravest}
}
