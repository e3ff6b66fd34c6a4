package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

func execution(id string) *wire.Scope { return &wire.Scope{ExecutionID: &id} }

func TestHoldsAndErasures(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	ctx := t.Context()
	stored, _, err := c.Put(ctx, "run/1", client.Put{Text: []byte(text)})
	must(t, err)
	hold, err := c.PlaceHold(ctx, wire.HoldRequest{Scope: execution("run/1"), Matter: "m", Reason: "r", Owner: "o"}, "key")
	must(t, err)
	same, err := c.PlaceHold(ctx, wire.HoldRequest{Scope: execution("run/1"), Matter: "m", Reason: "r", Owner: "o"}, "key")
	must(t, err)
	if hold.ID != same.ID || hold.Held.Blobs != 1 {
		t.Errorf("hold %+v, again %+v", hold, same)
	}
	preview, err := c.PreviewErasure(ctx, wire.EraseRequest{Scope: execution("run/1"), Reason: "r"})
	must(t, err)
	if preview.Plan.Held != 1 || len(preview.Holds) != 1 {
		t.Errorf("preview = %+v", preview)
	}
	e, err := c.Erase(ctx, wire.EraseRequest{Scope: execution("run/1"), Reason: "r"}, "")
	must(t, err)
	if e, err = c.WaitErased(ctx, e.ID, nil); err != nil || e.State != "deferred" {
		t.Errorf("erasure = %+v, %v", e, err)
	}
	explained, err := c.Explain(ctx, stored.Ref, "run/1")
	must(t, err)
	if len(explained.Items) != 1 || len(explained.Items[0].Holds) != 1 || len(explained.Items[0].Erasures) != 1 {
		t.Errorf("explained = %+v", explained)
	}
	if _, err := c.Explain(ctx, stored.Ref, "other"); client.CodeOf(err) != wire.CodeNotFound || errors.Is(err, client.ErrNull) {
		t.Errorf("explained elsewhere: %v", err)
	}
	if e, err = c.CancelErasure(ctx, e.ID, "not needed"); err != nil || e.State != "cancelled" {
		t.Errorf("cancelled: %+v, %v", e, err)
	}
	released, err := c.ReleaseHold(ctx, hold.ID, "settled")
	must(t, err)
	page, err := c.Holds(ctx, client.Page{Filters: map[string][]string{"state": {"released"}}})
	must(t, err)
	shown, err := c.Hold(ctx, hold.ID)
	must(t, err)
	if released.State != "released" || len(page.Items) != 1 || shown.ID != hold.ID {
		t.Errorf("released %+v, listed %+v, shown %+v", released, page, shown)
	}
	blob, err := c.Resolve(ctx, "run/1", stored.Ref, client.Resolve{})
	must(t, err)
	if string(blob.Bytes) != text {
		t.Errorf("after all: %q", blob.Bytes)
	}
}

func TestDecisions(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	ctx := t.Context()
	tenant, err := c.SetApprovals(ctx, "default", 1)
	must(t, err)
	if *tenant.Approvals.Erasures != 1 {
		t.Errorf("tenant = %+v", tenant)
	}
	token, err := c.CreateToken(ctx, wire.NewToken{Roles: []string{"approver"}}, "")
	must(t, err)
	approver := s.client(t, func(o *client.Options) { o.Token = token.Secret })
	first, err := c.Erase(ctx, wire.EraseRequest{Scope: execution("a"), Reason: "r"}, "")
	must(t, err)
	second, err := c.Erase(ctx, wire.EraseRequest{Scope: execution("b"), Reason: "r"}, "")
	must(t, err)
	if _, err := c.ApproveErasure(ctx, first.ID, first.Plan.Digest); client.CodeOf(err) != wire.CodeForbidden {
		t.Errorf("by who asked: %v", err)
	}
	if _, err := approver.ApproveErasure(ctx, first.ID, strings.Repeat("0", 64)); client.CodeOf(err) != wire.CodePlanDrift {
		t.Errorf("another plan: %v", err)
	}
	if e, err := approver.ApproveErasure(ctx, first.ID, first.Plan.Digest); err != nil || e.State != "running" {
		t.Errorf("approved: %+v, %v", e, err)
	}
	if e, err := approver.DenyErasure(ctx, second.ID, "DUPLICATE", "asked twice"); err != nil || e.State != "denied" || *e.Code != "DUPLICATE" {
		t.Errorf("denied: %+v, %v", e, err)
	}
	for name, begins := range map[string]string{"erasures": "id,type,", "holds": "id,state,", "retention": "class,", "sweeps": "id,state,"} {
		asCSV, err := c.Report(ctx, name, "2020-01-01", "", true)
		must(t, err)
		asJSON, err := c.Report(ctx, name, "", "", false)
		must(t, err)
		if !strings.HasPrefix(string(asCSV), begins) || !strings.HasPrefix(string(asJSON), `{"report":"`+name+`"`) {
			t.Errorf("%s: %s\n%s", name, asCSV, asJSON)
		}
	}
}

func TestRestrictionsAndSuppressions(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	ctx := t.Context()
	r, err := c.Restrict(ctx, wire.RestrictionRequest{Scope: execution("x"), Reason: "r", Purposes: []string{"p"}}, "")
	must(t, err)
	if _, _, err := c.Put(ctx, "x", client.Put{Text: []byte(text)}); client.CodeOf(err) != wire.CodeRestricted {
		t.Errorf("a put into a restriction: %v", err)
	}
	if shown, err := c.Restriction(ctx, r.ID); err != nil || shown.State != "open" {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	if lifted, err := c.LiftRestriction(ctx, r.ID, ""); err != nil || lifted.State != "lifted" {
		t.Errorf("lifted: %+v, %v", lifted, err)
	}
	if list, err := c.Restrictions(ctx, client.Page{}); err != nil || len(list.Items) != 0 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	q, err := c.Suppress(ctx, wire.SuppressionRequest{Subjects: []string{"ann@example.org"}, Reason: "r"}, "")
	must(t, err)
	if _, _, err := c.Put(ctx, "x", client.Put{Text: []byte(text), Subjects: []string{"ann@example.org"}}); client.CodeOf(err) != wire.CodePolicyForbids {
		t.Errorf("a put of a suppressed person: %v", err)
	}
	if list, err := c.Suppressions(ctx, client.Page{}); err != nil || len(list.Items) != 1 || list.Items[0].ID != q.ID {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if lifted, err := c.LiftSuppression(ctx, q.ID, "consent"); err != nil || lifted.State != "lifted" {
		t.Errorf("lifted: %+v, %v", lifted, err)
	}
	if shown, err := c.Suppression(ctx, q.ID); err != nil || *shown.LiftReason != "consent" {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	if _, _, err := c.Put(ctx, "x", client.Put{Text: []byte(text), Subjects: []string{"ann@example.org"}}); err != nil {
		t.Errorf("after the lift: %v", err)
	}
}
