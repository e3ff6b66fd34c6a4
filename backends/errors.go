package backends

import (
	"fmt"

	"github.com/blobd/blobd"
)

var errName = fmt.Errorf("object name: %w", blobd.ErrInvalid)

// CheckScope accepts a scope that sets exactly one of its fields well.
func CheckScope(s Scope) error {
	if (s.Prefix == "") == (len(s.Names) == 0) {
		return fmt.Errorf("scope: want a prefix or names: %w", blobd.ErrInvalid)
	}
	if s.Prefix != "" {
		if s.Prefix[len(s.Prefix)-1] != '/' {
			return fmt.Errorf("scope: a prefix ends in a slash: %w", blobd.ErrInvalid)
		}
		return CheckName(s.Prefix[:len(s.Prefix)-1])
	}
	for _, n := range s.Names {
		if err := CheckName(n); err != nil {
			return err
		}
	}
	return nil
}
