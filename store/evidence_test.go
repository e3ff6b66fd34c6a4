package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// secretsOf are the forms in which a value must not appear.
func secretsOf(value string) []string {
	sum := sha256.Sum256([]byte(value))
	return []string{
		value, string(sum[:]), hex.EncodeToString(sum[:]), strings.ToUpper(hex.EncodeToString(sum[:])),
		base64.StdEncoding.EncodeToString(sum[:]), base64.URLEncoding.EncodeToString(sum[:]),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
}

// TestEvidenceTellsNothingAboutTexts: no entry of a long life holds a text, a
// digest of one, an execution's id, a person, or free text.
func TestEvidenceTellsNothingAboutTexts(t *testing.T) {
	const (
		text      = "planted-text-1f7c"
		execution = "planted-execution-90aa"
		subject   = "planted-subject@example.org"
		actor     = "planted-actor-77"
		audience  = "planted-audience-41"
		purpose   = "planted purpose about a person"
		why       = "planted reason about a person"
		legal     = "planted legal basis"
		external  = "planted-ticket-1234"
		step      = "planted-step"
		token     = "planted token name"
	)
	n := memParts(t).start(t)
	a := store.Attempt{Tenant: tenant, ExecutionID: execution, StepID: step, Number: 1, Actor: actor}
	who := []blobd.Principal{{Tenant: tenant, Actor: audience}}
	stored, err := n.store.Put(t.Context(), store.PutRequest{
		Attempt: a, Subjects: []string{subject}, Audience: who,
		Content: store.Content{Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text))},
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := n.store.Capture(t.Context(), store.CaptureRequest{
		Attempt: a, Class: reason, Keep: true, Subjects: []string{subject},
		Parts: []store.CapturePart{{Kind: blobd.KindSummary, Text: blobd.TextOf([]byte(text + " again"))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.resolver.Read(t.Context(), resolver.ReadRequest{Tenant: tenant, ExecutionID: execution, Actor: actor, Purpose: purpose}); err != nil {
		t.Fatal(err)
	}
	secret, row, err := n.store.CreateToken(t.Context(), store.NewToken{Tenant: tenant, Name: token, Roles: []string{"dpo"}, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.store.RevokeToken(t.Context(), tenant, row.ID, actor); err != nil {
		t.Fatal(err)
	}
	for _, refs := range [][]blobd.Ref{{other[0].Stored.Ref}, nil} {
		_, err := n.store.Erase(t.Context(), store.EraseRequest{
			Tenant: tenant, ExecutionID: execution, Refs: refs, Actor: actor, Reason: why, LegalBasis: legal, ExternalRef: external,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	n.runJobs(t)

	entries, err := n.parts.ledger.Entries(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[ledger.EntryKind]int)
	for _, e := range entries {
		kinds[e.Kind]++
		if !json.Valid(e.Body) {
			t.Errorf("%s: the body is not JSON", e.Kind)
		}
		for _, planted := range []string{text, text + " again", execution, subject, actor, audience, purpose, why, legal, external, step, token, secret} {
			for _, form := range secretsOf(planted) {
				if bytes.Contains(e.Body, []byte(form)) {
					t.Errorf("the body of a %s entry holds %q", e.Kind, planted)
				}
			}
		}
	}
	// Two steps of two erasures each fenced, deleted and erased.
	for kind, want := range map[ledger.EntryKind]int{
		ledger.EntryTenant: 1, ledger.EntryPut: 2, ledger.EntryRead: 1, ledger.EntryToken: 2, ledger.EntryErasure: 6,
	} {
		if kinds[kind] != want {
			t.Errorf("%d %s entries, want %d", kinds[kind], kind, want)
		}
	}
	if !bytes.Contains(entriesOf(entries, ledger.EntryPut), []byte(stored.Ref.String())) {
		t.Error("the put's entry does not name its ref")
	}
}

func entriesOf(entries []ledger.StoredEntry, kind ledger.EntryKind) []byte {
	var all []byte
	for _, e := range entries {
		if e.Kind == kind {
			all = append(all, e.Body...)
		}
	}
	return all
}
