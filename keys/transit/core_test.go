package transit_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/transit"
)

// row is what a ledger keeps of an execution's keys.
type row struct {
	tag     blobd.ExecutionTag
	id      keys.ID
	wrapped keys.Wrapped
	want    *blobd.Key
}

func newRow(t *testing.T, c *keys.Core, n byte) row {
	t.Helper()
	tag := blobd.ExecutionTag{n}
	k, w, err := c.NewExecution(t.Context(), "acme", tag)
	must(t, err)
	return row{tag, k.ID, w, k.Execution}
}

func (r row) open(t *testing.T, c *keys.Core) error {
	k, err := c.Execution(t.Context(), "acme", r.tag, r.id, r.wrapped)
	if err != nil {
		return err
	}
	defer k.Wipe()
	if !k.Execution.Equal(r.want) {
		return errors.New("another key")
	}
	return nil
}

// A put of a known execution and a resolve of one ask Vault nothing; a cold
// batch, however many ask at once, costs one request.
func TestVaultIsAskedOncePerColdExecution(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option)
	must(t, k.Create(t.Context(), "acme"))
	r := newRow(t, keys.NewCore(k, keys.Options{}), 1)
	cold := keys.NewCore(k, keys.Options{})
	q.all()

	var asking sync.WaitGroup
	failures := make([]error, 64)
	for i := range failures {
		asking.Go(func() { failures[i] = r.open(t, cold) })
	}
	asking.Wait()
	must(t, errors.Join(failures...))
	if all := q.all(); len(all) != 1 || count(all, "transit/decrypt/blobd.acme.kek") != 1 {
		t.Fatalf("a cold batch caused %+v, want one decrypt", all)
	}
	for range 1000 {
		must(t, r.open(t, cold))
	}
	if all := q.all(); len(all) != 0 {
		t.Fatalf("a known execution caused %+v", all)
	}
}

// Each new execution costs one request, too.
func TestANewExecutionCostsOneRequest(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option)
	must(t, k.Create(t.Context(), "acme"))
	c := keys.NewCore(k, keys.Options{})
	newRow(t, c, 1)
	q.all()
	newRow(t, c, 2)
	if all := q.all(); len(all) != 1 || count(all, "transit/encrypt/blobd.acme.kek") != 1 {
		t.Fatalf("it caused %+v, want one encrypt", all)
	}
}

// While Vault is down, what is cached goes on until its life ends and not past
// it; the rest is no answer, and never an absence. When Vault is back, all works.
func TestCachedKeysOutliveAnOutageForTheirLifeOnly(t *testing.T) {
	v := vault(t)
	k := open(t, v, func(o *transit.Options) { o.Timeout = 2 * time.Second })
	must(t, k.Create(t.Context(), "acme"))
	at := newClock()
	c := keys.NewCore(k, keys.Options{CacheTTL: time.Minute, Now: at.now})
	known, unknown := newRow(t, c, 1), newRow(t, c, 2)
	must(t, known.open(t, c))

	v.Seal()
	at.move(time.Minute - 1)
	must(t, known.open(t, c))
	wantOnly(t, "an unknown execution", unknown.open(t, c), blobd.ErrUnavailable)
	at.move(1)
	wantOnly(t, "a known execution past the cache's life", known.open(t, c), blobd.ErrUnavailable)

	v.Unseal()
	must(t, known.open(t, c))
	must(t, unknown.open(t, c))
}

// A batch with one bad item answers the others, by one request and one look for
// the reason.
func TestABatchIsOneRequest(t *testing.T) {
	v := vault(t)
	q := newRequests()
	k := open(t, v, q.option)
	must(t, k.Create(t.Context(), "acme"))
	plain := make([][]byte, 1000)
	for i := range plain {
		plain[i] = []byte(secret)
	}
	must(t, k.Check(t.Context()))
	q.all()
	items, err := k.Wrap(t.Context(), "acme", plain)
	must(t, err)
	if n := len(q.all()); n != 1 {
		t.Fatalf("%d requests to wrap 1000, want 1", n)
	}
	answers, err := k.Unwrap(t.Context(), "acme", items)
	must(t, err)
	if n := len(q.all()); n != 1 {
		t.Fatalf("%d requests to unwrap 1000, want 1", n)
	}
	for i := range answers {
		must(t, outcome(answers[i:i+1], nil))
	}
	// Another letter of the same alphabet: of others Vault says at once that they are none.
	if c := &items[500].Ciphertext[40]; *c == 'A' {
		*c = 'B'
	} else {
		*c = 'A'
	}
	answers, err = k.Unwrap(t.Context(), "acme", items)
	must(t, err)
	for i := range answers {
		if i == 500 {
			wantOnly(t, "the bad item", outcome(answers[i:i+1], nil), blobd.ErrCorrupt)
			continue
		}
		must(t, outcome(answers[i:i+1], nil))
	}
	if n := len(q.all()); n != 2 {
		t.Fatalf("%d requests with a bad item, want 2", n)
	}
}
