package keys_test

import (
	"errors"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/faulty"
)

// TestDestroyWipesWhatIsCachedOfTheTenant, and of no other; and nothing of it can
// be had again.
func TestDestroyWipesWhatIsCachedOfTheTenant(t *testing.T) {
	f := setUp(t, keys.Options{})
	mine, w := f.newExecution(acme, tagA)
	theirs, _ := f.newExecution(other, tagB)
	f.core.Adopt(acme, tagA, mine)
	f.core.Adopt(other, tagB, theirs)
	f.must(f.core.Destroy(t.Context(), acme))
	if _, cached := f.core.Cached(tagA, mine.ID); cached {
		t.Error("a key of the destroyed KEK is cached")
	}
	if _, cached := f.core.Cached(tagB, theirs.ID); !cached {
		t.Error("another tenant's key is gone")
	}
	if _, err := f.core.Execution(t.Context(), acme, tagA, mine.ID, w); !errors.Is(err, blobd.ErrKeyMissing) {
		t.Errorf("unwrapped under a destroyed KEK: %v", err)
	}
	if _, _, err := f.core.NewExecution(t.Context(), acme, tagA); !errors.Is(err, blobd.ErrKeyMissing) {
		t.Errorf("wrapped under a destroyed KEK: %v", err)
	}
	f.must(f.core.Destroy(t.Context(), acme))
}

// TestDestroyThatIsNotAnsweredIsNoSuccess.
func TestDestroyThatIsNotAnsweredIsNoSuccess(t *testing.T) {
	f := setUp(t, keys.Options{})
	f.ring.Fail("destroy", 1, faulty.Before, blobd.ErrUnavailable)
	if err := f.core.Destroy(t.Context(), acme); !errors.Is(err, blobd.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if _, _, err := f.core.NewExecution(t.Context(), acme, tagA); err != nil {
		t.Errorf("the KEK is gone: %v", err)
	}
}
