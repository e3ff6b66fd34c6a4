package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd"
)

// Defaults of Options.
const (
	DefaultCacheTTL  = 5 * time.Minute
	DefaultCacheSize = 10_000
)

// Options tune a Core. The zero value is valid.
type Options struct {
	// CacheTTL is how long a key is used after it was unwrapped; past it, it is
	// not used, and a destroyed KEK takes effect. Not above 0: DefaultCacheTTL.
	CacheTTL time.Duration
	// CacheSize is for how many executions keys are kept. Not above 0:
	// DefaultCacheSize.
	CacheSize int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Random is a cryptographic source; nil: crypto/rand.
	Random io.Reader
}

// Core makes, unwraps and caches execution keys and index keys over a Keyring.
// All methods are safe for concurrent use.
//
// Every key that it returns is a copy owned by the caller, who wipes it. The
// cache wipes only its own copies, so that a caller's key never changes under
// its hands.
//
// From every method, a KEK or version that the key service calls erased or not
// found is ErrKeyMissing, an unanswered call is ErrUnavailable, and a key that
// does not authenticate or belongs to something else is ErrCorrupt.
type Core struct {
	ring   Keyring
	now    func() time.Time
	random io.Reader
	ttl    time.Duration

	executions       *cache[blobd.ExecutionTag, ID, execution]
	executionFlights flights[execution]
	indexes          *cache[string, [sha256.Size]byte, index]
	indexFlights     flights[index]
}

// execution is what the cache holds of one execution key.
type execution struct {
	tenant         string
	execution, tag [blobd.KeySize]byte
}

// keys turns a copy that the caller owns into keys, and wipes it.
func (e *execution) keys(id ID) ExecutionKeys {
	defer wipe(e)
	return ExecutionKeys{ID: id, Execution: keyOf(e.execution), Tag: keyOf(e.tag)}
}

func keyOf(b [blobd.KeySize]byte) *blobd.Key {
	k, err := blobd.KeyFrom(b[:])
	if err != nil {
		panic(err) // unreachable: the array has a key's size
	}
	return k
}

// Stats says how the cache of execution keys is doing.
type Stats struct {
	Hits      uint64 // keys answered from memory
	Misses    uint64 // keys that were not in memory or past their time
	Evictions uint64 // executions dropped because the cache was full
	Size      int    // executions held now
}

// NewCore builds a core over ring. It starts nothing: see Run.
func NewCore(ring Keyring, o Options) *Core {
	if o.CacheTTL <= 0 {
		o.CacheTTL = DefaultCacheTTL
	}
	if o.CacheSize <= 0 {
		o.CacheSize = DefaultCacheSize
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return &Core{
		ring: ring, now: o.Now, random: o.Random, ttl: o.CacheTTL,
		executions: newCache[blobd.ExecutionTag, ID, execution](o.CacheSize, o.CacheTTL, o.Now),
		indexes:    newCache[string, [sha256.Size]byte, index](o.CacheSize, o.CacheTTL, o.Now),
	}
}

// Run looks once every CacheTTL for keys past their time and wipes them, until
// ctx ends; then it returns nil. So an unused key is gone from memory after two
// CacheTTL at most; past one it is not used, with or without Run.
func (c *Core) Run(ctx context.Context) error {
	tick := time.NewTicker(c.ttl)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.executions.expireAll()
			c.indexes.expireAll()
		}
	}
}

// Ring returns the key service below.
func (c *Core) Ring() Keyring { return c.ring }

// Stats returns the figures of the cache of execution keys.
func (c *Core) Stats() Stats { return c.executions.snapshot() }

// NewExecution makes a random id and keys for an execution, wrapped. It caches
// nothing: call Adopt once the ledger has committed the wrapped keys.
func (c *Core) NewExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag) (ExecutionKeys, Wrapped, error) {
	const op = "new execution key"
	var id ID
	plaintext := make([]byte, sizeExecution)
	defer clear(plaintext)
	if err := c.fill(op, id[:], plaintext[:2*blobd.KeySize]); err != nil {
		return ExecutionKeys{}, Wrapped{}, err
	}
	bound := executionBinding(tenant, tag, id)
	copy(plaintext[2*blobd.KeySize:], bound[:])
	wrapped, err := c.wrap(ctx, op, tenant, plaintext)
	if err != nil {
		return ExecutionKeys{}, Wrapped{}, err
	}
	return readExecution(tenant, plaintext).keys(id), wrapped, nil
}

// Adopt caches a copy of keys that NewExecution made for this tenant and tag.
// It does nothing if the execution was forgotten meanwhile.
func (c *Core) Adopt(tenant string, tag blobd.ExecutionTag, k ExecutionKeys) {
	e := &execution{tenant: tenant, execution: [blobd.KeySize]byte(k.Execution.Bytes()), tag: [blobd.KeySize]byte(k.Tag.Bytes())}
	defer wipe(e)
	c.executions.add(tag, k.ID, e, c.now())
}

// Execution returns an execution's keys, from memory or by one Unwrap that
// concurrent callers share. On a hit w is not looked at.
func (c *Core) Execution(ctx context.Context, tenant string, tag blobd.ExecutionTag, id ID, w Wrapped) (ExecutionKeys, error) {
	const op = "execution key"
	found := c.executions.get(tag, id)
	if found == nil {
		var err error
		found, err = c.executionFlights.do(ctx, flightKey(tenant, tag, id, w), func(ctx context.Context) (*execution, error) {
			return c.learnExecution(ctx, tenant, tag, id, w)
		})
		if err != nil {
			return ExecutionKeys{}, classify(op, err)
		}
	}
	if found.tenant != tenant {
		wipe(found)
		return ExecutionKeys{}, fmt.Errorf("%s: %w", op, errBinding)
	}
	return found.keys(id), nil
}

// learnExecution unwraps and caches. The cache is asked again first, since the
// flight before this one may have landed after the caller's look.
func (c *Core) learnExecution(ctx context.Context, tenant string, tag blobd.ExecutionTag, id ID, w Wrapped) (*execution, error) {
	if found := c.executions.peek(tag, id); found != nil {
		return found, nil
	}
	asked := c.now()
	plaintext, err := c.unwrap(ctx, tenant, w)
	if err != nil {
		return nil, err
	}
	defer clear(plaintext)
	if err := checkBound(plaintext, sizeExecution, executionBinding(tenant, tag, id)); err != nil {
		return nil, err
	}
	learnt := readExecution(tenant, plaintext)
	c.executions.add(tag, id, learnt, asked)
	return learnt, nil
}

// Forget wipes every cached key of an execution, and keeps those that are being
// unwrapped or adopted from being cached for one CacheTTL. Keys that callers
// hold are theirs and stay whole.
func (c *Core) Forget(tag blobd.ExecutionTag) { c.executions.forget(tag) }

// Destroy destroys the tenant's KEK in every version, for ever, and wipes what is
// cached of its keys here. Repeatable; other processes use what they cached for
// one CacheTTL at most.
func (c *Core) Destroy(ctx context.Context, tenant string) error {
	c.ForgetTenant(tenant)
	if err := c.ring.Destroy(ctx, tenant); err != nil {
		return classify("destroy a KEK", err)
	}
	c.ForgetTenant(tenant)
	return nil
}

// ForgetTenant wipes every cached key of a tenant. Keys that callers hold are
// theirs and stay whole.
func (c *Core) ForgetTenant(tenant string) {
	c.executions.drop(func(e *execution) bool { return e.tenant == tenant })
	c.indexes.forget(tenant)
}

// Rewrap wraps an execution's keys anew, under the newest version of the KEK.
// The keys and what they are bound to stay as they are, and are checked first.
// The new wrap is unwrapped again before it is returned, since it will overwrite
// the only other one.
func (c *Core) Rewrap(ctx context.Context, tenant string, tag blobd.ExecutionTag, id ID, w Wrapped) (Wrapped, error) {
	return c.rewrap(ctx, "rewrap execution key", tenant, w, sizeExecution, executionBinding(tenant, tag, id))
}

func (c *Core) rewrap(ctx context.Context, op, tenant string, w Wrapped, size int, bound [sha256.Size]byte) (Wrapped, error) {
	plaintext, err := c.unwrap(ctx, tenant, w)
	if err != nil {
		return Wrapped{}, classify(op, err)
	}
	defer clear(plaintext)
	if err := checkBound(plaintext, size, bound); err != nil {
		return Wrapped{}, fmt.Errorf("%s: %w", op, err)
	}
	again, err := c.wrapAndProve(ctx, tenant, [][]byte{plaintext})
	if err != nil {
		return Wrapped{}, classify(op, err)
	}
	return again[0], nil
}

func (c *Core) wrap(ctx context.Context, op, tenant string, plaintext []byte) (Wrapped, error) {
	wrapped, err := c.ring.Wrap(ctx, tenant, [][]byte{plaintext})
	if err != nil {
		return Wrapped{}, classify(op, err)
	}
	if len(wrapped) != 1 || len(wrapped[0].Ciphertext) == 0 {
		return Wrapped{}, fmt.Errorf("%s: the key service answered something else: %w", op, blobd.ErrUnavailable)
	}
	return wrapped[0], nil
}

// unwrap returns one plaintext, owned by the caller; its errors are the key
// service's.
func (c *Core) unwrap(ctx context.Context, tenant string, w Wrapped) ([]byte, error) {
	answers, err := c.ring.Unwrap(ctx, tenant, []Wrapped{w})
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		for _, a := range answers {
			clear(a.Plaintext)
		}
		return nil, fmt.Errorf("the key service answered something else: %w", blobd.ErrUnavailable)
	}
	return answers[0].Plaintext, answers[0].Err
}

func (c *Core) fill(op string, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := io.ReadFull(c.random, p); err != nil {
			return fmt.Errorf("%s: random source: %w", op, err)
		}
	}
	return nil
}

// readExecution copies the keys out of a plaintext of sizeExecution bytes.
func readExecution(tenant string, plaintext []byte) *execution {
	e := &execution{tenant: tenant}
	copy(e.execution[:], plaintext[:blobd.KeySize])
	copy(e.tag[:], plaintext[blobd.KeySize:2*blobd.KeySize])
	return e
}

// flightKey names a question completely, the wrapped bytes included: a caller
// with a damaged row never spoils the answer of one with a good row.
func flightKey(tenant string, tag blobd.ExecutionTag, id ID, w Wrapped) string {
	b := make([]byte, 0, len(tag)+len(id)+4+8+len(w.Ciphertext)+len(tenant))
	b = append(b, tag[:]...)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(w.Version))
	b = binary.BigEndian.AppendUint64(b, uint64(len(w.Ciphertext)))
	b = append(b, w.Ciphertext...)
	return string(append(b, tenant...))
}
