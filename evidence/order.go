package evidence

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/blobd/blobd/ledger"
)

// What happens to an order.
const (
	ActPlaced = "placed"
	ActLifted = "lifted"
)

// OrderStep is that an order was placed or lifted.
type OrderStep struct {
	Act   string `json:"act"`
	Kind  string `json:"kind"` // hold, restriction or suppression
	Order string `json:"order"`
	ScopeStep
	Refs     []string   `json:"refs,omitempty"`
	Purposes []string   `json:"purposes,omitempty"`
	ReviewAt *time.Time `json:"reviewAt,omitempty"`
	// ExpiresAt, of a suppression.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Actor     string     `json:"actor"`
	// Commitments to what people wrote; see OrderText.
	Matter string `json:"matterCommitment,omitempty"`
	Reason string `json:"reasonCommitment,omitempty"`
}

// OrderText is the free text of an order's entry, as JSON. Both commitments have
// the entry's salt.
type OrderText struct {
	Matter string `json:"matter,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Placed is the entry of an order that is placed.
func (s Scribe) Placed(o ledger.Order) (ledger.Entry, error) {
	step := OrderStep{
		Act: ActPlaced, Kind: o.Kind.String(), Order: o.ID, ScopeStep: s.scope(o.Scope), Refs: refStrings(o.Scope.Refs),
		Purposes: o.Purposes, ReviewAt: dated(o.ReviewAt), ExpiresAt: dated(o.ExpiresAt), Actor: s.actor(o.PlacedBy),
	}
	return s.order(o.PlacedAt, step, OrderText{o.Matter, o.Reason})
}

// Lifted is the entry of an order that is lifted. of is its scope.
func (s Scribe) Lifted(l ledger.Lift, of ledger.Scope) (ledger.Entry, error) {
	step := OrderStep{
		Act: ActLifted, Kind: l.Kind.String(), Order: l.ID, ScopeStep: s.scope(of), Refs: refStrings(of.Refs), Actor: s.actor(l.By),
	}
	return s.order(l.At, step, OrderText{Reason: l.Reason})
}

func (s Scribe) order(at time.Time, step OrderStep, text OrderText) (ledger.Entry, error) {
	if text == (OrderText{}) {
		return s.entry(ledger.EntryOrder, at, step)
	}
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(s.Random, salt); err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: salt: %w", err)
	}
	if text.Matter != "" {
		step.Matter = Commitment(salt, text.Matter)
	}
	if text.Reason != "" {
		step.Reason = Commitment(salt, text.Reason)
	}
	free, err := json.Marshal(text)
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("evidence: order: %w", err)
	}
	e, err := s.entry(ledger.EntryOrder, at, step)
	e.FreeText, e.Salt = string(free), salt
	return e, err
}
