package api_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/api/wire"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	keymem "github.com/blobd/blobd/keys/mem"
	"github.com/blobd/blobd/ledger"
)

// logged is a server with an evidence log.
type logged struct {
	*env
	sequencer *evidence.Sequencer
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	l := new(logged)
	l.env = newEnv(t, func(c *api.Config) {
		whole, ok := c.Ledger.(ledger.Ledger)
		if !ok {
			t.Fatal("the ledger of these tests is no whole one")
		}
		journal := evidence.NewJournal(whole, backendmem.New(c.Now))
		log := evidence.NewLog(whole, journal, keys.NewCore(keymem.New(nil), keys.Options{}), "00112233445566778899aabbccddeeff")
		l.sequencer = evidence.NewSequencer(log, "test", c.Now, slog.New(slog.DiscardHandler))
		c.Evidence, c.Certifier = log, evidence.Certifier{Log: log, Erasures: whole, Version: "test"}
	})
	return l
}

func (l *logged) sequence() {
	l.t.Helper()
	for worked := true; worked; {
		var err error
		worked, err = l.sequencer.Step(l.t.Context())
		must(l.t, err)
	}
}

// verifier is the key as the server tells it.
func (l *logged) verifier() (string, note.Verifier) {
	l.t.Helper()
	a := l.ask("auditor", "GET", "/v1/evidence/key", "")
	a.want(l.t, http.StatusOK, "")
	v, err := evidence.ParseVerifier(string(a.body))
	must(l.t, err)
	return string(a.body), v
}

func (l *logged) checkpoint() evidence.Checkpoint {
	l.t.Helper()
	a := l.ask("auditor", "GET", "/v1/evidence/checkpoint", "")
	a.want(l.t, http.StatusOK, "")
	_, v := l.verifier()
	c, err := evidence.OpenCheckpoint(a.body, v)
	must(l.t, err)
	return c
}

func (l *logged) entries(role, query string) wire.EvidenceEntries {
	l.t.Helper()
	a := l.ask(role, "GET", "/v1/evidence/entries"+query, "")
	a.want(l.t, http.StatusOK, "")
	var out wire.EvidenceEntries
	a.into(l.t, &out)
	return out
}

func TestTheLogBeforeItsFirstCheckpoint(t *testing.T) {
	l := newLogged(t)
	for _, path := range []string{"checkpoint", "key", "tile/0/000", "proof?index=0", "proof?oldSize=1"} {
		l.ask("auditor", "GET", "/v1/evidence/"+path, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	}
	if es := l.entries("auditor", ""); len(es.Items) != 0 || es.Next != nil {
		t.Errorf("entries %+v", es)
	}
}

// TestProofsOverHTTP: whoever has the key can check every entry and every
// growth of the log.
func TestProofsOverHTTP(t *testing.T) {
	l := newLogged(t)
	l.put("x", canaryText)
	l.sequence()
	old := l.checkpoint()
	l.put("x", "another text")
	l.sequence()
	c := l.checkpoint()
	if c.Size != old.Size+1 {
		t.Fatalf("from %d to %d entries", old.Size, c.Size)
	}
	for i, e := range l.entries("operator", "").Items {
		if e.Index != int64(i) {
			t.Fatalf("entry %d at %d", e.Index, i)
		}
		var p wire.EvidenceProof
		a := l.ask("auditor", "GET", fmt.Sprintf("/v1/evidence/proof?index=%d", i), "")
		a.want(t, http.StatusOK, "")
		a.into(t, &p)
		if err := tlog.CheckRecord(hashesOf(t, p.Proof), p.TreeSize, c.Root, e.Index, tlog.RecordHash(e.Leaf)); err != nil || p.TreeSize != c.Size {
			t.Errorf("entry %d: %v", i, err)
		}
		if p.Checkpoint != string(c.Note) || !bytes.Equal(p.RootHash, c.Root[:]) || !bytes.Equal(p.LeafHash, e.LeafHash) {
			t.Errorf("entry %d: %+v", i, p)
		}
	}
	var p wire.EvidenceProof
	a := l.ask("auditor", "GET", fmt.Sprintf("/v1/evidence/proof?oldSize=%d", old.Size), "")
	a.want(t, http.StatusOK, "")
	a.into(t, &p)
	if err := tlog.CheckTree(hashesOf(t, p.Proof), c.Size, c.Root, old.Size, old.Root); err != nil {
		t.Error(err)
	}
	for _, query := range []string{"", "?index=1&oldSize=1", "?index=-1", "?index=x", "?oldSize=0", "?size=1", "?index=1&index=1"} {
		l.ask("auditor", "GET", "/v1/evidence/proof"+query, "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	}
	l.ask("auditor", "GET", "/v1/evidence/proof?index=1000", "").want(t, http.StatusNotFound, wire.CodeNotFound)
}

func hashesOf(t *testing.T, bs [][]byte) (hs []tlog.Hash) {
	t.Helper()
	for _, b := range bs {
		if len(b) != tlog.HashSize {
			t.Fatalf("a hash of %d bytes", len(b))
		}
		hs = append(hs, tlog.Hash(b))
	}
	return hs
}

// TestEntriesOfOthersAreHashes: an auditor sees its tenant's entries whole, an
// operator all; nobody sees a text, a subject or a purpose.
func TestEntriesOfOthersAreHashes(t *testing.T) {
	l := newLogged(t)
	must(t, second(l.env))
	l.put("x", canaryText, wire.HeaderSubjects, `"`+canarySubject+`"`)
	l.ask("auditor", "POST", "/v1/executions/x/reasoning/read", `{"purpose":"`+canaryPurpose+`"}`).want(t, http.StatusOK, "")
	l.sequence()
	own, all := l.entries("auditor", ""), l.entries("operator", "")
	foreign := l.ask(l.newToken("second", "auditor"), "GET", "/v1/evidence/entries", "")
	l.sequence() // the new token is an entry too
	whole, bare := 0, 0
	for i, e := range own.Items {
		if !bytes.Equal(e.LeafHash, all.Items[i].LeafHash) || len(all.Items[i].Leaf) == 0 {
			t.Errorf("entry %d: %+v, %+v", i, e, all.Items[i])
		}
		switch all.Items[i].Tenant {
		case "default":
			whole++
			if h := tlog.RecordHash(e.Leaf); !bytes.Equal(h[:], e.LeafHash) || len(e.Body) == 0 {
				t.Errorf("own entry %d: %+v", i, e)
			}
		default:
			bare++
			if len(e.Leaf) != 0 || e.Tenant != "" || e.Kind != "" || e.At != nil || len(e.Body) != 0 {
				t.Errorf("another's entry %d: %+v", i, e)
			}
		}
	}
	if whole < 3 || bare < 2 {
		t.Errorf("%d own entries, %d of others", whole, bare)
	}
	if bytes.Contains(foreign.body, []byte(`"default"`)) {
		t.Errorf("another tenant's auditor reads %s", foreign.body)
	}
	b := l.ask("operator", "GET", fmt.Sprintf("/v1/evidence/tile/entries/000.p/%d", len(all.Items)), "")
	b.want(t, http.StatusOK, "")
	for _, never := range []string{canaryText, canarySubject, canaryPurpose} {
		if bytes.Contains(b.body, []byte(never)) {
			t.Errorf("the log holds %q", never)
		}
	}
}

// TestEntriesComeInPages.
func TestEntriesComeInPages(t *testing.T) {
	l := newLogged(t)
	l.sequence()
	size := l.checkpoint().Size
	var got []int64
	query := "?limit=3"
	for {
		page := l.entries("operator", query)
		for _, e := range page.Items {
			got = append(got, e.Index)
		}
		if page.Next == nil {
			break
		}
		query = "?limit=3&cursor=" + *page.Next
	}
	if int64(len(got)) != size || got[0] != 0 || got[size-1] != size-1 {
		t.Errorf("%d entries %v, want %d", len(got), got, size)
	}
	if es := l.entries("operator", "?from=2&to=4"); len(es.Items) != 2 || es.Items[0].Index != 2 || es.Next != nil {
		t.Errorf("from 2 to 4: %+v", es)
	}
	if es := l.entries("operator", "?from=1000000"); len(es.Items) != 0 {
		t.Errorf("past the end: %+v", es)
	}
	for _, query := range []string{"?from=-1", "?to=x", "?limit=0", "?limit=1001", "?cursor=eA", "?cursor=!"} {
		l.ask("operator", "GET", "/v1/evidence/entries"+query, "").want(t, http.StatusBadRequest, wire.CodeInvalid)
	}
}

// TestTilesOverHTTP: hashes for auditors, bundles for operators.
func TestTilesOverHTTP(t *testing.T) {
	l := newLogged(t)
	l.sequence()
	size := l.checkpoint().Size
	tile := l.ask("auditor", "GET", fmt.Sprintf("/v1/evidence/tile/0/000.p/%d", size), "")
	tile.want(t, http.StatusOK, "")
	if got := tile.header.Get("Content-Type"); got != "application/octet-stream" || int64(len(tile.body)) != 32*size {
		t.Errorf("%d bytes of %s", len(tile.body), got)
	}
	bundle := fmt.Sprintf("/v1/evidence/tile/entries/000.p/%d", size)
	l.ask("auditor", "GET", bundle, "").want(t, http.StatusForbidden, wire.CodeForbidden)
	b := l.ask("operator", "GET", bundle, "")
	b.want(t, http.StatusOK, "")
	first := b.body[2 : 2+binary.BigEndian.Uint16(b.body)]
	if h := tlog.RecordHash(first); !bytes.Equal(h[:], tile.body[:32]) {
		t.Error("the first leaf is not that of the tile")
	}
	for _, path := range []string{"0/000", "1/000", "0/x", "x", "data/000.p/1"} {
		l.ask("operator", "GET", "/v1/evidence/tile/"+path, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	}
}

// TestCertificateOverHTTP: 409 until it is erased and in the log, then the same
// bytes each time, and a document for people.
func TestCertificateOverHTTP(t *testing.T) {
	l := newLogged(t)
	l.put("x", canaryText, wire.HeaderSubjects, `"`+canarySubject+`"`)
	a := l.ask("dpo", "POST", "/v1/erasures", `{"scope":{"executionId":"x"},"reason":"`+canaryPurpose+`","regime":"gdpr"}`)
	a.want(t, http.StatusAccepted, "")
	var erasure wire.Erasure
	a.into(t, &erasure)
	path := "/v1/erasures/" + erasure.ID + "/certificate"
	l.ask("dpo", "GET", path, "").want(t, http.StatusConflict, wire.CodeConflict)
	l.sequence()
	l.ask("dpo", "GET", path, "").want(t, http.StatusConflict, wire.CodeConflict)
	l.runErasures()
	l.ask("dpo", "GET", path, "").want(t, http.StatusConflict, wire.CodeConflict)
	l.sequence()
	first, again := l.ask("dpo", "GET", path, ""), l.ask("auditor", "GET", path, "", "Accept", "application/json")
	first.want(t, http.StatusOK, "")
	if !bytes.Equal(first.body, again.body) || first.header.Get("Content-Type") != wire.TypeJSON {
		t.Errorf("%s: %s, then %s", first.header.Get("Content-Type"), first.body, again.body)
	}
	key, _ := l.verifier()
	c, err := evidence.VerifyCertificate(first.body, key)
	must(t, err)
	if s := c.Statement; s.Erasure != erasure.ID || s.Tenant != "default" || s.Plan.Digest != erasure.Plan.Digest ||
		s.Keys.Destroyed != 1 || s.Objects.Deleted != 1 || s.Regime != "gdpr" {
		t.Errorf("the certificate says %+v", s)
	}
	for _, never := range []string{canaryText, canarySubject, canaryPurpose, blobd.DigestOf([]byte(canaryText)).Hex()} {
		if strings.Contains(string(first.body), never) {
			t.Errorf("the certificate holds %q", never)
		}
	}
	doc := l.ask("dpo", "GET", path, "", "Accept", "application/pdf")
	doc.want(t, http.StatusOK, "")
	if doc.header.Get("Content-Type") != "application/pdf" || !bytes.HasPrefix(doc.body, []byte("%PDF-")) {
		t.Errorf("%s: %.20s", doc.header.Get("Content-Type"), doc.body)
	}
	l.ask(l.newToken("default", "runtime"), "GET", path, "").want(t, http.StatusForbidden, wire.CodeForbidden)
	must(t, second(l.env))
	l.ask(l.newToken("second", "dpo"), "GET", path, "").want(t, http.StatusNotFound, wire.CodeNotFound)
	l.ask("dpo", "GET", "/v1/erasures/00000000-0000-0000-0000-000000000000/certificate", "").want(t, http.StatusNotFound, wire.CodeNotFound)
}

// stoppedLog is a log that the ledger does not continue.
type stoppedLog struct{ api.Evidence }

func (stoppedLog) Stats() evidence.LogStats { return evidence.LogStats{Published: 7, Stopped: true} }

func TestMetricsTellOfAStoppedLog(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.Evidence = stoppedLog{} })
	a := e.ask("", "GET", "/metrics", "")
	for _, want := range []string{"\nblobd_evidence_stopped 1\n", "\nblobd_evidence_published_entries 7\n"} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("the metrics lack %q", strings.TrimSpace(want))
		}
	}
	if !errors.Is(evidence.ErrOtherHistory, blobd.ErrUnavailable) {
		t.Error("a log that is stopped is no definite answer")
	}
}
