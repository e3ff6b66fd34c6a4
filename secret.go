package blobd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// KeySize is the size of every symmetric key, in bytes.
const KeySize = 32

var errSecret = errors.New("a secret does not marshal itself")

const hidden = "[secret]"

// Key is a symmetric key of 256 bits. It never prints or marshals itself. Wipe
// it when it is no longer needed; a copy made by the runtime (a moved stack)
// is beyond what Go can wipe, as docs/threat-model.md says.
type Key struct{ b [KeySize]byte }

// NewKey reads a key from random, which must be a cryptographic source.
func NewKey(random io.Reader) (*Key, error) {
	k := new(Key)
	if _, err := io.ReadFull(random, k.b[:]); err != nil {
		return nil, fmt.Errorf("new key: %w", err)
	}
	return k, nil
}

// KeyFrom copies 32 bytes into a key; any other length is ErrCorrupt.
func KeyFrom(b []byte) (*Key, error) {
	if len(b) != KeySize {
		return nil, fmt.Errorf("key: want %d bytes: %w", KeySize, ErrCorrupt)
	}
	return &Key{[KeySize]byte(b)}, nil
}

// Bytes lends the key's own memory: it must not be kept past Wipe.
func (k *Key) Bytes() []byte { return k.b[:] }

// Wipe overwrites the key with zeros.
func (k *Key) Wipe() { clear(k.b[:]) }

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

// Text is readable bytes. It never prints or marshals itself.
type Text struct{ b []byte }

// TextOf takes ownership of b.
func TextOf(b []byte) Text { return Text{b} }

// Bytes lends the text's own memory: it must not be kept past Wipe.
func (t Text) Bytes() []byte { return t.b }

// Len returns the number of bytes.
func (t Text) Len() int { return len(t.b) }

// Wipe overwrites the text with zeros.
func (t Text) Wipe() { clear(t.b) }

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
