package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/internal/kek"
)

// The file is JSON with fields in the order below, indented by one tab and
// ended by a newline; tenants are sorted by name in byte order, keys are
// base64 of 32 bytes, times are RFC 3339 in UTC to the second. The checksum is
// the SHA-256, in hex, of the same file with an empty checksum: it finds
// damage, not forgery.
//
// A file that is not byte for byte what this package would write for what it
// says is ErrCorrupt.
const (
	formatName    = "blobd-keyring"
	formatVersion = 1
)

type wireFile struct {
	Format   string       `json:"format"`
	Version  int          `json:"version"`
	Tenants  []wireTenant `json:"tenants"`
	Checksum string       `json:"checksum"`
}

type wireTenant struct {
	Tenant    string     `json:"tenant"`
	Keys      []wireKey  `json:"keys,omitempty"`
	Destroyed *time.Time `json:"destroyed,omitempty"`
}

type wireKey struct {
	Version keys.Version `json:"version"`
	Created time.Time    `json:"created"`
	Key     wireSecret   `json:"key"`
}

// wireSecret is the one type that writes a key out. It still never prints it.
type wireSecret struct{ key *blobd.Key }

// Format hides the key from every verb of package fmt.
func (s wireSecret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }

// LogValue hides the key from package log/slog, which would use MarshalText.
func (s wireSecret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// LogValue hides the keys from package log/slog, which may use encoding/json.
func (k wireKey) LogValue() slog.Value { return slog.StringValue("[secret]") }

// LogValue hides the keys from package log/slog.
func (t wireTenant) LogValue() slog.Value { return slog.StringValue("[secret]") }

// LogValue hides the keys from package log/slog.
func (f wireFile) LogValue() slog.Value { return slog.StringValue("[secret]") }

// MarshalText writes the key in base64.
func (s wireSecret) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, s.key.Bytes()), nil
}

// UnmarshalText reads the key. Its errors never repeat the input.
func (s *wireSecret) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	defer clear(b)
	if err != nil {
		return fmt.Errorf("key is not base64: %w", blobd.ErrCorrupt)
	}
	s.key, err = blobd.KeyFrom(b)
	return err
}

// encode returns the file's bytes; they hold keys and the caller wipes them.
func encode(set kek.Set) ([]byte, error) {
	f := wireFile{Format: formatName, Version: formatVersion, Tenants: []wireTenant{}}
	for _, t := range set.Tenants() {
		w := wireTenant{Tenant: t.Name}
		if !t.Destroyed.IsZero() {
			at := stamp(t.Destroyed)
			w.Destroyed = &at
		}
		for _, v := range t.Versions {
			w.Keys = append(w.Keys, wireKey{v.Version, stamp(v.Created), wireSecret{v.Key}})
		}
		f.Tenants = append(f.Tenants, w)
	}
	unsigned, err := f.bytes()
	if err != nil {
		return nil, err
	}
	defer clear(unsigned)
	sum := sha256.Sum256(unsigned)
	f.Checksum = hex.EncodeToString(sum[:])
	return f.bytes()
}

func (f wireFile) bytes() ([]byte, error) {
	b, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("encode keyring: %w", err)
	}
	return append(b, '\n'), nil
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// decode reads what encode wrote and nothing else. Another version of the
// format is ErrInvalid, all else ErrCorrupt; no error repeats the content.
func decode(b []byte) (kek.Set, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil || head.Format != formatName {
		return kek.Set{}, fmt.Errorf("not a keyring: %w", blobd.ErrCorrupt)
	}
	if head.Version != formatVersion {
		return kek.Set{}, fmt.Errorf("keyring format version %d, this program reads %d: %w", head.Version, formatVersion, blobd.ErrInvalid)
	}
	var f wireFile
	if err := json.Unmarshal(b, &f); err != nil {
		return kek.Set{}, fmt.Errorf("keyring does not parse: %w", blobd.ErrCorrupt)
	}
	set, err := kek.NewSet(f.domain())
	if err != nil {
		return kek.Set{}, err
	}
	again, err := encode(set)
	if err != nil {
		return kek.Set{}, err
	}
	defer clear(again)
	if !bytes.Equal(again, b) {
		return kek.Set{}, fmt.Errorf("keyring's content does not match its checksum or its form: %w", blobd.ErrCorrupt)
	}
	return set, nil
}

func (f wireFile) domain() []kek.Tenant {
	tenants := make([]kek.Tenant, 0, len(f.Tenants))
	for _, w := range f.Tenants {
		t := kek.Tenant{Name: w.Tenant}
		if w.Destroyed != nil {
			t.Destroyed = *w.Destroyed
		}
		for _, k := range w.Keys {
			t.Versions = append(t.Versions, kek.Version{Version: k.Version, Created: k.Created, Key: k.Key.key})
		}
		tenants = append(tenants, t)
	}
	return tenants
}
