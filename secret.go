package blobd

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// KeySize is the size of every symmetric key, in bytes.
const KeySize = 32

var errSecret = errors.New("a secret does not marshal itself")

const hidden = "[secret]"

// Key is a symmetric key of 256 bits; make it with NewKey or KeyFrom. It never
// prints or marshals itself. Its bytes are lent by a function, of which package
// fmt prints no more than an address, also where it cannot call Format, in an
// unexported field. A copied Key is the same key. Wipe it when it is no longer needed; a copy made
// by the runtime (a moved stack) is beyond what Go can wipe, as
// docs/threat-model.md says.
type Key struct{ lend func() *[KeySize]byte }

// NewKey reads a key from random, which must be a cryptographic source.
func NewKey(random io.Reader) (*Key, error) {
	b := new([KeySize]byte)
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("new key: %w", err)
	}
	return lending(b), nil
}

// KeyFrom copies 32 bytes into a key; any other length is ErrCorrupt.
func KeyFrom(b []byte) (*Key, error) {
	if len(b) != KeySize {
		return nil, fmt.Errorf("key: want %d bytes: %w", KeySize, ErrCorrupt)
	}
	k := [KeySize]byte(b)
	return lending(&k), nil
}

func lending(b *[KeySize]byte) *Key { return &Key{func() *[KeySize]byte { return b }} }

// Bytes lends the key's own memory: it must not be kept past Wipe.
func (k *Key) Bytes() []byte { return k.lend()[:] }

// Equal compares two keys in constant time.
func (k *Key) Equal(other *Key) bool {
	return subtle.ConstantTimeCompare(k.Bytes(), other.Bytes()) == 1
}

// Wipe overwrites the key with zeros.
func (k *Key) Wipe() { clear(k.Bytes()) }

// Format hides the key from every verb of package fmt.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the key from package log/slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText refuses.
func (k Key) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalJSON refuses.
func (k Key) MarshalJSON() ([]byte, error) { return nil, errSecret }

// MarshalBinary refuses, and with it package encoding/gob.
func (k Key) MarshalBinary() ([]byte, error) { return nil, errSecret }

// Text is readable bytes. It never prints or marshals itself, in the way that a
// Key does not. The zero Text is empty.
type Text struct{ lend func() []byte }

// TextOf takes ownership of b.
func TextOf(b []byte) Text { return Text{func() []byte { return b }} }

// Bytes lends the text's own memory: it must not be kept past Wipe.
func (t Text) Bytes() []byte {
	if t.lend == nil {
		return nil
	}
	return t.lend()
}

// Len returns the number of bytes.
func (t Text) Len() int { return len(t.Bytes()) }

// Wipe overwrites the text with zeros.
func (t Text) Wipe() { clear(t.Bytes()) }

// Format hides the text from every verb of package fmt.
func (t Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[text]")) }

// LogValue hides the text from package log/slog.
func (t Text) LogValue() slog.Value { return slog.StringValue("[text]") }

// MarshalText refuses.
func (t Text) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalJSON refuses.
func (t Text) MarshalJSON() ([]byte, error) { return nil, errSecret }

// MarshalBinary refuses, and with it package encoding/gob.
func (t Text) MarshalBinary() ([]byte, error) { return nil, errSecret }
