package evidence_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	ledgerfaulty "github.com/blobd/blobd/ledger/faulty"
)

const planDigest = "0123456789abcdef"

// theActor is the keyed tag of "the-actor" under the scribe's name key.
const theActor = "431790bfe5344e829718c1da95a63987"

// horizon is a Horizons with one answer.
type horizon struct {
	at      time.Time
	reached bool
	err     error
}

func (h horizon) Horizon(context.Context, ledger.Erasure) (time.Time, bool, error) {
	return h.at, h.reached, h.err
}

// erasing is an erasure on its way through a rig.
type erasing struct {
	*rig
	process
	certifier evidence.Certifier
	id        string
	execution blobd.ExecutionTag
	refs      []blobd.Ref
	form      *ledger.Scope // what entries tell; nil: they are those of earlier versions
}

func newErasing(t *testing.T, refs ...blobd.Ref) *erasing {
	r := newRig(t, t, 1)
	if err := r.inner.CreateTenant(t.Context(), ledger.Tenant{ID: "acme", CreatedAt: now(), MinimumWrap: 3},
		ledger.Entry{Tenant: "acme", Kind: ledger.EntryTenant, At: now(), Body: []byte(`{"act":"created"}`)}); err != nil {
		t.Fatal(err)
	}
	p := r.process()
	return &erasing{
		rig: r, process: p, id: "7228216a-bcf8-4884-af2f-a75be27d6ef7", execution: blobd.ExecutionTag{1, 2, 3}, refs: refs,
		certifier: evidence.Certifier{Log: p.Log, Erasures: r.inner, Version: "v1.2.3"},
	}
}

func (e *erasing) entry(step string, p ledger.Progress) ledger.Entry {
	e.Helper()
	p.Residuals = []string{"a file that nobody can reach"}
	s := evidence.ErasureStep{Step: step, Erasure: e.id}
	if e.form != nil {
		entry, err := scribe().Erasure(e.clock.now(), *e.form, s.Progressed(p), "the-actor")
		if err != nil {
			e.Fatal(err)
		}
		return entry
	}
	// As earlier versions wrote it, without a form.
	s.Execution, s.Actor = e.execution.String(), theActor
	for _, ref := range e.refs {
		s.Refs = append(s.Refs, ref.String())
	}
	body, err := json.Marshal(s.Progressed(p))
	if err != nil {
		e.Fatal(err)
	}
	return ledger.Entry{Tenant: "acme", Kind: ledger.EntryErasure, At: e.clock.now(), Body: body}
}

func (e *erasing) fence() {
	e.Helper()
	_, _, err := e.inner.Fence(e.t.Context(), ledger.Fence{
		ID: e.id, At: e.clock.now(), RunAt: e.clock.now(), Regime: "gdpr", ReceivedAt: e.clock.now().Add(-time.Hour), DueAt: e.clock.now().Add(time.Hour),
		Reason: "free text of a person", LegalBasis: "more free text", ExternalRef: "ticket of a person", RequestedBy: "the-actor",
		Scope:   ledger.Scope{Tenant: "acme", Tag: e.execution, ExecutionID: "execution of a person", Refs: e.refs},
		Entries: []ledger.Entry{e.entry(evidence.StepFenced, ledger.Progress{})},
	})
	if err != nil {
		e.Fatal(err)
	}
}

func (e *erasing) finish() {
	e.Helper()
	e.clock.add(90 * time.Second)
	job, err := e.inner.Claim(e.t.Context(), "worker", e.clock.now(), e.clock.now().Add(time.Minute))
	if err != nil {
		e.Fatal(err)
	}
	p := ledger.Progress{KeysDestroyed: 4, ObjectsDeleted: 5, VersionsDeleted: 6, Settled: true, Swept: true}
	if err := e.inner.Finish(e.t.Context(), job.Lease, p, e.clock.now(), []ledger.Entry{e.entry(evidence.StepErased, p)}); err != nil {
		e.Fatal(err)
	}
}

func (e *erasing) certificate() []byte {
	e.Helper()
	b, err := e.certifier.Certificate(e.t.Context(), "acme", e.id, planDigest)
	if err != nil {
		e.Fatal(err)
	}
	return b
}

func (e *erasing) key() string {
	e.Helper()
	key, err := e.Verifier(e.t.Context())
	if err != nil {
		e.Fatal(err)
	}
	return key
}

// certified is an erasure with its certificate, in a log of some size.
func certified(t *testing.T, refs ...blobd.Ref) (*erasing, []byte) {
	e := newErasing(t, refs...)
	e.append(9)
	e.fence()
	e.finish()
	e.append(4)
	e.drain(e.process)
	return e, e.certificate()
}

// TestACertificateIsGivenFromTheVerifiedStateOnly: not while the erasure runs,
// not before the log has it, not before what the log signed is published.
func TestACertificateIsGivenFromTheVerifiedStateOnly(t *testing.T) {
	e := newErasing(t)
	refused := func(what string, want error) {
		t.Helper()
		if b, err := e.certifier.Certificate(t.Context(), "acme", e.id, planDigest); !errors.Is(err, want) || b != nil {
			t.Errorf("%s: %d bytes, %v, want %v", what, len(b), err, want)
		}
	}
	refused("unknown", blobd.ErrNotFound)
	e.fence()
	e.drain(e.process)
	refused("running", blobd.ErrConflict)
	e.finish()
	refused("erased and not in the log", blobd.ErrConflict)
	e.places[0].Fail("put", 0, storeWhen(false), errFault)
	if _, err := e.Step(t.Context()); !errors.Is(err, errFault) {
		t.Fatalf("the step: %v", err)
	}
	refused("in the log and not published", errFault)
	e.places[0].Heal()
	if _, err := evidence.VerifyCertificate(e.certificate(), e.key()); err != nil {
		t.Error(err)
	}
	if _, err := e.certifier.Certificate(t.Context(), "beta", e.id, planDigest); !errors.Is(err, blobd.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
}

// TestACertificateSaysWhatTheLogAndTheLedgerSay and nothing about a person.
func TestACertificateSaysWhatTheLogAndTheLedgerSay(t *testing.T) {
	ref := blobd.RefOf([]byte("sealed"))
	e, b := certified(t, ref)
	c, err := evidence.VerifyCertificate(b, e.key())
	if err != nil {
		t.Fatal(err)
	}
	s := c.Statement
	for what, ok := range map[string]bool{
		"erasure":  s.Erasure == e.id && s.Tenant == "acme" && s.Regime == "gdpr" && s.Tool == (evidence.Tool{Name: "blobd", Version: "v1.2.3"}),
		"scope":    s.Scope.Execution == "01020300000000000000000000000000" && len(s.Scope.Refs) == 1 && s.Scope.Refs[0] == ref.String(),
		"times":    s.FencedAt.Equal(now()) && s.ErasedAt.Equal(now().Add(90*time.Second)) && s.ReceivedAt.Equal(now().Add(-time.Hour)) && s.DueAt.Equal(now().Add(time.Hour)),
		"counts":   s.Keys == (evidence.ErasedKeys{Destroyed: 4, KEK: "acme", KEKVersion: 3}) && s.Objects == (evidence.ErasedStore{Deleted: 5, Versions: 6}),
		"plan":     s.Plan.Digest == planDigest && s.Plan.NotFound == 1,
		"method":   strings.Join(s.Method, " ") == "key_destroyed object_deleted",
		"residual": len(s.Residuals) == 2 && s.Residuals[1].What == "a file that nobody can reach" && s.Residuals[0].Until == nil,
		"limits":   strings.Contains(strings.Join(s.Limits, " "), "does not say that all data of a person was erased") && strings.Contains(strings.Join(s.Limits, " "), "keyed tag by which a repeat"),
		"place":    c.Log.Index == 11,
	} {
		if !ok {
			t.Errorf("%s: %s", what, b)
		}
	}
	for _, never := range []string{"free text", "ticket", "execution of", "the-actor"} {
		if bytes.Contains(b, []byte(never)) || bytes.Contains(c.Log.Leaf, []byte(never)) {
			t.Errorf("the certificate holds %q", never)
		}
	}
}

// TestTheSameFactsGiveTheSameBytes, however long the log grew since.
func TestTheSameFactsGiveTheSameBytes(t *testing.T) {
	e, b := certified(t)
	e.append(700)
	e.drain(e.process)
	if again := e.certificate(); !bytes.Equal(again, b) {
		t.Errorf("first\n%s\nthen\n%s", b, again)
	}
	e.certifier.Horizons = horizon{}
	if again := e.certificate(); !bytes.Equal(again, b) {
		t.Error("a horizon without a date says something")
	}
	date := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	e.certifier.Horizons = horizon{at: date, reached: true}
	c, err := evidence.VerifyCertificate(e.certificate(), e.key())
	if err != nil || c.Statement.Residuals[0].Until == nil || !c.Statement.Residuals[0].Until.Equal(date) || !c.Statement.Residuals[0].Reached {
		t.Errorf("with a horizon: %+v, %v", c.Statement.Residuals, err)
	}
	e.certifier.Horizons = horizon{err: errFault}
	if _, err := e.certifier.Certificate(t.Context(), "acme", e.id, planDigest); !errors.Is(err, errFault) {
		t.Errorf("a horizon that does not answer: %v", err)
	}
}

// TestALongEntryIsCertifiedToo: its leaf holds its hash, the certificate all of
// it.
func TestALongEntryIsCertifiedToo(t *testing.T) {
	var refs []blobd.Ref
	for i := range 1000 {
		refs = append(refs, blobd.RefOf(fmt.Append(nil, i)))
	}
	e, b := certified(t, refs...)
	c, err := evidence.VerifyCertificate(b, e.key())
	if err != nil || len(c.Log.Body) == 0 || len(c.Log.Leaf) > 200 || len(c.Statement.Scope.Refs) != 1000 {
		t.Fatalf("%v, leaf %d bytes, body %d bytes", err, len(c.Log.Leaf), len(c.Log.Body))
	}
	changed := bytes.Replace(b, []byte(refs[500].String()), []byte(refs[501].String()), 1)
	if _, err := evidence.VerifyCertificate(changed, e.key()); err == nil {
		t.Error("another ref verifies")
	}
}

// TestEveryFlippedByteIsFound in a certificate, whatever it is flipped to.
func TestEveryFlippedByteIsFound(t *testing.T) {
	e, b := certified(t)
	key := e.key()
	for i := range b {
		for _, mask := range []byte{1, 0x20, 0x80, 0xff} {
			changed := bytes.Clone(b)
			changed[i] ^= mask
			if _, err := evidence.VerifyCertificate(changed, key); !errors.Is(err, blobd.ErrInvalid) {
				t.Fatalf("byte %d of %q: %v", i, b[max(0, i-20):min(len(b), i+20)], err)
			}
		}
		cut := append(bytes.Clone(b[:i]), b[i+1:]...)
		if _, err := evidence.VerifyCertificate(cut, key); err == nil {
			t.Fatalf("without byte %d it verifies", i)
		}
	}
}

// TestOnlyWhiteSpaceIsFree in a certificate.
func TestOnlyWhiteSpaceIsFree(t *testing.T) {
	e, b := certified(t)
	var indented bytes.Buffer
	if err := json.Indent(&indented, b, "\t", "  "); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.VerifyCertificate(append(indented.Bytes(), " \r\n"...), e.key()); err != nil {
		t.Errorf("indented: %v", err)
	}
	text := string(b)
	for what, other := range map[string]string{
		"an unknown member":    strings.Replace(text, `"tenant":`, `"tenanu":"x","tenant":`, 1),
		"a member twice":       strings.Replace(text, `"tenant":"acme"`, `"tenant":"acme","tenant":"acme"`, 1),
		"another case":         strings.Replace(text, `"tenant":`, `"Tenant":`, 1),
		"an escape":            strings.Replace(text, `"acme"`, `"\u0061cme"`, 1),
		"another order":        strings.Replace(text, `{"log":`, `{"signature":null,"log":`, 1),
		"another number":       strings.Replace(text, `"destroyed":4`, `"destroyed":4.0`, 1),
		"another time":         strings.Replace(text, `"fencedAt":"2026-11-30T11:00:00Z"`, `"fencedAt":"2026-11-30T12:00:00+01:00"`, 1),
		"white space in text":  strings.Replace(text, `blobd erasure certificate`, `blobd  erasure certificate`, 1),
		"a second value":       text + "{}",
		"nothing":              "",
		"null":                 "null",
		"a byte order mark":    "\ufeff" + text,
		"a form feed":          "\f" + text,
		"a comment":            text + "//",
		"null for a list":      strings.Replace(text, `"exceptions":[]`, `"exceptions":null`, 1),
		"an absent list":       strings.Replace(text, `"exceptions":[],`, ``, 1),
		"a line in the base64": strings.Replace(text, `"leaf":"`, `"leaf":"\n`, 1),
	} {
		if other == text {
			t.Errorf("%s: the test changes nothing", what)
		}
		if _, err := evidence.VerifyCertificate([]byte(other), e.key()); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestBase64IsStrict: bits that no byte takes are no second spelling.
func TestBase64IsStrict(t *testing.T) {
	e, b := certified(t)
	var c evidence.Certificate
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	right := base64.StdEncoding.EncodeToString(c.Signature.Value) // 64 bytes end in "=="
	i := strings.Index(right, "==") - 1
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	loose := right[:i] + string(digits[strings.IndexByte(digits, right[i])|1]) + "=="
	if again, err := base64.StdEncoding.DecodeString(loose); err != nil || !bytes.Equal(again, c.Signature.Value) {
		t.Fatalf("the test's spelling is another signature: %v", err)
	}
	if _, err := evidence.VerifyCertificate(bytes.Replace(b, []byte(right), []byte(loose), 1), e.key()); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("a loose spelling: %v", err)
	}
}

// TestAnotherKeyDoesNotVerify, nor does a certificate that names it.
func TestAnotherKeyDoesNotVerify(t *testing.T) {
	e, b := certified(t)
	const other = "blobd/00112233445566778899aabbccddeeff+19d3bd9b+AbhHRSrQPH3W4mzMtfJ/RIQvpBVJJHDxkGQxs8gSBXFg"
	for _, key := range []string{other, "", "x", e.key() + "x", strings.ToUpper(e.key())} {
		if _, err := evidence.VerifyCertificate(b, key); !errors.Is(err, blobd.ErrInvalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := evidence.VerifyCertificate(b, " "+e.key()+"\n"); err != nil {
		t.Errorf("white space around the key: %v", err)
	}
}

// TestALedgerThatDisagreesWithItsLogGetsNoCertificate.
func TestALedgerThatDisagreesWithItsLogGetsNoCertificate(t *testing.T) {
	e, _ := certified(t)
	damaged := otherCounts{e.inner}
	log := evidence.NewLog(damaged, evidence.NewJournal(e.inner, e.inside[0]), e.keys, deployment)
	c := evidence.Certifier{Log: log, Erasures: e.inner, Version: "v1.2.3"}
	if b, err := c.Certificate(t.Context(), "acme", e.id, planDigest); !errors.Is(err, blobd.ErrCorrupt) || b != nil {
		t.Errorf("%d bytes, %v, want corrupt", len(b), err)
	}
}

// otherCounts is a ledger in which somebody changed an entry.
type otherCounts struct{ ledger.Ledger }

func (o otherCounts) Logged(ctx context.Context, q ledger.LogQuery) ([]ledger.LoggedEntry, error) {
	es, err := o.Ledger.Logged(ctx, q)
	for i := range es {
		es[i].Body = bytes.Replace(es[i].Body, []byte(`"keysDestroyed":4`), []byte(`"keysDestroyed":9`), 1)
	}
	return es, err
}

// TestThePDFIsMadeOfTheJSONAlone and says the same each time.
func TestThePDFIsMadeOfTheJSONAlone(t *testing.T) {
	e, b := certified(t, blobd.RefOf([]byte("sealed")))
	first, err := evidence.PDF(b)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	again, err := evidence.PDF(indented.Bytes())
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("two documents of one certificate: %v", err)
	}
	if !bytes.HasPrefix(first, []byte("%PDF-")) || !bytes.Contains(first, []byte("%%EOF")) {
		t.Error("no PDF")
	}
	for _, want := range []string{e.id, "Certificate of erasure", "key_destroyed, object_deleted", "gdpr", "a file that nobody can reach"} {
		if !bytes.Contains(first, []byte(want)) {
			t.Errorf("the document does not say %q", want)
		}
	}
	if _, err := evidence.PDF([]byte("{}")); !errors.Is(err, blobd.ErrInvalid) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestCertificateFaults: what does not answer is no certificate.
func TestCertificateFaults(t *testing.T) {
	e, _ := certified(t)
	for _, op := range []string{"erasure", "logged", "logstate"} {
		for nth := 1; nth <= 3; nth++ {
			e.mend()
			e.ledger.Fail(op, nth, ledgerfaulty.Before, errFault)
			c := evidence.Certifier{Log: e.rig.process().Log, Erasures: e.ledger, Version: "v1.2.3"}
			b, err := c.Certificate(t.Context(), "acme", e.id, planDigest)
			if e.ledger.Pending() == 0 && (!errors.Is(err, errFault) || b != nil) {
				t.Errorf("%s %d fails: %d bytes, %v", op, nth, len(b), err)
			}
		}
	}
}
