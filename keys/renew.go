package keys

import (
	"context"
	"crypto/subtle"
	"fmt"

	"github.com/blobd/blobd"
)

// Renewal asks for one execution's keys under the newest KEK version.
type Renewal struct {
	Tag     blobd.ExecutionTag
	ID      ID
	Wrapped Wrapped
	// Replace asks for a new execution key, under a new ID. The tag key stays, so
	// that repeats are still found.
	Replace bool
}

// Renewed answers one Renewal.
type Renewed struct {
	ID      ID
	Wrapped Wrapped
	// Old and New are the execution keys of a Replace, owned by the caller; nil
	// otherwise. See Wipe.
	Old, New *blobd.Key
	Err      error // as Rewrap's; then nothing else is set
}

// Wipe overwrites the keys, if there are any.
func (r Renewed) Wipe() {
	for _, k := range []*blobd.Key{r.Old, r.New} {
		if k != nil {
			k.Wipe()
		}
	}
}

// Renew is Rewrap for many executions of a tenant, and can replace execution
// keys. It calls the key service three times, however many they are: the new
// wraps are unwrapped again before they are returned, since they will overwrite
// the only other ones. It caches nothing. The error is of the whole call; what
// concerns one item is in its answer.
func (c *Core) Renew(ctx context.Context, tenant string, items []Renewal) ([]Renewed, error) {
	const op = "renew execution keys"
	wrapped := make([]Wrapped, len(items))
	for i, item := range items {
		wrapped[i] = item.Wrapped
	}
	opened, err := c.ring.Unwrap(ctx, tenant, wrapped)
	if err != nil {
		return nil, classify(op, err)
	}
	defer func() {
		for _, o := range opened {
			clear(o.Plaintext)
		}
	}()
	if len(opened) != len(items) {
		return nil, fmt.Errorf("%s: the key service answered something else: %w", op, blobd.ErrUnavailable)
	}
	answers := make([]Renewed, len(items))
	var plaintexts [][]byte
	var sent []int
	for i, item := range items {
		if answers[i], err = c.renew(tenant, item, opened[i]); err != nil {
			answers[i] = Renewed{Err: classify(op, err)}
			continue
		}
		plaintexts, sent = append(plaintexts, opened[i].Plaintext), append(sent, i)
	}
	if len(sent) == 0 {
		return answers, nil
	}
	again, err := c.wrapAndProve(ctx, tenant, plaintexts)
	if err != nil {
		for _, a := range answers {
			a.Wipe()
		}
		return nil, classify(op, err)
	}
	for j, i := range sent {
		answers[i].Wrapped = again[j]
	}
	return answers, nil
}

// wrapAndProve returns wraps that were seen to open to what they hold.
func (c *Core) wrapAndProve(ctx context.Context, tenant string, plaintexts [][]byte) ([]Wrapped, error) {
	strange := fmt.Errorf("the key service answered something else: %w", blobd.ErrUnavailable)
	wrapped, err := c.ring.Wrap(ctx, tenant, plaintexts)
	if err != nil {
		return nil, err
	}
	if len(wrapped) != len(plaintexts) {
		return nil, strange
	}
	opened, err := c.ring.Unwrap(ctx, tenant, wrapped)
	if err != nil {
		return nil, err
	}
	same := len(opened) == len(wrapped)
	for i, o := range opened {
		same = same && o.Err == nil && subtle.ConstantTimeCompare(o.Plaintext, plaintexts[i]) == 1
		clear(o.Plaintext)
	}
	if !same {
		return nil, strange
	}
	return wrapped, nil
}

// renew checks one plaintext, and changes it in place where its key is replaced.
func (c *Core) renew(tenant string, item Renewal, opened Unwrapped) (Renewed, error) {
	if opened.Err != nil {
		return Renewed{}, opened.Err
	}
	p := opened.Plaintext
	if err := checkBound(p, sizeExecution, executionBinding(tenant, item.Tag, item.ID)); err != nil {
		return Renewed{}, err
	}
	if !item.Replace {
		return Renewed{ID: item.ID}, nil
	}
	old := keyOf([blobd.KeySize]byte(p[:blobd.KeySize]))
	var id ID
	if err := c.fill("new execution key", id[:], p[:blobd.KeySize]); err != nil {
		old.Wipe()
		return Renewed{}, err
	}
	bound := executionBinding(tenant, item.Tag, id)
	copy(p[2*blobd.KeySize:], bound[:])
	return Renewed{ID: id, Old: old, New: keyOf([blobd.KeySize]byte(p[:blobd.KeySize]))}, nil
}
