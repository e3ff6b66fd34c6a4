package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
)

// Webhooks holds the addresses that a tenant has told of what happens.
//
// Their secrets come sealed; the ledger knows nothing of what is in them.
type Webhooks interface {
	// CreateWebhook adds a webhook. An id in use is ErrConflict, an unknown tenant
	// ErrNotFound, a fenced one ErrTenantErased, one that has MaxWebhooks
	// ErrTooLarge; what Webhook.CheckOrdinary refuses is ErrInvalid: a callback comes
	// with its erasure (Fence). It is told of every act that commits after it.
	CreateWebhook(ctx context.Context, w Webhook, e Entry) error
	// Webhook returns one of the tenant's, or ErrNotFound.
	Webhook(ctx context.Context, tenant, id string) (Webhook, error)
	// ListWebhooks returns webhooks of a tenant by id, in byte order.
	ListWebhooks(ctx context.Context, q WebhookQuery) ([]Webhook, error)
	// RotateSecret replaces the secret of a webhook; the one before stays beside it
	// until oldUntil, and one that stood beside that one is gone. It returns the
	// webhook. Another tenant's, or an unknown one, is ErrNotFound.
	RotateSecret(ctx context.Context, tenant, id string, secret []byte, oldUntil time.Time, e Entry) (Webhook, error)
	// DeleteWebhook removes a webhook with all its deliveries; whoever works on one
	// of them has a stale lease. Another tenant's, or an unknown one, is ErrNotFound.
	DeleteWebhook(ctx context.Context, tenant, id string, e Entry) error
}

// Deliveries is what webhooks are told: a queue of each webhook's own, filled from
// the evidence log. Filling goes by the log's index, which is given to committed
// entries only and has no gaps, so nothing is passed over that commits late.
type Deliveries interface {
	// FeedState tells how far the log was turned into deliveries, and what there is
	// to do. Its time does not grow with what is stored.
	FeedState(ctx context.Context) (FeedState, error)
	// Feed moves the place in the log on and inserts one delivery of each event for
	// each webhook of its tenant that wants it and is not disabled, due at f.At; an
	// event that a webhook has a delivery of already is passed over. That of a disabled
	// callback is dead at f.At, for DeliveryDisabled, and can be replayed: what else
	// would tell the end of its erasure. Its time does not
	// grow with the callbacks of other erasures. Of a fenced
	// tenant, whose secrets nobody can open, the webhooks are removed with all their
	// deliveries. Another place than f.From is ErrConflict, and one backwards
	// ErrInvalid; both change nothing.
	Feed(ctx context.Context, f Feed) error
	// ClaimDelivery leases the webhook that has waited longest for a delivery that is
	// due at at, with the first of those, or is ErrNotFound. No two deliveries of one
	// webhook are leased at once. The term rises with each claim. An engine that
	// knows that a lease's owner ended may end the lease.
	ClaimDelivery(ctx context.Context, owner string, at, until time.Time) (DeliveryJob, error)
	// MoveDelivery says what became of a leased delivery, and ends the lease. A
	// callback that was told the end of its erasure, and of which nothing is pending or
	// dead, goes with its deliveries. A stale lease is ErrConflict and changes nothing.
	// What DeliveryMove.Check refuses is ErrInvalid.
	MoveDelivery(ctx context.Context, l DeliveryLease, m DeliveryMove) error
	// ListDeliveries returns deliveries of one of the tenant's webhooks, newest first.
	ListDeliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error)
	// Redeliver makes deliveries of a webhook due again, with no attempts, and
	// enables the webhook; see Redelivery. It returns how many. Another tenant's
	// webhook, or an unknown one, is ErrNotFound.
	Redeliver(ctx context.Context, r Redelivery, e Entry) (int64, error)
	// TrimDeliveries removes up to limit deliveries that ended, delivered or dead,
	// before a time, and returns how many it removed and how many dead ones there
	// are then, of all tenants. It also removes up to limit callbacks that have no
	// deliveries and whose erasure ended before that time.
	TrimDeliveries(ctx context.Context, before time.Time, limit int) (removed int, dead int64, err error)
}

// MaxWebhooks bounds the webhooks of a tenant, callbacks aside.
const MaxWebhooks = 32

// The types of events.
const (
	EventErasureRequested  = "erasure.requested"
	EventErasureApproved   = "erasure.approved"
	EventErasureDenied     = "erasure.denied"
	EventErasureCancelled  = "erasure.cancelled"
	EventErasureDeferred   = "erasure.deferred"
	EventErasurePartial    = "erasure.partial"
	EventErasureErased     = "erasure.erased"
	EventHoldPlaced        = "hold.placed"
	EventHoldReleased      = "hold.released"
	EventRestrictionPlaced = "restriction.placed"
	EventRestrictionLifted = "restriction.lifted"
	EventSweepFinished     = "sweep.finished"
)

// EventTypes lists the types of events: there are no others.
func EventTypes() []string {
	return []string{
		EventErasureRequested, EventErasureApproved, EventErasureDenied, EventErasureCancelled,
		EventErasureDeferred, EventErasurePartial, EventErasureErased,
		EventHoldPlaced, EventHoldReleased, EventRestrictionPlaced, EventRestrictionLifted, EventSweepFinished,
	}
}

// CallbackTypes lists the types of events that a callback is told, sorted.
func CallbackTypes() []string {
	return []string{
		EventErasureApproved, EventErasureCancelled, EventErasureDeferred, EventErasureDenied, EventErasureErased,
		EventErasurePartial, EventErasureRequested,
	}
}

// FinalTypes lists the types of events after which there is none of the same erasure.
func FinalTypes() []string {
	return []string{EventErasureErased, EventErasureDenied, EventErasureCancelled}
}

// EntryWebhook is the kind of entries about webhooks: made, rotated, replayed,
// deleted.
const EntryWebhook EntryKind = "webhook"

// Webhook is a webhook's row.
type Webhook struct {
	ID          string // made by the caller, unique for ever
	Tenant      string
	Erasure     string // of a callback: the one erasure that it is told of; "": of no one
	URL         string
	Types       []string // of events, sorted, each once; empty: all
	Description string   // free text, of this row alone
	Secret      []byte   // sealed
	OldSecret   []byte   // sealed; nil: none
	OldUntil    time.Time
	CreatedAt   time.Time
	CreatedBy   string // token id
	// DisabledAt is when it was disabled; zero: it is not. DisabledFor is why, a word.
	DisabledAt  time.Time
	DisabledFor string
}

// Check refuses what no engine takes of any webhook, as ErrInvalid.
func (w *Webhook) Check() error {
	if w.ID == "" || w.URL == "" || len(w.Secret) == 0 {
		return fmt.Errorf("a webhook without an id, a URL or a secret: %w", blobd.ErrInvalid)
	}
	known := EventTypes()
	for i, t := range w.Types {
		if !slices.Contains(known, t) || i > 0 && w.Types[i-1] >= t {
			return fmt.Errorf("types of events: unknown, not sorted or twice: %w", blobd.ErrInvalid)
		}
	}
	return nil
}

// CheckOrdinary refuses what no engine takes from CreateWebhook, as ErrInvalid.
func (w *Webhook) CheckOrdinary() error {
	if w.Erasure != "" {
		return fmt.Errorf("a callback comes with its erasure: %w", blobd.ErrInvalid)
	}
	return w.Check()
}

// CheckCallback refuses what no engine takes as Fence.Callback, as ErrInvalid.
func (f *Fence) CheckCallback() error {
	if f.Callback == nil {
		return nil
	}
	h := &f.Callback.Webhook
	if h.Erasure != f.ID || h.Tenant != f.Scope.Tenant {
		return fmt.Errorf("the callback of another erasure: %w", blobd.ErrInvalid)
	}
	return h.Check()
}

// Wants reports whether an event of the webhook's tenant is for it, disabled or not.
func (w *Webhook) Wants(e *Event) bool {
	return (w.Erasure == "" || w.Erasure == e.Subject) && (len(w.Types) == 0 || slices.Contains(w.Types, e.Type))
}

// Callback is a webhook of one erasure with the entry of its making.
type Callback struct {
	Webhook Webhook
	Entry   Entry
}

// WebhookQuery selects webhooks of a tenant: those of no erasure, or the callbacks
// of one.
type WebhookQuery struct {
	Tenant  string
	Erasure string
	After   string // id of the last one of the page before
	Limit   int
}

// FeedState is where deliveries stand.
type FeedState struct {
	Next int64 // index in the log of the first entry that was not looked at
	Size int64 // of the log, no later than Webhooks was read
	// Webhooks: there is one, disabled ones too.
	Webhooks bool
	// DueAt is when the first delivery is due, leased or not; zero: there is none.
	DueAt time.Time
}

// Feed is one step through the log.
type Feed struct {
	From, To int64 // the place before it, and after
	At       time.Time
	Events   []Event // of the entries between, in their order
}

// Check refuses what no engine takes, as ErrInvalid.
func (f *Feed) Check() error {
	if f.From < 0 || f.To < f.From {
		return fmt.Errorf("from %d to %d in the log: %w", f.From, f.To, blobd.ErrInvalid)
	}
	return nil
}

// Event is something that webhooks are told of.
type Event struct {
	Tenant  string
	ID      string // the same for the same event, for ever
	Type    string
	Subject string // id of what it is about
	Body    []byte // as it is sent
}

// DeliveryState is where a delivery stands; its text is the contract's.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryDead      DeliveryState = "dead" // until it is replayed
)

// DeliveryDisabled is Delivery.LastError of one that is dead because its webhook is
// disabled, and was not tried.
const DeliveryDisabled = "disabled"

// Delivery is one event for one webhook.
type Delivery struct {
	N         int64 // rises in the order of the log, for each webhook
	WebhookID string
	EventID   string
	Type      string
	Subject   string
	Body      []byte
	State     DeliveryState
	Attempts  int64  // that ended without a delivery
	Status    int64  // HTTP status of the last answer; 0: there was none
	LastError string // a word; "": none
	CreatedAt time.Time
	DueAt     time.Time // zero: it ended
	EndedAt   time.Time // zero: it is pending
}

// DeliveryLease is the right to work on one delivery for a while.
type DeliveryLease struct {
	WebhookID string
	N         int64
	Owner     string
	Term      int64
	Until     time.Time
}

// DeliveryJob is a claimed delivery with its webhook.
type DeliveryJob struct {
	Webhook  Webhook
	Delivery Delivery
	Lease    DeliveryLease
}

// DeliveryMove is what became of a delivery.
type DeliveryMove struct {
	To        DeliveryState // DeliveryPending: it is due again at Due
	At        time.Time     // becomes EndedAt of an end
	Due       time.Time
	Attempts  int64  // replaces the row's
	Status    int64  // replaces the row's
	LastError string // replaces the row's
	// Disable disables the webhook at At, for this reason: all that is pending for it
	// becomes dead. "": it stays as it is.
	Disable string
}

// Check refuses what no engine takes, as ErrInvalid.
func (m *DeliveryMove) Check() error {
	if m.To != DeliveryPending && m.To != DeliveryDelivered && m.To != DeliveryDead {
		return fmt.Errorf("a delivery cannot become %q: %w", m.To, blobd.ErrInvalid)
	}
	if m.Disable != "" && m.To == DeliveryPending {
		return fmt.Errorf("a pending delivery of a disabled webhook: %w", blobd.ErrInvalid)
	}
	return nil
}

// Redelivery selects what becomes due again, at At: all dead deliveries and all
// pending ones and, where Since is set, those delivered whose events were fed at it
// or later.
type Redelivery struct {
	Tenant, WebhookID string
	At                time.Time
	Since             time.Time
}

// DeliveryQuery selects deliveries of a webhook.
type DeliveryQuery struct {
	Tenant, WebhookID string
	State             DeliveryState // "": any
	Before            int64         // N of the last one of the page before; 0: the start
	Limit             int
}
