package store_test

import (
	"testing"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// TestAudienceDecidesForRuntimes: outside the audience every answer is a null,
// damaged or not, and a put of the same bytes for another audience is new.
func TestAudienceDecidesForRuntimes(t *testing.T) {
	n := memParts(t).start(t)
	alice := blobd.Principal{Tenant: tenant, Actor: "alice"}
	behalf := ""
	request := func(audience ...blobd.Principal) store.PutRequest {
		return store.PutRequest{Attempt: attempt("run"), Audience: audience, Content: store.Content{
			Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte("for alice")),
		}}
	}
	stored, err := n.store.Put(t.Context(), request(alice))
	if err != nil {
		t.Fatal(err)
	}
	null := func(p *blobd.Principal) bool {
		a, err := n.resolver.Resolve(t.Context(), resolver.Request{
			Tenant: tenant, ExecutionID: "run", Principal: p, Wants: []resolver.Want{{Ref: stored.Ref}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a.Parts[0].Null
	}
	for name, c := range map[string]struct {
		who  *blobd.Principal
		null bool
	}{
		"a member":                      {&alice, false},
		"nobody in particular":          {nil, true},
		"another":                       {&blobd.Principal{Tenant: tenant, Actor: "bob"}, true},
		"the member on nobody's behalf": {&blobd.Principal{Tenant: tenant, Actor: "alice", OnBehalfOf: &behalf}, true},
		"the member's name elsewhere":   {&blobd.Principal{Tenant: "other", Actor: "alice"}, true},
		"a name that joins to the same": {&blobd.Principal{Tenant: tenant + "a", Actor: "lice"}, true},
	} {
		if got := null(c.who); got != c.null {
			t.Errorf("%s: null %v, want %v", name, got, c.null)
		}
	}
	again, err := n.store.Put(t.Context(), request(alice, blobd.Principal{Tenant: tenant, Actor: "bob"}))
	if err != nil || again.Ref == stored.Ref || !again.Created {
		t.Errorf("a put for another audience: %v, same ref %v, created %v", err, again.Ref == stored.Ref, again.Created)
	}
	if _, err := n.parts.objects.Erase(t.Context(), backends.Scope{Names: n.sealedObjects(t, "run")}); err != nil {
		t.Fatal(err)
	}
	if n = n.parts.start(t); !null(nil) {
		t.Error("an outsider learns that the object is missing")
	}
}
