package keys

import (
	"errors"
	"fmt"
	"log/slog"
)

// The types of this contract that carry secrets refuse to print themselves:
// an answer that was logged by mistake shows its state and no key.

var errSecret = errors.New("keys: a secret does not marshal itself")

const (
	hiddenUnwrapped = "[unwrapped]"
	hiddenWrapped   = "[wrapped]"
	hiddenKeys      = "[execution keys]"
	hiddenCore      = "[key core]"
)

// Format hides the plaintext from every verb of package fmt.
func (u Unwrapped) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenUnwrapped)) }

// LogValue hides the plaintext from package log/slog.
func (u Unwrapped) LogValue() slog.Value { return slog.StringValue(hiddenUnwrapped) }

// MarshalJSON refuses.
func (u Unwrapped) MarshalJSON() ([]byte, error) { return nil, errSecret }

// Format hides the ciphertext: with the KEK it is the key.
func (w Wrapped) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenWrapped)) }

// LogValue hides the ciphertext from package log/slog.
func (w Wrapped) LogValue() slog.Value { return slog.StringValue(hiddenWrapped) }

// Format hides both keys from every verb of package fmt.
func (k ExecutionKeys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenKeys)) }

// LogValue hides both keys from package log/slog.
func (k ExecutionKeys) LogValue() slog.Value { return slog.StringValue(hiddenKeys) }

// MarshalJSON refuses.
func (k ExecutionKeys) MarshalJSON() ([]byte, error) { return nil, errSecret }

// Format hides the cache from every verb of package fmt.
func (c *Core) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenCore)) }

// LogValue hides the cache from package log/slog.
func (c *Core) LogValue() slog.Value { return slog.StringValue(hiddenCore) }

// The types of the cache have a Format of their own too: package fmt does not
// call a key's Format where it came through an unexported field, and with some
// verbs it then follows the pointer.

func (e execution) Format(f fmt.State, _ rune)       { _, _ = f.Write([]byte(hiddenKeys)) }
func (x index) Format(f fmt.State, _ rune)           { _, _ = f.Write([]byte(hiddenKeys)) }
func (h held[M, V]) Format(f fmt.State, _ rune)      { _, _ = f.Write([]byte(hiddenKeys)) }
func (g group[M, V]) Format(f fmt.State, _ rune)     { _, _ = f.Write([]byte(hiddenKeys)) }
func (c *cache[G, M, V]) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenCore)) }
func (f *flight[V]) Format(s fmt.State, _ rune)      { _, _ = s.Write([]byte(hiddenKeys)) }
func (f *flights[V]) Format(s fmt.State, _ rune)     { _, _ = s.Write([]byte(hiddenCore)) }
