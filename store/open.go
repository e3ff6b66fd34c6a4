package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
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
	o := s.Opener(t, &x)
	defer o.Close()
	return o.Open(ctx, b)
}

// Opener opens blobs of one execution; what they share is looked up once, by the
// first that needs it. It is safe for concurrent use until Close.
type Opener struct {
	store     *Store
	tenant    ledger.Tenant
	execution *ledger.Execution

	once sync.Once
	keys keys.ExecutionKeys // after once; none where err is not nil
	err  error              // after once
}

// Opener returns an opener for an execution of a tenant; close it.
func (s *Store) Opener(t ledger.Tenant, x *ledger.Execution) *Opener {
	return &Opener{store: s, tenant: t, execution: x}
}

// Close wipes the execution's key. No call may be under way.
func (o *Opener) Close() {
	if o.keys.Execution != nil {
		o.keys.Wipe()
	}
}

// Open is Store.Open.
func (o *Opener) Open(ctx context.Context, b *ledger.Blob) (blobd.Text, seal.Metadata, error) {
	text, m, err := o.open(ctx, b)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, fmt.Errorf("open: %w", aboutRef(b.Ref, err))
	}
	o.store.stats.opened.Add(1)
	return text, m, nil
}

func (o *Opener) open(ctx context.Context, b *ledger.Blob) (blobd.Text, seal.Metadata, error) {
	key, err := o.blobKey(ctx, b)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, err
	}
	defer key.Wipe()
	sealed, err := o.sealed(ctx, b.Ref)
	if err != nil {
		return blobd.Text{}, seal.Metadata{}, err
	}
	m, text, err := seal.Open(key, sealed, seal.Owner{Tenant: o.tenant.ID, ExecutionID: o.execution.ID})
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
func (o *Opener) blobKey(ctx context.Context, b *ledger.Blob) (*blobd.Key, error) {
	x := o.execution
	if x.Key == nil || b.WrappedKey == nil {
		return nil, blobd.ErrKeyMissing
	}
	o.once.Do(func() {
		o.keys, o.err = o.store.Keys.Execution(ctx, o.tenant.ID, x.Tag, x.Key.ID, wrappedOf(*x.Key))
	})
	if o.err != nil {
		return nil, o.err
	}
	return seal.UnwrapKey(o.keys.Execution, b.Ref, b.WrappedKey)
}

// sealed returns bytes that hash to ref: from memory, or from the store, with
// one fresh read more if the first was damaged on its way.
func (o *Opener) sealed(ctx context.Context, ref blobd.Ref) ([]byte, error) {
	s := o.store
	if b, ok := s.cache.get(ref); ok {
		s.stats.cacheHits.Add(1)
		return b, nil // its hash was checked when it came in
	}
	s.stats.cacheMisses.Add(1)
	name := s.blobName(o.tenant, o.execution.Tag, ref)
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
		if err := s.ours(ctx); err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
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
