package mem

import "github.com/blobd/blobd/ledger"

// Subjects returns a row's subjects in no order.
func (l *Ledger) Subjects(p ledger.Position) (hs [][32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.subjects[p] {
		hs = append(hs, h)
	}
	return hs
}
