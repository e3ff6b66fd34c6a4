package webhooks

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"github.com/blobd/blobd"
)

// MaxURL bounds a webhook's URL, in bytes.
const MaxURL = 2048

// CheckURL refuses, as ErrInvalid, what no webhook is sent to: anything but an
// absolute https URL (http too where private addresses are allowed) with a host and a
// port that there can be, and without credentials or a fragment; and, unless private
// addresses are allowed, an address in it that is not public, or localhost.
// The error never repeats the URL: it may hold a secret.
func CheckURL(raw string, allowPrivate bool) error {
	u, err := url.Parse(raw)
	switch {
	case len(raw) > MaxURL:
		return fmt.Errorf("url: more than %d bytes: %w", MaxURL, blobd.ErrInvalid)
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("url: want an absolute URL with a host and without credentials or a fragment: %w", blobd.ErrInvalid)
	case u.Scheme != "https" && (u.Scheme != "http" || !allowPrivate):
		return fmt.Errorf("url: want https: %w", blobd.ErrInvalid)
	case !isPort(u.Port()):
		return fmt.Errorf("url: there is no such port: %w", blobd.ErrInvalid)
	}
	private := false
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		private = ssrf.New().SafeAddr(address) != nil
	} else if private, err = isLocal(u.Hostname()); err != nil {
		return err
	}
	if private && !allowPrivate {
		return fmt.Errorf("url: the address is not public: %w", blobd.ErrInvalid)
	}
	return nil
}

// isLocal reports whether a name is this machine's. Of any other name the addresses are
// looked at when it is dialled. A name that ends in a number is ErrInvalid: no such one
// resolves, and some readers take it for an address.
func isLocal(name string) (bool, error) {
	name, err := dialled(name)
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	if err != nil || last == "" || isNumber(last) {
		return false, fmt.Errorf("url: want the name of a host, or an address: %w", blobd.ErrInvalid)
	}
	return last == "localhost", nil
}

// dialled is a name as the HTTP client dials it.
func dialled(name string) (string, error) {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return idna.Lookup.ToASCII(name)
		}
	}
	return name, nil
}

// isNumber: decimal, octal or, after 0x, hexadecimal.
func isNumber(label string) bool {
	digits, base := strings.CutPrefix(label, "0x")
	set := "0123456789"
	if base {
		set += "abcdef"
	}
	return strings.Trim(digits, set) == ""
}

// isPort: none, or one that can be connected to.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}
