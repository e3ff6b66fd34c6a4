// Package mem is a key service in memory, for tests and for trying blobd out.
//
// It promises the whole Keyring contract but durability: what it wraps can
// never be unwrapped after the process ends.
package mem

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/blobd/blobd/keys/internal/kek"
)

// Keyring is a keys.Keyring.
type Keyring struct{ *kek.Ring }

// New makes an empty keyring whose KEKs come from random, a cryptographic
// source; nil means crypto/rand.
func New(random io.Reader) *Keyring {
	if random == nil {
		random = rand.Reader
	}
	return &Keyring{kek.NewRing(kek.Set{}, random, time.Now, func(kek.Set) error { return nil })}
}
