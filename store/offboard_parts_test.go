package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// leaver is the tenant that is off-boarded; the others of the tests stay.
const leaver = "leaver"

func (n *node) putFor(ctx context.Context, tenant, execution, text string, subjects ...string) (store.Stored, error) {
	a := attempt(execution)
	a.Tenant = tenant
	return n.store.Put(ctx, store.PutRequest{Attempt: a, Subjects: subjects, Content: store.Content{
		Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(text)),
	}})
}

func (n *node) mustPutFor(t testing.TB, tenant, execution, text string) store.Stored {
	t.Helper()
	s, err := n.putFor(t.Context(), tenant, execution, text)
	if err != nil {
		t.Fatalf("put for %s: %v", tenant, err)
	}
	return s
}

// resolveFor returns a text, or that it is null.
func (n *node) resolveFor(ctx context.Context, tenant, execution string, ref blobd.Ref) (text string, null bool, err error) {
	a, err := n.resolver.Resolve(ctx, resolver.Request{Tenant: tenant, ExecutionID: execution, Wants: []resolver.Want{{Ref: ref}}})
	if err != nil {
		return "", false, err
	}
	return string(a.Parts[0].Text.Bytes()), a.Parts[0].Null, nil
}

func (n *node) wantNullFor(t testing.TB, tenant, execution string, ref blobd.Ref) {
	t.Helper()
	if text, null, err := n.resolveFor(t.Context(), tenant, execution, ref); err != nil || !null {
		t.Errorf("resolve for %s: %q, %v, want null", tenant, text, err)
	}
}

func (n *node) offboard(ctx context.Context) (ledger.Erasure, error) {
	return n.store.Erase(ctx, store.EraseRequest{Tenant: leaver, WholeTenant: true, Reason: "leaves", Actor: "token"})
}

func (n *node) mustOffboard(t testing.TB) ledger.Erasure {
	t.Helper()
	e, err := n.offboard(t.Context())
	if err != nil {
		t.Fatalf("off-board: %v", err)
	}
	return e
}

// finishOffboarding runs jobs until every erasure of the leaver is erased, and
// returns them.
func (n *node) finishOffboarding(t testing.TB) []ledger.Erasure {
	t.Helper()
	for range 50 {
		for {
			worked, err := n.erasures.RunOne(t.Context())
			if err != nil {
				t.Fatalf("run a job: %v", err)
			}
			if !worked {
				break
			}
		}
		es, err := n.parts.ledger.ListErasures(t.Context(), ledger.ErasureQuery{Tenant: leaver, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(es, func(e ledger.Erasure) bool { return e.State != ledger.ErasureErased }) {
			return es
		}
		n.clock.advance(10 * time.Minute)
	}
	t.Fatal("erasures of the leaver do not finish")
	return nil
}

// kekDestroyed asks the key service itself.
func (p *parts) kekDestroyed(t testing.TB, tenant string) bool {
	t.Helper()
	have, err := p.keys.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !slices.Contains(have, tenant)
}

// objectsOf returns the names of a tenant's objects.
func (n *node) objectsOf(t testing.TB, e ledger.Erasure) []backends.Object {
	t.Helper()
	all, err := n.parts.objects.List(t.Context(), backends.TenantPrefix(e.Scope.Tag.String()), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantOffboarded: null, refused, nothing new, and in both places of the journal.
func (n *node) wantOffboarded(t *testing.T, refs map[string]blobd.Ref) {
	t.Helper()
	for execution, ref := range refs {
		n.wantNullFor(t, leaver, execution, ref)
		_, err := n.putFor(t.Context(), leaver, execution, "another text")
		wantErr(t, err, blobd.ErrErased)
	}
	n.wantNullFor(t, leaver, "never seen", blobd.RefOf([]byte("never stored")))
	for name, act := range map[string]func() error{
		"a put": func() error { _, err := n.putFor(t.Context(), leaver, "never seen", "a text"); return err },
		"a put with a subject": func() error {
			_, err := n.putFor(t.Context(), leaver, "never seen", "a text", "someone")
			return err
		},
		"a token": func() error {
			_, _, err := n.store.CreateToken(t.Context(), store.NewToken{Tenant: leaver, Roles: []string{"runtime"}})
			return err
		},
		"an epoch": func() error { _, err := n.store.StartEpoch(t.Context(), leaver, "", ""); return err },
	} {
		if err := act(); err == nil || !refusal(err) {
			t.Errorf("%s in the off-boarded tenant: %v", name, err)
		} else {
			wantErr(t, err, blobd.ErrErased)
		}
	}
	_, err := n.store.CreateTenant(t.Context(), leaver, "")
	wantErr(t, err, blobd.ErrConflict)
	n.wantTenantJournalled(t)
}

func (n *node) wantTenantJournalled(t *testing.T) {
	t.Helper()
	for place, s := range map[string]backends.Store{"the store": n.parts.objects, "the second place": n.parts.second} {
		if !slices.ContainsFunc(journalRecords(t, s), func(r ledger.Record) bool {
			return r.Kind == ledger.RecordTenant && r.Tenant == leaver
		}) {
			t.Errorf("the journal in %s does not know of the off-boarding", place)
		}
	}
}

// leaverParts are parts with a tenant that has something to lose.
func leaverParts(t *testing.T) (p *parts, refs map[string]blobd.Ref) {
	t.Helper()
	p = memParts(t)
	n := p.start(t)
	return p, n.makeLeaver(t)
}

func (n *node) makeLeaver(t *testing.T) map[string]blobd.Ref {
	t.Helper()
	n.createTenant(t, leaver)
	refs := make(map[string]blobd.Ref)
	for i := range 3 {
		execution := fmt.Sprint("leaver's ", i)
		n.mustPutFor(t, leaver, execution, "first")
		refs[execution] = n.mustPutFor(t, leaver, execution, "second").Ref
	}
	return refs
}
