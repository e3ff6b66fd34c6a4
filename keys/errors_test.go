package keys_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/faulty"
)

var errUnknown = errors.New("the service said something new")

// closedSet is every error that a caller may look for.
var closedSet = []error{
	blobd.ErrNotFound, blobd.ErrErased, blobd.ErrExpired, blobd.ErrClosed, blobd.ErrDenied,
	blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrConflict, blobd.ErrHeld, blobd.ErrPolicy,
	blobd.ErrCorrupt, blobd.ErrMissing, blobd.ErrUnavailable,
}

// TestWhatTheServiceSaysIsNeverAnAbsence has every method meet every error.
func TestWhatTheServiceSaysIsNeverAnAbsence(t *testing.T) {
	answers := []struct {
		says, want error // want nil: none of the closed set
	}{
		{fmt.Errorf("x: %w", blobd.ErrErased), blobd.ErrMissing},
		{fmt.Errorf("x: %w", blobd.ErrNotFound), blobd.ErrMissing},
		{fmt.Errorf("x: %w", blobd.ErrUnavailable), blobd.ErrUnavailable},
		{fmt.Errorf("x: %w", blobd.ErrDenied), blobd.ErrDenied},
		{fmt.Errorf("x: %w", blobd.ErrCorrupt), blobd.ErrCorrupt},
		{context.Canceled, blobd.ErrUnavailable},
		{context.DeadlineExceeded, blobd.ErrUnavailable},
		{errUnknown, nil},
	}
	for _, a := range answers {
		f := setUp(t, keys.Options{})
		k, w := f.newExecution(acme, tagA)
		_, wIndex, err := f.core.NewIndex(t.Context(), acme)
		f.must(err)
		calls := map[string]struct {
			op  string
			act func(ctx context.Context) error
		}{
			"NewExecution": {"wrap", func(ctx context.Context) error { _, _, err := f.core.NewExecution(ctx, acme, tagA); return err }},
			"NewIndex":     {"wrap", func(ctx context.Context) error { _, _, err := f.core.NewIndex(ctx, acme); return err }},
			"Execution":    {"unwrap", func(ctx context.Context) error { _, err := f.core.Execution(ctx, acme, tagA, k.ID, w); return err }},
			"Index":        {"unwrap", func(ctx context.Context) error { _, err := f.core.Index(ctx, acme, wIndex); return err }},
			"Rewrap":       {"unwrap", func(ctx context.Context) error { _, err := f.core.Rewrap(ctx, acme, tagA, k.ID, w); return err }},
			"Rewrap, wrap": {"wrap", func(ctx context.Context) error { _, err := f.core.Rewrap(ctx, acme, tagA, k.ID, w); return err }},
			"RewrapIndex":  {"unwrap", func(ctx context.Context) error { _, err := f.core.RewrapIndex(ctx, acme, wIndex); return err }},
		}
		for name, c := range calls {
			t.Run(fmt.Sprintf("%s/%v", name, a.says), func(t *testing.T) {
				f.ring.Fail(c.op, 1, faulty.Before, a.says)
				err := c.act(t.Context())
				if err == nil {
					t.Fatal("no error")
				}
				for _, e := range closedSet {
					if errors.Is(err, e) != (e == a.want) {
						t.Errorf("%v: is %v: %v", err, e, errors.Is(err, e))
					}
				}
				if a.want == blobd.ErrMissing && !errors.Is(err, blobd.ErrKeyMissing) {
					t.Errorf("%v is not ErrKeyMissing", err)
				}
				if a.want == nil && !errors.Is(err, errUnknown) {
					t.Errorf("%v lost its cause", err)
				}
			})
		}
	}
}

func TestAFailureIsNotCached(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	for _, when := range []faulty.When{faulty.Before, faulty.After} {
		f.ring.Fail("unwrap", 1, when, blobd.ErrUnavailable)
		_, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
		f.is(err, blobd.ErrUnavailable)
	}
	got, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.must(err)
	if !same(got, k) {
		t.Fatal("another key")
	}
}

func TestADestroyedKEKIsAMissingKey(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	f.must(f.ring.Destroy(t.Context(), acme))
	_, err := f.core.Execution(t.Context(), acme, tagA, k.ID, w)
	f.is(err, blobd.ErrKeyMissing)
	if errors.Is(err, blobd.ErrErased) {
		t.Fatal("only the ledger may say erased")
	}
	_, _, err = f.core.NewExecution(t.Context(), acme, tagB)
	f.is(err, blobd.ErrKeyMissing)
}

func TestACancelledCallerGetsUnavailable(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.core.Execution(ctx, acme, tagA, k.ID, w)
	f.is(err, blobd.ErrUnavailable)
	_, _, err = f.core.NewExecution(ctx, acme, tagA)
	f.is(err, blobd.ErrUnavailable)
}

// oddRing answers with another number of items than was asked for.
type oddRing struct {
	keys.Keyring
	n int
}

func (r oddRing) Wrap(context.Context, string, [][]byte) ([]keys.Wrapped, error) {
	return make([]keys.Wrapped, r.n), nil
}

func (r oddRing) Unwrap(context.Context, string, []keys.Wrapped) ([]keys.Unwrapped, error) {
	return make([]keys.Unwrapped, r.n), nil
}

func TestAnOddAnswerIsNoAnswer(t *testing.T) {
	for _, n := range []int{0, 2} {
		f := setUp(t, keys.Options{})
		core := keys.NewCore(oddRing{f.ring, n}, keys.Options{})
		_, err := core.Execution(t.Context(), acme, tagA, keys.ID{}, keys.Wrapped{Version: 1})
		f.is(err, blobd.ErrUnavailable)
		_, _, err = core.NewExecution(t.Context(), acme, tagA)
		f.is(err, blobd.ErrUnavailable)
	}
	f := setUp(t, keys.Options{})
	core := keys.NewCore(oddRing{f.ring, 1}, keys.Options{})
	_, err := core.Execution(t.Context(), acme, tagA, keys.ID{}, keys.Wrapped{Version: 1})
	f.is(err, blobd.ErrCorrupt)
	_, _, err = core.NewExecution(t.Context(), acme, tagA)
	f.is(err, blobd.ErrUnavailable)
}

// shownKey finds a secret made of one byte, repeated, in what was printed.
func shownKey(printed string, b byte) string {
	key := bytes.Repeat([]byte{b}, 12)
	decimal := strings.Trim(fmt.Sprint(key[:6]), "[]")
	literal := strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", key[:6]), "[]byte"), "{}")
	for _, form := range []string{
		string(key), hex.EncodeToString(key), fmt.Sprintf("% x", key),
		base64.StdEncoding.EncodeToString(key), decimal, literal,
	} {
		if strings.Contains(strings.ToLower(printed), strings.ToLower(form)) {
			return form
		}
	}
	return ""
}

func TestNothingPrintsAKey(t *testing.T) {
	const b = 0xEE
	f := setUp(t, keys.Options{Random: repeat(b)})
	k, w := f.newExecution(acme, tagA)
	f.core.Adopt(acme, tagA, k)
	unwrapped := keys.Unwrapped{Plaintext: bytes.Repeat([]byte{b}, 32)}
	ciphertext := keys.Wrapped{Version: 1, Ciphertext: bytes.Repeat([]byte{b}, 32)}
	k.ID = keys.ID{} // an id may be seen
	values := []any{
		k, &k, []keys.ExecutionKeys{k}, struct{ K keys.ExecutionKeys }{k}, map[string]keys.ExecutionKeys{"x": k},
		unwrapped, &unwrapped, []keys.Unwrapped{unwrapped}, struct{ U *keys.Unwrapped }{&unwrapped},
		ciphertext, []keys.Wrapped{ciphertext}, f.core, struct{ c *keys.Core }{f.core},
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d"} {
			if form := shownKey(fmt.Sprintf(verb, v), b); form != "" {
				t.Errorf("%s of a %T shows a key as %q", verb, v, form)
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		if form := shownKey(log.String(), b); form != "" {
			t.Errorf("a logged %T shows a key as %q", v, form)
		}
	}
	for _, v := range []any{k, unwrapped, []keys.Unwrapped{unwrapped}} {
		if _, err := json.Marshal(v); err == nil {
			t.Errorf("a %T marshals itself", v)
		}
	}
	if shownKey(fmt.Sprintf("%x", unwrapped.Plaintext), b) == "" {
		t.Error("a bare key goes unnoticed")
	}
	for _, bad := range []keys.Wrapped{{}, {Version: 1, Ciphertext: w.Ciphertext[1:]}, ciphertext} {
		_, err := f.core.Execution(t.Context(), acme, tagB, k.ID, bad)
		if err == nil || shownKey(err.Error(), b) != "" {
			t.Errorf("no error, or one that shows a key: %v", err)
		}
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{byte(r)}, len(p)))
	return len(p), nil
}

func TestAHitAllocatesLittle(t *testing.T) {
	f := setUp(t, keys.Options{})
	k, w := f.newExecution(acme, tagA)
	f.core.Adopt(acme, tagA, k)
	ctx := t.Context()
	got := testing.AllocsPerRun(100, func() {
		mine, err := f.core.Execution(ctx, acme, tagA, k.ID, w)
		if err != nil {
			t.Fatal(err)
		}
		mine.Wipe()
	})
	if got > 7 {
		t.Fatalf("%v allocations, want at most 7", got)
	}
}
