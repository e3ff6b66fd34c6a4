package keys

import (
	"context"
	"crypto/sha256"

	"github.com/blobd/blobd"
)

// NewIndex makes a tenant's index key, wrapped. It caches nothing.
func (c *Core) NewIndex(ctx context.Context, tenant string) (*blobd.Key, Wrapped, error) {
	const op = "new index key"
	plaintext := make([]byte, sizeIndex)
	defer clear(plaintext)
	if err := c.fill(op, plaintext[:blobd.KeySize]); err != nil {
		return nil, Wrapped{}, err
	}
	bound := indexBinding(tenant)
	copy(plaintext[blobd.KeySize:], bound[:])
	wrapped, err := c.wrap(ctx, op, tenant, plaintext)
	if err != nil {
		return nil, Wrapped{}, err
	}
	return readIndex(plaintext).key(), wrapped, nil
}

// Index returns a tenant's index key, cached like execution keys.
func (c *Core) Index(ctx context.Context, tenant string, w Wrapped) (*blobd.Key, error) {
	const op = "index key"
	member := sha256.Sum256(w.Ciphertext)
	if found := c.indexes.get(tenant, member); found != nil {
		return found.key(), nil
	}
	found, err := c.indexFlights.do(ctx, flightKey(tenant, blobd.ExecutionTag{}, ID{}, w), func(ctx context.Context) (*index, error) {
		return c.learnIndex(ctx, tenant, member, w)
	})
	if err != nil {
		return nil, classify(op, err)
	}
	return found.key(), nil
}

// index is what the cache holds of an index key.
type index struct{ secret [blobd.KeySize]byte }

// key turns a copy that the caller owns into a key, and wipes it.
func (x *index) key() *blobd.Key {
	defer wipe(x)
	return keyOf(x.secret)
}

func (c *Core) learnIndex(ctx context.Context, tenant string, member [sha256.Size]byte, w Wrapped) (*index, error) {
	if found := c.indexes.peek(tenant, member); found != nil {
		return found, nil
	}
	asked := c.now()
	plaintext, err := c.unwrap(ctx, tenant, w)
	if err != nil {
		return nil, err
	}
	defer clear(plaintext)
	if err := checkBound(plaintext, sizeIndex, indexBinding(tenant)); err != nil {
		return nil, err
	}
	learnt := readIndex(plaintext)
	c.indexes.add(tenant, member, learnt, asked)
	return learnt, nil
}

// RewrapIndex is Rewrap for a tenant's index key.
func (c *Core) RewrapIndex(ctx context.Context, tenant string, w Wrapped) (Wrapped, error) {
	return c.rewrap(ctx, "rewrap index key", tenant, w, sizeIndex, indexBinding(tenant))
}

// readIndex copies the key out of a plaintext of sizeIndex bytes.
func readIndex(plaintext []byte) *index {
	return &index{[blobd.KeySize]byte(plaintext[:blobd.KeySize])}
}
