// Package faulty decorates a ledger with programmable faults, for tests of
// whoever uses one.
//
// It promises that a fault Before leaves the inner ledger untouched, that a
// fault After comes when the inner ledger has done the call in full, and that
// without a fault every call is the inner ledger's.
package faulty

import (
	"slices"
	"strings"
	"sync"

	"github.com/blobd/blobd/ledger"
)

// When says on which side of the inner call a fault comes.
type When int

// The two sides: an unanswered call may have happened or not.
const (
	Before When = iota
	After
)

// Ledger is a ledger with faults. Make one with New.
type Ledger struct {
	inner ledger.Ledger

	mu     sync.Mutex // guards all below
	faults []*fault
	onCall func(op string)
}

type fault struct {
	op   string
	left int // calls until it comes
	when When
	err  error
}

var _ ledger.Ledger = (*Ledger)(nil)

// New decorates inner.
func New(inner ledger.Ledger) *Ledger { return &Ledger{inner: inner} }

// Fail makes the nth call of op from now on (1 is the next) answer err, once,
// without doing it (Before) or after having done it (After). An op is the
// method's name in lower case, "commit" or "lookuprepeats"; "" is any method.
// Several faults may be set; each counts its own calls.
func (l *Ledger) Fail(op string, nth int, when When, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, &fault{strings.ToLower(op), nth, when, err})
}

// OnCall has f called at the start of each call with its op, by the goroutine
// that calls. f may call Fail. Nil takes it away.
func (l *Ledger) OnCall(f func(op string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onCall = f
}

// Pending returns how many faults have not come yet.
func (l *Ledger) Pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults)
}

// due counts a call and returns the faults that come with it, nil for none.
func (l *Ledger) due(op string) (before, after error) {
	l.mu.Lock()
	onCall := l.onCall
	l.mu.Unlock()
	if onCall != nil {
		onCall(op)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = slices.DeleteFunc(l.faults, func(f *fault) bool {
		if f.op != "" && f.op != op {
			return false
		}
		if f.left--; f.left > 0 {
			return false
		}
		if f.when == Before {
			before = f.err
		} else {
			after = f.err
		}
		return true
	})
	return before, after
}

// do wraps a call without a result.
func (l *Ledger) do(op string, call func() error) error {
	before, after := l.due(op)
	if before != nil {
		return before
	}
	if err := call(); err != nil || after == nil {
		return err
	}
	return after
}

// get wraps a call with a result, which a fault keeps back.
func get[T any](l *Ledger, op string, call func() (T, error)) (T, error) {
	var result T
	err := l.do(op, func() (err error) {
		result, err = call()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

// pair carries the two results of a call through get.
type pair[A, B any] struct {
	a A
	b B
}

func get2[A, B any](l *Ledger, op string, call func() (A, B, error)) (A, B, error) {
	p, err := get(l, op, func() (p pair[A, B], err error) {
		p.a, p.b, err = call()
		return p, err
	})
	return p.a, p.b, err
}
