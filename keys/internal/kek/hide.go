package kek

import (
	"fmt"
	"log/slog"
)

// Each type that leads to a key has a Format of its own: package fmt does not
// call the key's own Format where it came through an unexported field, and with
// some verbs it then follows the pointer.

const hidden = "[KEK]"

// Format hides the key from every verb of package fmt.
func (v Version) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the key from package log/slog.
func (v Version) LogValue() slog.Value { return slog.StringValue(hidden) }

// Format hides the keys from every verb of package fmt.
func (t Tenant) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the keys from package log/slog.
func (t Tenant) LogValue() slog.Value { return slog.StringValue(hidden) }

// Format hides the keys from every verb of package fmt.
func (s Set) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the keys from package log/slog.
func (s Set) LogValue() slog.Value { return slog.StringValue(hidden) }

// Format hides the keys from every verb of package fmt.
func (r *Ring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[keyring]")) }

// LogValue hides the keys from package log/slog.
func (r *Ring) LogValue() slog.Value { return slog.StringValue("[keyring]") }
