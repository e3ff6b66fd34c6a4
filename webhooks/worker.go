package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Times of the worker.
const (
	// PollInterval is how often it looks: the most that a delivery is late, beside
	// the time that the log takes to give its entry an index.
	PollInterval = time.Second
	// LeaseTime is how long a webhook stays with a node that died. It is longer than a
	// try and what comes around it.
	LeaseTime = time.Minute
	// KeepTime is how long a delivery that ended is listed and can be replayed.
	KeepTime = 90 * 24 * time.Hour
	// unsignedDelay is the wait for what could not be signed, which is no attempt.
	unsignedDelay = 30 * time.Second
	// handBackTime bounds the last word about a delivery when the process ends.
	handBackTime = 2 * time.Second
	trimInterval = time.Minute
	trimBatch    = 1000 // deliveries
)

// Run feeds and sends until ctx ends, and returns its cause. Where no webhook was
// made, or nothing happens, it reads one row a second.
func (w *Webhooks) Run(ctx context.Context) error {
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	var senders errgroup.Group
	senders.SetLimit(w.o.Parallel)
	var trimmed time.Time
	for {
		if err := w.look(ctx, &senders, &trimmed); err != nil && ctx.Err() == nil {
			w.o.Log.Warn("webhooks wait", "error", err)
		}
		select {
		case <-ctx.Done():
			_ = senders.Wait() // they log what they have to say
			return context.Cause(ctx)
		case <-poll.C:
		case <-w.wake:
		}
	}
}

// look feeds what there is, and has what is due sent, also where the feed fails.
func (w *Webhooks) look(ctx context.Context, senders *errgroup.Group, trimmed *time.Time) error {
	if w.o.Serving() != nil {
		return nil // said by readiness
	}
	state, err := w.Feed(ctx)
	if !state.Webhooks {
		if err == nil {
			w.dead.Store(0)
		}
		return err
	}
	now := w.o.Now()
	if !state.DueAt.IsZero() && !state.DueAt.After(now) {
		w.start(ctx, senders)
	}
	if now.Sub(*trimmed) >= trimInterval || now.Before(*trimmed) {
		*trimmed = now
		err = errors.Join(err, w.Trim(ctx))
	}
	return err
}

// start has one more sender work, if there may be one more, until nothing is due.
// Each has the next one started when it has found something to do.
func (w *Webhooks) start(ctx context.Context, senders *errgroup.Group) {
	senders.TryGo(func() error {
		for ctx.Err() == nil {
			job, err := w.claim(ctx)
			if err != nil {
				if !errors.Is(err, blobd.ErrNotFound) && ctx.Err() == nil {
					w.o.Log.Warn("webhooks wait", "error", err)
				}
				return nil
			}
			w.start(ctx, senders)
			if err := w.deliver(ctx, job); err != nil && ctx.Err() == nil {
				w.o.Log.Warn("a delivery has no end", "webhook", job.Webhook.ID, "event", job.Delivery.EventID, "error", err)
			}
		}
		return nil
	})
}

// Feed turns what the log has into deliveries, and returns where they stand then.
func (w *Webhooks) Feed(ctx context.Context) (ledger.FeedState, error) {
	for {
		s, err := w.o.Ledger.FeedState(ctx)
		if err != nil || s.Next >= s.Size {
			return s, err
		}
		if err := w.feed(ctx, s); err != nil && !errors.Is(err, blobd.ErrConflict) { // then another node fed
			return s, fmt.Errorf("feed webhooks: %w", err)
		}
	}
}

// feed makes one step. Where there is no webhook the place moves on unread: one that
// is made from now on is told of what happens from then on.
func (w *Webhooks) feed(ctx context.Context, s ledger.FeedState) error {
	f := ledger.Feed{From: s.Next, To: s.Size, At: w.now()}
	if s.Webhooks {
		f.To = min(s.Next+ledger.MaxLogQuery, s.Size)
		entries, err := w.logged(ctx, f.From, f.To)
		if err != nil {
			return err
		}
		if f.Events, err = w.reader.events(ctx, entries); err != nil {
			return err
		}
	}
	return w.o.Ledger.Feed(ctx, f)
}

// logged returns all entries from one index up to another.
func (w *Webhooks) logged(ctx context.Context, from, to int64) ([]ledger.LoggedEntry, error) {
	var q ledger.LogQuery
	for n := from; n < to; n++ {
		q.Indexes = append(q.Indexes, n)
	}
	entries, err := w.o.Ledger.Logged(ctx, q)
	if err == nil && int64(len(entries)) != to-from {
		err = fmt.Errorf("the log has %d of %d entries from %d: %w", len(entries), to-from, from, blobd.ErrCorrupt)
	}
	return entries, err
}

// Trim forgets what ended long ago, and counts what is dead.
func (w *Webhooks) Trim(ctx context.Context) error {
	_, dead, err := w.o.Ledger.TrimDeliveries(ctx, w.now().Add(-KeepTime), trimBatch)
	if err != nil {
		return fmt.Errorf("trim deliveries: %w", err)
	}
	w.dead.Store(dead)
	return nil
}

func (w *Webhooks) claim(ctx context.Context) (ledger.DeliveryJob, error) {
	if w.o.Serving() != nil {
		return ledger.DeliveryJob{}, blobd.ErrNotFound
	}
	now := w.now()
	return w.o.Ledger.ClaimDelivery(ctx, w.o.Owner, now, now.Add(LeaseTime))
}

// RunOne claims and tries one delivery that is due; false: there was none. A
// delivery that fails is postponed and is no error.
func (w *Webhooks) RunOne(ctx context.Context) (bool, error) {
	job, err := w.claim(ctx)
	if errors.Is(err, blobd.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claim a delivery: %w", err)
	}
	return true, w.deliver(ctx, job)
}

// deliver tries a delivery and says what became of it.
func (w *Webhooks) deliver(ctx context.Context, job ledger.DeliveryJob) error {
	move := w.try(ctx, job)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handBackTime)
	defer cancel()
	err := w.o.Ledger.MoveDelivery(ctx, job.Lease, move)
	if errors.Is(err, blobd.ErrConflict) {
		return nil // the webhook is gone, or another node has it: it may come twice
	}
	if err != nil {
		return fmt.Errorf("move a delivery: %w", err)
	}
	w.tell(job, move)
	return nil
}

// try sends a delivery once.
func (w *Webhooks) try(ctx context.Context, job ledger.DeliveryJob) ledger.DeliveryMove {
	d := &job.Delivery
	again := ledger.DeliveryMove{To: ledger.DeliveryPending, Attempts: d.Attempts, Status: d.Status, LastError: d.LastError}
	secrets, err := w.secrets(ctx, &job.Webhook)
	defer wipe(secrets)
	switch {
	case errors.Is(err, blobd.ErrTenantErased):
		return ledger.DeliveryMove{To: ledger.DeliveryDead, At: w.now(), Attempts: d.Attempts, LastError: wordErased}
	case err != nil: // not the receiver's fault
		again.Due, again.LastError = w.now().Add(unsignedDelay), wordUnavailable
		return again
	}
	status, word := w.sender.send(ctx, message{
		url: job.Webhook.URL, id: d.EventID, at: w.o.Now(), body: d.Body, secrets: secrets,
	})
	if word != "" && status == 0 && ctx.Err() != nil { // the end of this process cut it short
		again.Due = w.now()
		return again
	}
	return after(d, status, word, w.now(), rand.New(rand.NewPCG(uint64(d.N), uint64(d.Attempts)))) //nolint:gosec // spreads tries, guards nothing
}

// after is what becomes of a delivery after a try.
func after(d *ledger.Delivery, status int, word string, now time.Time, r *rand.Rand) ledger.DeliveryMove {
	m := ledger.DeliveryMove{At: now, Attempts: d.Attempts + 1, Status: int64(status), LastError: word}
	switch {
	case word == "":
		m.To, m.Attempts = ledger.DeliveryDelivered, d.Attempts
	case word == wordGone:
		m.To, m.Disable = ledger.DeliveryDead, wordGone
	case m.Attempts >= MaxAttempts:
		m.To = ledger.DeliveryDead
	default:
		m.To, m.Due = ledger.DeliveryPending, now.Add(jittered(Delay(m.Attempts), r))
	}
	return m
}

// secrets returns what a delivery is signed with now, the newest first. Wipe them.
func (w *Webhooks) secrets(ctx context.Context, h *ledger.Webhook) (all [][]byte, err error) {
	sealed := [][]byte{h.Secret}
	if len(h.OldSecret) > 0 && w.o.Now().Before(h.OldUntil) {
		sealed = append(sealed, h.OldSecret)
	}
	for _, s := range sealed {
		secret, err := w.secret.open(ctx, h, s)
		if err != nil {
			wipe(all)
			return nil, err
		}
		all = append(all, secret)
	}
	return all, nil
}

func wipe(secrets [][]byte) {
	for _, s := range secrets {
		clear(s)
	}
}

// tell counts and logs what became of a delivery. Neither its URL nor an error's
// own text is told: a URL may hold a secret.
func (w *Webhooks) tell(job ledger.DeliveryJob, m ledger.DeliveryMove) {
	level := slog.LevelDebug
	switch m.To {
	case ledger.DeliveryDelivered:
		w.delivered.Add(1)
	case ledger.DeliveryDead:
		w.died.Add(1)
		level = slog.LevelWarn
	default:
		w.retried.Add(1)
		if m.LastError == wordUnavailable {
			level = slog.LevelWarn
		}
	}
	w.o.Log.LogAttrs(context.Background(), level, "webhook delivery",
		slog.String("tenant", job.Webhook.Tenant), slog.String("webhook", job.Webhook.ID), slog.String("event", job.Delivery.EventID),
		slog.String("state", string(m.To)), slog.Int64("attempts", m.Attempts), slog.Int64("status", m.Status), slog.String("error", m.LastError))
}
