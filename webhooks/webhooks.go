// Package webhooks tells a tenant's own systems what happened: it makes webhooks,
// turns the evidence log into deliveries, and sends them, signed, again and again
// until they were taken or are dead.
//
// It promises that every act that the log tells of and that a webhook was made for
// is delivered at least once, or is listed as dead; that the same event has the
// same id in every try; and that no delivery holds a text, a subject, an execution
// or what a person wrote. It connects to public addresses alone unless it was told
// otherwise. Secrets are kept sealed and shown once.
//
// events.go says what of the log is told; schedule.go, when it is tried again;
// send.go, how it is sent and where to; worker.go, the order of these.
package webhooks

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// Ledger is what the package needs of a ledger.
type Ledger interface {
	ledger.Tenants
	ledger.Webhooks
	ledger.Deliveries
	Log
}

// DefaultOverlap and MaxOverlap are how long the secret before stays valid after a
// rotation: unless told, and at most.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 7 * 24 * time.Hour
)

// Options are what Webhooks is made of. All but the last four are required.
type Options struct {
	Ledger     Ledger
	Keys       *keys.Core
	Deployment string           // its id: part of every event's source
	Owner      string           // this process, among the nodes
	Serving    func() error     // while it is an error, nothing is fed or sent
	Now        func() time.Time // the clock
	Random     io.Reader        // a cryptographic source
	Log        *slog.Logger

	// AllowPrivate allows http and addresses that are not public.
	AllowPrivate bool
	// Parallel is how many webhooks are told at once; 0: DefaultParallel.
	Parallel int
	// Resolver and RootCAs replace the system's; nil: they do not.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool
}

// DefaultParallel is how many webhooks are told at once.
const DefaultParallel = 8

// Webhooks makes webhooks and tells them. It is safe for concurrent use.
type Webhooks struct {
	o      Options
	secret sealer
	reader reader
	sender sender
	wake   chan struct{}

	delivered, retried, died atomic.Int64 // of this process
	dead                     atomic.Int64 // as last counted, of all tenants
}

// New builds Webhooks. It starts nothing: see Run.
func New(o Options) *Webhooks {
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	return &Webhooks{
		o: o, secret: sealer{o.Ledger, o.Keys, o.Random}, reader: reader{o.Ledger, o.Deployment},
		sender: newSender(o), wake: make(chan struct{}, 1),
	}
}

// Stats are figures for metrics.
type Stats struct {
	// Delivered, Retried and Dead count what became of the tries of this process.
	Delivered, Retried, Dead int64
	// DeadLetters is how many deliveries are dead, of all tenants, as last counted.
	DeadLetters int64
}

// Stats returns the figures.
func (w *Webhooks) Stats() Stats {
	return Stats{w.delivered.Load(), w.retried.Load(), w.died.Load(), w.dead.Load()}
}

// Wake has the worker look at once. It never blocks.
func (w *Webhooks) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Create makes a webhook of row's tenant, URL, types, description and maker, and
// returns its secret, which is shown here and nowhere else.
func (w *Webhooks) Create(ctx context.Context, row ledger.Webhook) (string, ledger.Webhook, error) {
	made, secret, err := w.draft(ctx, row)
	if err != nil {
		return "", ledger.Webhook{}, fmt.Errorf("create a webhook: %w", err)
	}
	entry, err := w.act(ctx, made.Tenant, made.CreatedAt, "created", made.CreatedBy, made.ID)
	if err != nil {
		return "", ledger.Webhook{}, fmt.Errorf("create a webhook: %w", err)
	}
	if err := w.o.Ledger.CreateWebhook(ctx, made, entry); err != nil {
		return "", ledger.Webhook{}, fmt.Errorf("create a webhook: %w", err)
	}
	return secret, made, nil
}

func (w *Webhooks) draft(ctx context.Context, row ledger.Webhook) (made ledger.Webhook, secret string, err error) {
	if err := w.o.Serving(); err != nil {
		return made, "", err
	}
	if err := CheckURL(row.URL, w.o.AllowPrivate); err != nil {
		return made, "", err
	}
	if err := blobd.CheckName("description", row.Description); err != nil {
		return made, "", err
	}
	id, err := uuid.NewRandomFromReader(w.o.Random)
	if err != nil {
		return made, "", err
	}
	made = ledger.Webhook{
		ID: id.String(), Tenant: row.Tenant, URL: row.URL, Types: slices.Clone(row.Types), Description: row.Description,
		CreatedAt: w.now(), CreatedBy: row.CreatedBy,
	}
	slices.Sort(made.Types)
	made.Types = slices.Compact(made.Types)
	secret, made.Secret, err = w.secret.make(ctx, made.Tenant, made.ID)
	return made, secret, err
}

// now is the time as the ledger keeps it.
func (w *Webhooks) now() time.Time { return w.o.Now().UTC().Truncate(time.Microsecond) }

// act is the entry of an act on a webhook.
func (w *Webhooks) act(ctx context.Context, tenant string, at time.Time, act, actor, id string) (ledger.Entry, error) {
	t, err := w.o.Ledger.Tenant(ctx, tenant)
	if err != nil {
		return ledger.Entry{}, err
	}
	return evidence.Scribe{Tenant: t.ID, NameKey: t.NameKey, Random: w.o.Random}.Act(at, ledger.EntryWebhook, act, actor, id)
}

// Rotate gives a webhook a new secret, which it returns and which is shown nowhere
// else. For overlap (0 to MaxOverlap) deliveries are signed with the one before too.
func (w *Webhooks) Rotate(ctx context.Context, tenant, id, actor string, overlap time.Duration) (string, ledger.Webhook, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return "", ledger.Webhook{}, fmt.Errorf("rotate a secret: overlap: want 0 to %v: %w", MaxOverlap, blobd.ErrInvalid)
	}
	secret, row, err := w.rotate(ctx, tenant, id, actor, overlap)
	if err != nil {
		return "", ledger.Webhook{}, fmt.Errorf("rotate a secret: %w", err)
	}
	return secret, row, nil
}

func (w *Webhooks) rotate(ctx context.Context, tenant, id, actor string, overlap time.Duration) (string, ledger.Webhook, error) {
	if err := w.o.Serving(); err != nil {
		return "", ledger.Webhook{}, err
	}
	secret, sealed, err := w.secret.make(ctx, tenant, id)
	if err != nil {
		return "", ledger.Webhook{}, err
	}
	now := w.now()
	entry, err := w.act(ctx, tenant, now, "rotated", actor, id)
	if err != nil {
		return "", ledger.Webhook{}, err
	}
	row, err := w.o.Ledger.RotateSecret(ctx, tenant, id, sealed, now.Add(overlap), entry)
	return secret, row, err
}

// Delete removes a webhook, its secrets and its deliveries.
func (w *Webhooks) Delete(ctx context.Context, tenant, id, actor string) error {
	if err := w.o.Serving(); err != nil {
		return fmt.Errorf("delete a webhook: %w", err)
	}
	entry, err := w.act(ctx, tenant, w.now(), "deleted", actor, id)
	if err != nil {
		return fmt.Errorf("delete a webhook: %w", err)
	}
	if err := w.o.Ledger.DeleteWebhook(ctx, tenant, id, entry); err != nil {
		return fmt.Errorf("delete a webhook: %w", err)
	}
	return nil
}

// Replay makes what is dead or waits due at once and, where since is set, what was
// delivered and came since; it enables the webhook. It returns how many there are.
func (w *Webhooks) Replay(ctx context.Context, tenant, id, actor string, since time.Time) (int64, error) {
	if err := w.o.Serving(); err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	now := w.now()
	entry, err := w.act(ctx, tenant, now, "replayed", actor, id)
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	n, err := w.o.Ledger.Redeliver(ctx, ledger.Redelivery{Tenant: tenant, WebhookID: id, At: now, Since: since}, entry)
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	w.Wake()
	return n, nil
}

// Webhook returns one of the tenant's, or ErrNotFound.
func (w *Webhooks) Webhook(ctx context.Context, tenant, id string) (ledger.Webhook, error) {
	return w.o.Ledger.Webhook(ctx, tenant, id)
}

// ListWebhooks returns webhooks of a tenant by id, in byte order.
func (w *Webhooks) ListWebhooks(ctx context.Context, q ledger.WebhookQuery) ([]ledger.Webhook, error) {
	return w.o.Ledger.ListWebhooks(ctx, q)
}

// ListDeliveries returns deliveries of one of the tenant's webhooks, newest first.
func (w *Webhooks) ListDeliveries(ctx context.Context, q ledger.DeliveryQuery) ([]ledger.Delivery, error) {
	return w.o.Ledger.ListDeliveries(ctx, q)
}
