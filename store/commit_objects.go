package store

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/seal"
)

// parallelPuts bounds the object writes of one capture.
const parallelPuts = 8

// storeObjects makes every text of the draft durable in the store: new ones are
// sealed under a new key, known ones are checked and restored if need be.
func (s *Store) storeObjects(ctx context.Context, d *draft, x execution) error {
	if len(d.texts) == 1 { // the put: no goroutine
		return s.storeObject(ctx, d, x, d.texts[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelPuts)
	for _, t := range d.texts {
		g.Go(func() error { return s.storeObject(ctx, d, x, t) })
	}
	return g.Wait()
}

func (s *Store) storeObject(ctx context.Context, d *draft, x execution, t *text) error {
	switch {
	case t.erased:
		return nil
	case t.row != nil:
		return s.restore(ctx, d, x, t)
	case t.sealed != nil: // by an earlier round
		return nil
	}
	key, err := blobd.NewKey(s.Random)
	if err != nil {
		return err
	}
	sealed, err := seal.Seal(key, d.metadata(t), t.Text.Bytes())
	if err != nil {
		return err
	}
	ref := blobd.RefOf(sealed)
	name := s.blobName(d.tenant, d.tag, ref)
	if err := s.Objects.Put(ctx, name, sealed); err != nil {
		key.Wipe()
		return fmt.Errorf("store the object: %w", err)
	}
	t.sealed = &sealedText{key, ref, int64(len(sealed))}
	s.cache.add(name, sealed)
	return nil
}

func (d *draft) metadata(t *text) seal.Metadata {
	return seal.Metadata{
		Tenant: d.tenant.ID, ExecutionID: d.attempt.ExecutionID, Class: t.Class, Kind: t.Kind,
		ContentType: t.ContentType, Digest: t.digest, Size: int64(t.Text.Len()),
	}
}

// restore puts back the object of a live row if the store lost or damaged it:
// sealing is a function of key and input, so the bytes come out the same. One at
// a time restores an object: a late one must not remove what another put back
// and acknowledged.
func (s *Store) restore(ctx context.Context, d *draft, x execution, t *text) error {
	name := s.blobName(d.tenant, d.tag, t.row.Ref)
	defer s.restoring.lock(name)()
	stored, err := s.Objects.Get(ctx, name)
	switch {
	case err == nil && blobd.RefOf(stored) == t.row.Ref:
		return nil
	case err != nil && !errors.Is(err, blobd.ErrCorrupt) && !errors.Is(err, blobd.ErrNotFound):
		return fmt.Errorf("look for the object: %w", err)
	}
	sealed, err := d.sealAgain(x, t)
	if err != nil {
		return aboutRef(t.row.Ref, err)
	}
	s.cache.remove(name)
	if err := s.replace(ctx, name, sealed); err != nil {
		return fmt.Errorf("restore the object: %w", err)
	}
	s.Log.Warn("object restored by a repeated put", "ref", t.row.Ref.String())
	return nil
}

// replace puts an object where none or a damaged one lies. A store that does not
// put right bytes over damaged ones has these removed first.
func (s *Store) replace(ctx context.Context, name string, sealed []byte) error {
	err := s.Objects.Put(ctx, name, sealed)
	if !errors.Is(err, blobd.ErrCorrupt) {
		return err
	}
	if _, err := s.Objects.Erase(ctx, backends.Scope{Names: []string{name}}); err != nil {
		return err
	}
	return s.Objects.Put(ctx, name, sealed)
}

// sealAgain makes the sealed bytes of a row from its text.
func (d *draft) sealAgain(x execution, t *text) ([]byte, error) {
	if t.row.WrappedKey == nil {
		return nil, blobd.ErrKeyMissing
	}
	key, err := seal.UnwrapKey(x.Execution, t.row.Ref, t.row.WrappedKey)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	sealed, err := seal.Seal(key, d.metadata(t), t.Text.Bytes())
	if err != nil {
		return nil, err
	}
	if blobd.RefOf(sealed) != t.row.Ref {
		return nil, blobd.ErrCorrupt
	}
	return sealed, nil
}
