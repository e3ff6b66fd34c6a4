package faults

import (
	"context"
	"errors"
	"sync"
)

// news wakes whoever waits for something to come true. The zero value is ready.
type news struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu; closed by the next tell; nil: nobody waits
}

// tell says that something changed.
func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

var errNever = errors.New("it never came so far")

// await returns once ok holds.
func (n *news) await(ctx context.Context, ok func() bool) error {
	for {
		next := n.listen()
		if ok() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return errNever
		}
	}
}

func (n *news) listen() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}
