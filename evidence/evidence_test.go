package evidence_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("elsewhere", 3600))

func scribe() evidence.Scribe {
	return evidence.Scribe{Tenant: "acme", NameKey: bytes.Repeat([]byte{7}, 32), Random: rand.Reader}
}

// decode reads a body strictly into its members.
func decode(t *testing.T, e ledger.Entry) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(e.Body, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTagIsAnHMAC(t *testing.T) {
	key := []byte("a key")
	m := hmac.New(sha256.New, key)
	m.Write([]byte("a label\x00a value"))
	if got, want := evidence.Tag(key, "a label", "a value"), m.Sum(nil)[:16]; !bytes.Equal(got[:], want) {
		t.Errorf("tag %x, want %x", got, want)
	}
	if evidence.Tag(key, "a", "bc") == evidence.Tag(key, "ab", "c") {
		t.Error("label and value run together")
	}
}

func TestActorIsATag(t *testing.T) {
	e, err := scribe().Act(at, ledger.EntryToken, "created", "the-actor", "an-object")
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, e)
	if actor, _ := m["actor"].(string); len(actor) != 32 || m["act"] != "created" || m["object"] != "an-object" {
		t.Errorf("body %s", e.Body)
	}
	other := scribe()
	other.NameKey = bytes.Repeat([]byte{8}, 32)
	foreign, err := other.Act(at, ledger.EntryToken, "created", "the-actor", "an-object")
	if err != nil || bytes.Equal(foreign.Body, e.Body) {
		t.Error("two tenants tag an actor alike")
	}
	own, err := scribe().Act(at, ledger.EntryToken, "created", "", "")
	if err != nil || decode(t, own)["actor"] != "blobd" {
		t.Errorf("blobd's own act: %s, %v", own.Body, err)
	}
	if e.At.Location() != time.UTC || !e.At.Equal(at) || e.Tenant != "acme" {
		t.Errorf("entry at %v of %q", e.At, e.Tenant)
	}
}

func TestPurposeIsCommittedTo(t *testing.T) {
	ref := blobd.RefOf([]byte("sealed"))
	e, err := scribe().Read(at, blobd.ExecutionTag{1}, "actor", "why we looked", []blobd.Ref{ref})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(e.Body, []byte("why we looked")) || e.FreeText != "why we looked" || len(e.Salt) != 32 {
		t.Errorf("body %s, free text %q, salt of %d bytes", e.Body, e.FreeText, len(e.Salt))
	}
	sum := sha256.Sum256(append(bytes.Clone(e.Salt), "why we looked"...))
	m := decode(t, e)
	if m["purposeCommitment"] != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("commitment %v", m["purposeCommitment"])
	}
	if refs, _ := m["refs"].([]any); len(refs) != 1 || refs[0] != ref.String() {
		t.Errorf("refs %v", m["refs"])
	}
	again, err := scribe().Read(at, blobd.ExecutionTag{1}, "actor", "why we looked", []blobd.Ref{ref})
	if err != nil || bytes.Equal(again.Body, e.Body) {
		t.Error("two reads for one purpose can be told to be alike")
	}
	broken := scribe()
	broken.Random = iotest.ErrReader(errors.New("no randomness"))
	if _, err := broken.Read(at, blobd.ExecutionTag{1}, "actor", "why", nil); err == nil {
		t.Error("a commitment was made without a salt")
	}
}

func TestListsAreNeverNull(t *testing.T) {
	s := scribe()
	put, err := s.Put(at, blobd.ExecutionTag{1}, "actor", nil)
	if err != nil {
		t.Fatal(err)
	}
	if refs, ok := decode(t, put)["refs"].([]any); !ok || len(refs) != 0 {
		t.Errorf("body %s", put.Body)
	}
}

func TestErasureStepSaysWhatWasDone(t *testing.T) {
	p := ledger.Progress{KeysDestroyed: 2, ObjectsDeleted: 3, VersionsDeleted: 5}
	p.Residuals = []string{"wal"}
	of := ledger.Scope{Tenant: "acme", Tag: blobd.ExecutionTag{1}, ExecutionID: "an execution"}
	e, err := scribe().Erasure(at, of, evidence.ErasureStep{Step: evidence.StepErased, Erasure: "id"}.Progressed(p), "")
	if err != nil {
		t.Fatal(err)
	}
	var step evidence.ErasureStep
	if err := json.Unmarshal(e.Body, &step); err != nil {
		t.Fatal(err)
	}
	if step.Step != "erased" || step.Erasure != "id" || step.Execution != (blobd.ExecutionTag{1}).String() || step.Form != "execution" || step.Actor != "blobd" ||
		step.KeysDestroyed != 2 || step.ObjectsDeleted != 3 || step.VersionsDeleted != 5 || len(step.Residuals) != 1 {
		t.Errorf("%+v", step)
	}
}

func TestJoinPuts(t *testing.T) {
	later := at.Add(time.Second)
	put := func(tenant, body string, at time.Time) ledger.Entry {
		return ledger.Entry{Tenant: tenant, Kind: ledger.EntryPut, At: at, Body: []byte(body)}
	}
	joined := ledger.JoinPuts([]ledger.Entry{
		put("a", `{"n":1}`, later), put("b", `{"n":2}`, at), put("a", `{"n":3}`, at),
	})
	if len(joined) != 2 {
		t.Fatalf("%d entries, want one per tenant", len(joined))
	}
	for i, want := range []struct {
		tenant, body string
		at           time.Time
	}{{"a", `{"puts":[{"n":1},{"n":3}]}`, later}, {"b", `{"puts":[{"n":2}]}`, at}} {
		got := joined[i]
		if got.Tenant != want.tenant || string(got.Body) != want.body || !got.At.Equal(want.at) || got.Kind != ledger.EntryPut {
			t.Errorf("entry %d: %s of %s at %v", i, got.Body, got.Tenant, got.At)
		}
	}
	if ledger.JoinPuts(nil) != nil {
		t.Error("nothing joins to something")
	}
}
