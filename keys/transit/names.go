package transit

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/blobd/blobd"
)

// A tenant's KEK is the Transit key "blobd." + escaped id + ".kek", the marker
// of a destroyed one "blobd-destroyed." + escaped id + ".kek". In an escaped id
// the bytes a…z, 0…9 and "-" stand for themselves and every other as "_" and two
// hex digits, so that ids and names fit one to one, no id can climb out of its
// path, and Vault's policies tell KEKs from markers by their beginning.
const (
	kekPrefix    = "blobd."
	markerPrefix = "blobd-destroyed."
	nameSuffix   = ".kek"

	// maxEscaped keeps names below what Vault's storages take.
	maxEscaped = 200
)

// names are what Vault calls a tenant's keys.
type names struct{ kek, marker string }

// namesOf refuses what is no tenant: 1 to 256 bytes of valid UTF-8 without
// control characters, and at most maxEscaped bytes once escaped.
func namesOf(tenant string) (names, error) {
	if tenant == "" {
		return names{}, fmt.Errorf("tenant: must not be empty: %w", blobd.ErrInvalid)
	}
	if err := blobd.CheckName("tenant", tenant); err != nil {
		return names{}, err
	}
	escaped := escape(tenant)
	if len(escaped) > maxEscaped {
		return names{}, fmt.Errorf("tenant: too long for a Transit key's name: %w", blobd.ErrInvalid)
	}
	return names{kekPrefix + escaped + nameSuffix, markerPrefix + escaped + nameSuffix}, nil
}

func plain(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }

func escape(tenant string) string {
	var b strings.Builder
	for i := range len(tenant) {
		if c := tenant[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// tenantOf reads a name back. Keys of others, and names that namesOf does not
// make, are none of ours.
func tenantOf(name, prefix string) (string, bool) {
	escaped, ours := strings.CutPrefix(name, prefix)
	if !ours {
		return "", false
	}
	escaped, ours = strings.CutSuffix(escaped, nameSuffix)
	if !ours || escaped == "" {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if c := escaped[i]; c != '_' {
			b.WriteByte(c)
			continue
		}
		if i+3 > len(escaped) {
			return "", false
		}
		c, err := hex.DecodeString(escaped[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	return b.String(), escape(b.String()) == escaped
}
