package keys_test

import (
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/faulty"
)

// renewals makes keys of two executions, rotates, and asks for both again.
func (f *fixture) renewals(replace bool) (made keys.ExecutionKeys, asked []keys.Renewal) {
	f.Helper()
	for _, tag := range []blobd.ExecutionTag{tagA, tagB} {
		k, w, err := f.core.NewExecution(f.Context(), acme, tag)
		f.must(err)
		asked = append(asked, keys.Renewal{Tag: tag, ID: k.ID, Wrapped: w, Replace: replace && tag == tagA})
		if tag == tagA {
			made = k
		}
	}
	_, err := f.ring.Rotate(f.Context(), acme)
	f.must(err)
	clear(f.ops)
	return made, asked
}

func TestRenewKeepsTheKeysInThreeCalls(t *testing.T) {
	f := setUp(t, keys.Options{})
	made, asked := f.renewals(false)
	renewed, err := f.core.Renew(t.Context(), acme, asked)
	f.must(err)
	if f.ops["unwrap"] != 2 || f.ops["wrap"] != 1 {
		t.Errorf("calls %v", f.ops)
	}
	got := renewed[0]
	if got.ID != made.ID || got.Wrapped.Version != 2 || got.Old != nil || got.New != nil {
		t.Errorf("%+v", got)
	}
	again, err := f.core.Execution(t.Context(), acme, tagA, got.ID, got.Wrapped)
	f.must(err)
	if !again.Execution.Equal(made.Execution) || !again.Tag.Equal(made.Tag) {
		t.Error("other keys came back")
	}
}

func TestRenewReplacesTheExecutionKeyAndKeepsTheTagKey(t *testing.T) {
	f := setUp(t, keys.Options{})
	made, asked := f.renewals(true)
	renewed, err := f.core.Renew(t.Context(), acme, asked)
	f.must(err)
	got := renewed[0]
	if got.ID == made.ID || !got.Old.Equal(made.Execution) || got.New.Equal(made.Execution) {
		t.Error("the execution key was not replaced")
	}
	again, err := f.core.Execution(t.Context(), acme, tagA, got.ID, got.Wrapped)
	f.must(err)
	if !again.Execution.Equal(got.New) || !again.Tag.Equal(made.Tag) {
		t.Error("what was wrapped is not the new execution key beside the old tag key")
	}
	_, err = f.core.Execution(t.Context(), acme, tagA, made.ID, got.Wrapped)
	f.is(err, blobd.ErrCorrupt) // a new key is bound to its own id
	if renewed[1].ID != asked[1].ID || renewed[1].New != nil {
		t.Error("the other execution got a new key too")
	}
}

func TestOneBadWrapSpoilsNoOther(t *testing.T) {
	f := setUp(t, keys.Options{})
	_, asked := f.renewals(true)
	asked[0].Tag = tagB // another's
	renewed, err := f.core.Renew(t.Context(), acme, asked)
	f.must(err)
	f.is(renewed[0].Err, blobd.ErrCorrupt)
	if renewed[0].New != nil || renewed[1].Err != nil || renewed[1].Wrapped.Version != 2 {
		t.Errorf("%+v", renewed)
	}
	_, err = f.ring.Rotate(t.Context(), acme)
	f.must(err)
	f.must(f.ring.Trim(t.Context(), acme, 2))
	renewed, err = f.core.Renew(t.Context(), acme, asked)
	f.must(err)
	f.is(renewed[1].Err, blobd.ErrKeyMissing)
}

// A wrap that was not seen to open again is never returned: it would overwrite
// the only good one.
func TestRenewReturnsNothingUnproved(t *testing.T) {
	f := setUp(t, keys.Options{})
	_, asked := f.renewals(false)
	f.ring.Fail("unwrap", 2, faulty.After, blobd.ErrUnavailable)
	if renewed, err := f.core.Renew(t.Context(), acme, asked); renewed != nil {
		t.Errorf("%+v", renewed)
	} else {
		f.is(err, blobd.ErrUnavailable)
	}
}

// Nor is that of an index key, which has no second wrap either.
func TestRewrapIndexReturnsNothingUnproved(t *testing.T) {
	f := setUp(t, keys.Options{})
	_, wrapped, err := f.core.NewIndex(t.Context(), acme)
	f.must(err)
	_, err = f.ring.Rotate(t.Context(), acme)
	f.must(err)
	f.ring.Fail("unwrap", 2, faulty.After, blobd.ErrUnavailable)
	again, err := f.core.RewrapIndex(t.Context(), acme, wrapped)
	f.is(err, blobd.ErrUnavailable)
	if again.Ciphertext != nil {
		t.Error("a wrap came back that was not seen to open")
	}
}
