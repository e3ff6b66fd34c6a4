package minio

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/blobd/blobd"
)

// probePrefix is where probes lie, under the store's prefix. It is no name of
// the contract, so that no listing shows a probe.
const probePrefix = ".blobd-check/"

// probeName makes a name that no other probe has.
func (s *Store) probeName() (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		return "", fmt.Errorf("probe: %w: %w", blobd.ErrUnavailable, err)
	}
	return probePrefix + hex.EncodeToString(b[:]), nil
}

// Check implements backends.Store: the bucket says of an object that nobody
// wrote that it is absent, takes one that no listing shows, and gives it back.
func (s *Store) Check(ctx context.Context) error {
	_, err := try(ctx, s, "check", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.check(ctx) })
	return err
}

func (s *Store) check(ctx context.Context) error {
	name, err := s.probeName()
	if err != nil {
		return err
	}
	if _, err := s.get(ctx, name); !absent(err) {
		return notAbsent(err)
	}
	if s.writeOnce.Load() {
		return nil // every write would stay: an earlier one proved that they pass
	}
	if err := s.replace(ctx, newUpload(name, []byte(name))); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err = s.get(ctx, name)
	if err != nil {
		err = fmt.Errorf("read: %w", err)
	}
	return errors.Join(err, s.dropProbe(ctx, name))
}

// notAbsent is the error of a store that does not say of a name that nobody
// used that it is absent.
func notAbsent(err error) error {
	if err == nil {
		return fmt.Errorf("an object under a name that nobody used: %w", blobd.ErrUnavailable)
	}
	return fmt.Errorf("read of what is absent: %w", err)
}

// dropProbe deletes a probe in all versions. A probe that the store will not
// delete stays, and is the last one.
func (s *Store) dropProbe(ctx context.Context, name string) error {
	key := s.key(name)
	var found []entry
	err := s.versions(ctx, key, part{key, true}.in, func(x entry) error {
		found = append(found, x)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, x := range found {
		err := s.remove(ctx, x)
		if err == nil {
			continue
		}
		if _, locked, lockErr := s.refusal(ctx, x, err); lockErr != nil || !locked {
			return fmt.Errorf("delete: %w", err)
		}
		s.writeOnce.Store(true)
	}
	return nil
}
