package wire

import "time"

// NewWebhook asks for a webhook.
type NewWebhook struct {
	URL         string   `json:"url" maxLength:"2048" doc:"https, a public address, no credentials and no fragment"`
	Events      []string `json:"events,omitzero" maxItems:"64" doc:"types of events; absent or empty: all"`
	Description string   `json:"description,omitempty" maxLength:"256"`
}

// Webhook is a webhook without its secret.
type Webhook struct {
	ID          string     `json:"id"`
	Erasure     string     `json:"erasure,omitempty" doc:"of a callback: the one erasure that it is told of; it goes by itself"`
	URL         string     `json:"url"`
	Events      []string   `json:"events" doc:"empty: all"`
	Description string     `json:"description"`
	CreatedAt   time.Time  `json:"createdAt"`
	CreatedBy   string     `json:"createdBy" doc:"token id"`
	DisabledAt  *time.Time `json:"disabledAt" doc:"nothing is told until it is replayed; null: it is enabled"`
	DisabledFor string     `json:"disabledFor,omitempty" enum:"gone" doc:"gone: the receiver answered 410"`
	// OldSecretUntil is until when deliveries are signed with the secret before, too.
	OldSecretUntil *time.Time `json:"oldSecretUntil,omitempty"`
}

// CreatedWebhook is a webhook with its secret, shown once.
type CreatedWebhook struct {
	Webhook
	Secret string `json:"secret" doc:"whsec_ and base64; shown once"`
}

// Webhooks is one page of webhooks, by id.
type Webhooks struct {
	Items []Webhook `json:"items"`
	Next  *string   `json:"next"`
}

// WebhookDeliveries is a webhook with one page of its deliveries, newest first.
type WebhookDeliveries struct {
	Webhook
	Deliveries []Delivery `json:"deliveries"`
	Next       *string    `json:"next"`
}

// Delivery is one event for one webhook.
type Delivery struct {
	EventID   string     `json:"eventId" doc:"the header webhook-id and the event's id"`
	Type      string     `json:"type"`
	Subject   string     `json:"subject" doc:"id of what the event is about"`
	State     string     `json:"state" enum:"pending,delivered,dead"`
	Attempts  int64      `json:"attempts" doc:"that failed"`
	Status    *int64     `json:"status" doc:"HTTP status of the last answer; null: there was none"`
	LastError string     `json:"lastError,omitempty" enum:"timeout,address,name,tls,connect,redirect,status,gone,tenant_erased,unavailable,disabled"`
	CreatedAt time.Time  `json:"createdAt"`
	DueAt     *time.Time `json:"dueAt" doc:"of a pending one: the next try"`
	EndedAt   *time.Time `json:"endedAt"`
}

// ReplayRequest asks for deliveries anew.
type ReplayRequest struct {
	Since *time.Time `json:"since,omitempty" doc:"also what was delivered and came at it or later"`
}

// Replayed is how many deliveries are due again.
type Replayed struct {
	Deliveries int64 `json:"deliveries"`
}

// RotateRequest asks for a new secret.
type RotateRequest struct {
	OverlapSeconds *int64 `json:"overlapSeconds,omitempty" minimum:"0" maximum:"604800" doc:"how long the one before stays valid; default a day"`
}
