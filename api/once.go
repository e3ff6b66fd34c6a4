package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/store"
)

// rememberFor is how long an answer is kept under an idempotency key.
const rememberFor = 24 * time.Hour

// longestClaim is far longer than a request that claimed a key can run.
const longestClaim = time.Minute

// outcome is an answer that can be remembered.
type outcome struct {
	Status   int    `json:"status"`
	Location string `json:"location"`
	Body     []byte `json:"body"`
}

func outcomeOf(status int, location string, v any) (outcome, error) {
	body, err := json.Marshal(v)
	return outcome{status, location, body}, err
}

func (c *call) writeOutcome(o outcome) {
	c.w.Header()[headerLocation] = []string{o.Location}
	c.write(o.Status, c.rt.api.shared.json, o.Body)
}

// once acts, and under an Idempotency-Key acts once: the same key and body get
// the first answer again, another body is ErrKeyReused, and while the first is
// running the others are ErrConflict. Only successes are remembered; after a
// failure the key is free again.
func (a *API) once(c *call, body []byte, act func(context.Context) (outcome, error)) error {
	key, given, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	if !given {
		o, err := act(c.r.Context())
		if err != nil {
			return err
		}
		c.writeOutcome(o)
		return nil
	}
	requestKeys := a.Store.RequestKeys
	if c.offboards {
		requestKeys = a.Store.LastingRequestKeys
	}
	request, seal, err := requestKeys(c.r.Context(), c.who.tenant, c.rt.pattern, key, body)
	if err != nil {
		return err
	}
	defer seal.Wipe()
	request.At = a.Now().UTC()
	first, found, err := a.claim(c.r.Context(), request)
	if err != nil {
		return err
	}
	if found {
		return c.again(first, request, seal)
	}
	return a.actOnce(c, request, seal, act)
}

// claim claims a key, or returns what is remembered under it. A claim that is
// older than any request can run was left by a node that ended in between: it
// is given up, so that the caller's repeat is not refused for a day.
func (a *API) claim(ctx context.Context, r ledger.Request) (first ledger.Request, found bool, err error) {
	notBefore := r.At.Add(-rememberFor)
	first, found, err = a.Ledger.Begin(ctx, r, notBefore)
	stale := found && first.Status == 0 && first.Body == r.Body && r.At.Sub(first.At) > longestClaim
	if err != nil || !stale {
		return first, found, err
	}
	if err := a.Ledger.Abandon(ctx, first); err != nil {
		return first, false, err
	}
	return a.Ledger.Begin(ctx, r, notBefore)
}

// again gives the first answer once more.
func (c *call) again(first, asked ledger.Request, seal *blobd.Key) error {
	switch {
	case first.Body != asked.Body:
		return blobd.ErrKeyReused
	case first.Status == 0:
		return refuse(wire.CodeConflict, "the first request with this Idempotency-Key is still running")
	}
	plain, err := store.OpenAnswer(seal, first.Answer)
	if err != nil {
		return err
	}
	defer clear(plain)
	var o outcome
	if err := json.Unmarshal(plain, &o); err != nil {
		return err
	}
	c.writeOutcome(o)
	return nil
}

// actOnce acts under a claimed key. The caller's going away does not stop it:
// what was begun is remembered.
func (a *API) actOnce(c *call, claimed ledger.Request, seal *blobd.Key, act func(context.Context) (outcome, error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), requestTimeout)
	defer cancel()
	done := false
	defer func() {
		if !done { // failed, or panicked
			a.abandon(c, claimed)
		}
	}()
	o, err := act(ctx)
	if err != nil {
		return err
	}
	if err := a.remember(ctx, claimed, seal, o); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "answer not remembered",
			slog.String("requestId", c.id), slog.String("route", c.rt.pattern), slog.String("error", err.Error()))
	} else {
		done = true
	}
	c.writeOutcome(o)
	return nil
}

func (a *API) remember(ctx context.Context, claimed ledger.Request, seal *blobd.Key, o outcome) error {
	plain, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	defer clear(plain)
	claimed.Status = o.Status
	if claimed.Answer, err = store.SealAnswer(seal, plain); err != nil {
		return err
	}
	return a.Ledger.Complete(ctx, claimed)
}

// abandon frees a key whose request failed.
func (a *API) abandon(c *call, claimed ledger.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), requestTimeout)
	defer cancel()
	if err := a.Ledger.Abandon(ctx, claimed); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "idempotency key not freed",
			slog.String("requestId", c.id), slog.String("route", c.rt.pattern), slog.String("error", err.Error()))
	}
}

// idempotencyKey reads the header: 1 to 255 visible ASCII characters.
func (c *call) idempotencyKey() (key string, given bool, err error) {
	key, given, err = c.oneHeader(wire.HeaderIdempotencyKey)
	if err != nil || !given {
		return "", false, err
	}
	ok := len(key) >= 1 && len(key) <= wire.MaxIdempotencyKey
	for i := range len(key) {
		ok = ok && key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return "", false, refuse(wire.CodeInvalid, "%s: want 1 to %d visible ASCII characters", wire.HeaderIdempotencyKey, wire.MaxIdempotencyKey)
	}
	return key, true, nil
}
