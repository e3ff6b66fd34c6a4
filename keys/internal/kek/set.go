// Package kek holds KEKs in this process's memory: the state that the local and
// the in-memory key service share, and the wrapping itself.
//
// It promises that a change is saved before anybody sees it, that a key is
// wiped when it is dropped and never while it is in use, and that no value of
// its types prints a key. It does no input or output of its own.
package kek

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// Version is one version of a KEK.
type Version struct {
	Version keys.Version
	Created time.Time
	Key     *blobd.Key
}

// Tenant is one tenant's KEK: either versions or the mark that it was destroyed.
type Tenant struct {
	Name      string
	Versions  []Version // ascending without gaps; the last is the newest
	Destroyed time.Time // zero: not destroyed, and there is a version
}

func (t Tenant) newest() Version { return t.Versions[len(t.Versions)-1] }
func (t Tenant) oldest() Version { return t.Versions[0] }

// Set is all tenants' KEKs. A set is never changed: with makes another.
type Set struct{ tenants map[string]Tenant }

// NewSet makes a set of tenants as a file tells them; what breaks the rules of
// Tenant, or a name told twice, is ErrCorrupt.
func NewSet(tenants []Tenant) (Set, error) {
	s := Set{make(map[string]Tenant, len(tenants))}
	for i, t := range tenants {
		if _, twice := s.tenants[t.Name]; twice || !t.valid() {
			return Set{}, fmt.Errorf("KEK %d of %d: %w", i+1, len(tenants), blobd.ErrCorrupt)
		}
		s.tenants[t.Name] = t
	}
	return s, nil
}

func (t Tenant) valid() bool {
	if CheckTenant(t.Name) != nil || (len(t.Versions) == 0) == t.Destroyed.IsZero() {
		return false
	}
	for i, v := range t.Versions {
		if v.Key == nil || v.Version == 0 || v.Version != t.Versions[0].Version+keys.Version(i) {
			return false
		}
	}
	return true
}

// Tenants returns all tenants sorted by name, the destroyed ones too.
func (s Set) Tenants() []Tenant {
	sorted := make([]Tenant, 0, len(s.tenants))
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		sorted = append(sorted, s.tenants[name])
	}
	return sorted
}

// living returns a tenant with a KEK: ErrNotFound if it never had one,
// ErrErased if it was destroyed.
func (s Set) living(name string) (Tenant, error) {
	t, ok := s.tenants[name]
	if !ok {
		return Tenant{}, fmt.Errorf("tenant has no KEK: %w", blobd.ErrNotFound)
	}
	if !t.Destroyed.IsZero() {
		return Tenant{}, fmt.Errorf("tenant's KEK was destroyed: %w", blobd.ErrErased)
	}
	return t, nil
}

func (s Set) with(t Tenant) Set {
	tenants := maps.Clone(s.tenants)
	if tenants == nil {
		tenants = make(map[string]Tenant, 1)
	}
	tenants[t.Name] = t
	return Set{tenants}
}

// wipeExcept wipes the keys of s that are not in kept.
func (s Set) wipeExcept(kept Set) {
	stays := make(map[*blobd.Key]bool)
	for _, t := range kept.tenants {
		for _, v := range t.Versions {
			stays[v.Key] = true
		}
	}
	for _, t := range s.tenants {
		for _, v := range t.Versions {
			if !stays[v.Key] {
				v.Key.Wipe()
			}
		}
	}
}

// CheckTenant accepts a tenant's name: 1 to 256 bytes of valid UTF-8 without
// control characters.
func CheckTenant(name string) error {
	if name == "" {
		return fmt.Errorf("tenant: must not be empty: %w", blobd.ErrInvalid)
	}
	return blobd.CheckName("tenant", name)
}
