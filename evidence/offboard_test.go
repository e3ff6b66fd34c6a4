package evidence_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// offboarded runs the erasure of a whole tenant through a rig.
func offboarded(t *testing.T, kek time.Time) (*erasing, []byte) {
	e := newErasing(t)
	e.append(3)
	step := func(name string, p ledger.Progress) []ledger.Entry {
		of := ledger.Scope{Tenant: "acme", Tag: blobd.ExecutionTag{9, 9}, WholeTenant: true}
		entry, err := scribe().Erasure(e.clock.now(), of, evidence.ErasureStep{Step: name, Erasure: e.id}.Progressed(p), "the-actor")
		if err != nil {
			t.Fatal(err)
		}
		return []ledger.Entry{entry}
	}
	_, _, err := e.inner.Fence(t.Context(), ledger.Fence{
		ID: e.id, At: e.clock.now(), RunAt: e.clock.now(), RequestedBy: "the-actor", ReceivedAt: e.clock.now(),
		Scope:   ledger.Scope{Tenant: "acme", Tag: blobd.ExecutionTag{9, 9}, WholeTenant: true},
		Entries: step(evidence.StepFenced, ledger.Progress{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	job, err := e.inner.Claim(t.Context(), "worker", e.clock.now(), e.clock.now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p := ledger.Progress{KeysDestroyed: 4, ObjectsDeleted: 5, VersionsDeleted: 6, Settled: true, Swept: true, KEKDestroyedAt: kek}
	if err := e.inner.Finish(t.Context(), job.Lease, p, e.clock.now(), step(evidence.StepErased, p)); err != nil {
		t.Fatal(err)
	}
	e.drain(e.process)
	e.certifier.Horizons = horizon{at: kek, reached: true}
	return e, e.certificate()
}

// TestACertificateOfAnOffboardedTenant names the tenant and no execution, says
// when the KEK went, and is held to what the log says.
func TestACertificateOfAnOffboardedTenant(t *testing.T) {
	kek := now().Add(time.Minute)
	e, b := offboarded(t, kek)
	c, err := evidence.VerifyCertificate(b, e.key())
	if err != nil {
		t.Fatal(err)
	}
	s := c.Statement
	if s.Tenant != "acme" || !s.Scope.WholeTenant || s.Scope.Execution != "" || s.Scope.Refs != nil {
		t.Errorf("scope %+v of %q", s.Scope, s.Tenant)
	}
	if s.Keys.KEKDestroyedAt == nil || !s.Keys.KEKDestroyedAt.Equal(kek) || !slices.Contains(s.Method, "kek_destroyed") {
		t.Errorf("keys %+v, method %v", s.Keys, s.Method)
	}
	if r := s.Residuals[0]; !r.Reached || r.Until == nil || !r.Until.Equal(kek) {
		t.Errorf("backups: %+v", r)
	}
	var step evidence.ErasureStep
	leaf, err := evidence.ParseLeaf(c.Log.Leaf, c.Log.Body)
	if err == nil {
		err = json.Unmarshal(leaf.Body, &step)
	}
	if err != nil || !step.WholeTenant || step.Execution != "" || step.KEKDestroyedAt == nil {
		t.Errorf("the log says %+v, %v", step, err)
	}
	doc, err := evidence.PDF(b)
	if err != nil || !bytes.Contains(doc, []byte("the whole tenant")) || !bytes.Contains(doc, []byte("KEK destroyed")) {
		t.Errorf("the PDF does not say so: %v", err)
	}
}

// TestACertificateCannotClaimATenant: what the log says of an execution is no
// statement about its tenant.
func TestACertificateCannotClaimATenant(t *testing.T) {
	e, b := certified(t)
	for _, spelled := range [][2]string{
		{`"scope":{"execution":"01020300000000000000000000000000"}`, `"scope":{"wholeTenant":true}`},
		{`"scope":{"execution":"01020300000000000000000000000000"}`, `"scope":{"execution":"01020300000000000000000000000000","wholeTenant":true}`},
	} {
		if !bytes.Contains(b, []byte(spelled[0])) {
			t.Fatalf("the certificate has another scope: %s", b)
		}
		if _, err := evidence.VerifyCertificate(bytes.Replace(b, []byte(spelled[0]), []byte(spelled[1]), 1), e.key()); err == nil {
			t.Errorf("%s verifies", spelled[1])
		}
	}
}
