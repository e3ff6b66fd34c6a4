package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/seal"
)

// Open returns the text of a live row of the execution. Every proof is made
// before a byte is returned: the sealed bytes hash to the ref, the envelope
// authenticates, its metadata names this tenant and execution and agrees with
// the row.
//
// ErrMissing: the store says that the object is absent. ErrKeyMissing: the key
// service says so of the key. ErrCorrupt: the bytes do not prove themselves,
// after one fresh read. These three carry the ref. ErrUnavailable: nobody gave
// a definite answer.
func (s *Store) Open(ctx context.Context, t ledger.Tenant, x ledger.Execution, b *ledger.Blob) (blobd.Text, seal.Metadata, error) {
	text, m, err := s.open(ctx, t, x, b)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, fmt.Errorf("open: %w", aboutRef(b.Ref, err))
	}
	s.stats.opened.Add(1)
	return text, m, nil
}

func (s *Store) open(ctx context.Context, t ledger.Tenant, x ledger.Execution, b *ledger.Blob) (blobd.Text, seal.Metadata, error) {
	key, err := s.blobKey(ctx, t, x, b)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, err
	}
	defer key.Wipe()
	sealed, err := s.sealed(ctx, blobName(t, x.Tag, b.Ref), b.Ref)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, err
	}
	m, text, err := seal.Open(key, sealed, seal.Owner{Tenant: t.ID, ExecutionID: x.ID})
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, err
	}
	if m.Class != b.Class || m.Kind != b.Kind || m.ContentType != b.ContentType || m.Size != b.Size {
		text.Wipe()
		return blobd.Text{}, seal.Metadata{}, fmt.Errorf("row and envelope disagree: %w", blobd.ErrCorrupt)
	}
	return text, m, nil
}

// blobKey unwraps the key of one blob with its execution's key.
func (s *Store) blobKey(ctx context.Context, t ledger.Tenant, x ledger.Execution, b *ledger.Blob) (*blobd.Key, error) {
	if x.Key == nil || b.WrappedKey == nil {
		return nil, blobd.ErrKeyMissing
	}
	k, err := s.Keys.Execution(ctx, t.ID, x.Tag, x.Key.ID, wrappedOf(*x.Key))
	if err != nil {
		return nil, err
	}
	defer k.Wipe()
	return seal.UnwrapKey(k.Execution, b.Ref, b.WrappedKey)
}

// sealed returns bytes that hash to ref: from memory, or from the store, with
// one fresh read more if the first was damaged on its way.
func (s *Store) sealed(ctx context.Context, name string, ref blobd.Ref) ([]byte, error) {
	if b, ok := s.cache.get(name); ok {
		s.stats.cacheHits.Add(1)
		return b, nil // its hash was checked when it came in
	}
	s.stats.cacheMisses.Add(1)
	b, err := s.fetch(ctx, name, ref)
	if errors.Is(err, blobd.ErrCorrupt) {
		b, err = s.fetch(ctx, name, ref)
	}
	if err != nil {
		return nil, err
	}
	s.cache.add(name, b)
	return b, nil
}

func (s *Store) fetch(ctx context.Context, name string, ref blobd.Ref) ([]byte, error) {
	b, err := s.Objects.Get(ctx, name)
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		// The ledger says live: an absence is a fault, never an answer. The
		// cause is not wrapped, so that nobody takes it for one.
		return nil, fmt.Errorf("object: %w (%v)", blobd.ErrMissing, err)
	case err != nil:
		return nil, fmt.Errorf("object: %w", err)
	case blobd.RefOf(b) != ref:
		return nil, fmt.Errorf("object: %w", blobd.ErrCorrupt)
	}
	return b, nil
}

// MatchesDigest reports whether a row is the text of an expected digest, without
// reading the object: through the repeat tag, the only trace of the digest.
func (s *Store) MatchesDigest(ctx context.Context, t ledger.Tenant, x ledger.Execution, b *ledger.Blob, digest blobd.Digest) (bool, error) {
	if x.Key == nil {
		return false, aboutRef(b.Ref, blobd.ErrKeyMissing)
	}
	k, err := s.Keys.Execution(ctx, t.ID, x.Tag, x.Key.ID, wrappedOf(*x.Key))
	if err != nil {
		return false, aboutRef(b.Ref, err)
	}
	defer k.Wipe()
	tag := seal.RepeatTag(k.Tag, seal.Content{
		Class: b.Class, Kind: b.Kind, ContentType: b.ContentType, Audience: audienceBytes(b.Audience), Digest: digest,
	})
	return tag == b.Repeat, nil
}

// aboutRef names the blob in an error that an operator must look at.
func aboutRef(ref blobd.Ref, err error) error {
	if errors.Is(err, blobd.ErrMissing) || errors.Is(err, blobd.ErrCorrupt) {
		return &blobd.RefsError{Refs: []blobd.Ref{ref}, Err: err}
	}
	return err
}
