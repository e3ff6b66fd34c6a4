package drill

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/seal"
)

// openBackup opens a copy of a backup.
func openBackup(t *testing.T, backup string) *sqlite.Ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	copyTo(t, path, backup)
	l, err := sqlite.Open(path, sqlite.Options{Now: time.Now})
	ok(t, err)
	t.Cleanup(func() { ok(t, l.Close()) })
	return l
}

// attack does what a thief of the backup, of the ledger and of the right to use
// the key service can: unwrap every execution key of both, and try each on every
// wrapped blob key of both. opens says whether the erased blobs must come out;
// what lives always must, or the attack proves nothing.
func (d drilled) attack(t *testing.T, p *process, backup *sqlite.Ledger, opens bool) {
	t.Helper()
	ledgers := []ledger.Ledger{p.sqlite, backup}
	var stolen []*blobd.Key
	for _, l := range ledgers {
		stolen = append(stolen, executionKeys(t, p.site.ring, l)...)
	}
	opened := make(map[blobd.Ref]bool)
	for _, l := range ledgers {
		rows, err := l.ScanBlobs(t.Context(), ledger.Position{}, 1000)
		ok(t, err)
		for _, row := range rows {
			for _, k := range stolen {
				if _, err := seal.UnwrapKey(k, row.Ref, row.Blob.WrappedKey); err == nil {
					opened[row.Ref] = true
				}
			}
		}
	}
	for name, ref := range map[string]blobd.Ref{"old": d.old, "stays": d.stays} {
		if !opened[ref] {
			t.Errorf("the attack does not open %q, which lives", name)
		}
	}
	for name, ref := range map[string]blobd.Ref{"the erased execution's": d.gone, "the one erased alone": d.alone} {
		if opened[ref] != opens {
			t.Errorf("%s is opened: %v, want %v", name, opened[ref], opens)
		}
	}
}

// executionKeys are the keys of a ledger that the key service unwraps.
func executionKeys(t *testing.T, ring keys.Keyring, l ledger.Ledger) (opened []*blobd.Key) {
	t.Helper()
	wraps, err := l.Wraps(t.Context(), ledger.WrapQuery{Tenant: drillTenant, Below: math.MaxInt32, Limit: 1000})
	ok(t, err)
	var items []keys.Wrapped
	for _, w := range wraps {
		items = append(items, keys.Wrapped{Version: keys.Version(w.Key.Version), Ciphertext: w.Key.Ciphertext})
	}
	answers, err := ring.Unwrap(t.Context(), drillTenant, items)
	ok(t, err)
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		k, err := blobd.KeyFrom(a.Plaintext[:blobd.KeySize])
		ok(t, err)
		opened = append(opened, k)
	}
	return opened
}
