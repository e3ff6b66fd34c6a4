package mem_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/ledgertest"
	"github.com/blobd/blobd/ledger/mem"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, ledgertest.Harness{
		New: func(_ *testing.T, now func() time.Time) ledger.Ledger { return mem.New(now) },
		Subjects: func(_ *testing.T, l ledger.Ledger, p ledger.Position) [][32]byte {
			hs := l.(*mem.Ledger).Subjects(p)
			slices.SortFunc(hs, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
			return hs
		},
	})
}
