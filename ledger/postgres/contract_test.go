package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/ledgertest"
)

func TestContract(t *testing.T) {
	b := newBench(t)
	ledgertest.Run(t, ledgertest.Harness{
		New: func(t *testing.T, now func() time.Time) ledger.Ledger {
			return b.open(t, Options{Now: now})
		},
		Reopen: func(t *testing.T, l ledger.Ledger, now func() time.Time) ledger.Ledger {
			return b.reopen(t, l.(*Ledger), Options{Now: now})
		},
		Subjects: func(t *testing.T, l ledger.Ledger, p ledger.Position) [][32]byte {
			hs, err := list(t.Context(), l.(*Ledger), "subjects", func(r pgx.CollectableRow) (h [32]byte, err error) {
				err = r.Scan(fixed(h[:]))
				return h, err
			}, "SELECT subject FROM subjects WHERE execution_tag = $1 AND ref = $2 ORDER BY subject", p.Tag[:], p.Ref[:])
			if err != nil {
				t.Fatal(err)
			}
			return hs
		},
	})
}
