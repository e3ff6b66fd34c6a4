package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
)

// Measures of the page, in millimetres.
const (
	pageMargin = 18.0
	labelWidth = 48.0
	lineHeight = 5.0
)

// PDF renders a certificate for people. The same bytes always give the same
// document. The JSON is what verifies: the document names its SHA-256.
func PDF(certificate []byte) ([]byte, error) {
	c, err := ParseCertificate(certificate)
	if err != nil {
		return nil, err
	}
	spelled, err := c.encode()
	if err != nil {
		return nil, err
	}
	p := newPage(c.Statement)
	p.heading("Certificate of erasure")
	p.statement(c.Statement)
	p.section("What may be left")
	for _, r := range c.Statement.Residuals {
		p.item(residualText(r))
	}
	p.section("Limits of this statement")
	for _, l := range c.Statement.Limits {
		p.item(l)
	}
	p.proof(c, sha256.Sum256(spelled))
	var out bytes.Buffer
	if err := p.doc.Output(&out); err != nil {
		return nil, fmt.Errorf("certificate: pdf: %w", err)
	}
	return out.Bytes(), nil
}

func residualText(r Residual) string {
	switch {
	case r.Until == nil:
		return r.What + " (no date is known)"
	case r.Reached:
		return r.What + " (of no use since " + when(r.Until) + ")"
	}
	return r.What + " (until " + when(r.Until) + ", as planned)"
}

type page struct{ doc *fpdf.Fpdf }

func newPage(s Statement) page {
	doc := fpdf.New("P", "mm", "A4", "")
	doc.SetCreationDate(s.ErasedAt)
	doc.SetModificationDate(s.ErasedAt)
	doc.SetCatalogSort(true)
	doc.SetCompression(false)
	doc.SetProducer("blobd", true)
	doc.SetTitle("Certificate of erasure "+s.Erasure, true)
	doc.SetMargins(pageMargin, pageMargin, pageMargin)
	doc.SetAutoPageBreak(true, pageMargin)
	doc.AddPage()
	return page{doc}
}

// plainText keeps to what the fonts of every reader have.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

func (p page) heading(s string) {
	p.doc.SetFont("Helvetica", "B", 18)
	p.doc.MultiCell(0, 10, plainText(s), "", "L", false)
}

func (p page) section(s string) {
	p.doc.Ln(3)
	p.doc.SetFont("Helvetica", "B", 12)
	p.doc.MultiCell(0, 7, plainText(s), "", "L", false)
}

func (p page) item(s string) {
	p.doc.SetFont("Helvetica", "", 9)
	p.doc.MultiCell(0, lineHeight, "- "+plainText(s), "", "L", false)
}

// field is one line with its label; an empty value is left out.
func (p page) field(label, value string) {
	if value == "" {
		return
	}
	p.doc.SetFont("Helvetica", "B", 9)
	p.doc.CellFormat(labelWidth, lineHeight, plainText(label), "", 0, "L", false, 0, "")
	p.doc.SetFont("Courier", "", 9)
	p.doc.MultiCell(0, lineHeight, plainText(value), "", "L", false)
}

func (p page) statement(s Statement) {
	p.field("Erasure", s.Erasure)
	p.field("Tenant", s.Tenant)
	p.field("Outcome", s.Outcome)
	p.scope(s.Scope)
	p.field("Regime", s.Regime)
	p.field("Received", when(s.ReceivedAt))
	p.field("Due", when(s.DueAt))
	p.field("Null for every read since", when(&s.FencedAt))
	p.field(endedLabel(s.Outcome), when(&s.ErasedAt))
	p.field("Requested by (keyed tag)", s.RequestedBy)
	p.field("Approved by", strings.Join(s.ApprovedBy, " "))
	p.section("What was done")
	p.field("Plan", s.Plan.Digest)
	p.field("Executions", fmt.Sprint(s.Plan.Executions))
	p.field("Blobs", fmt.Sprint(s.Plan.Blobs))
	p.field("Readable bytes", fmt.Sprint(s.Plan.Bytes))
	p.field("Erased before", fmt.Sprint(s.Plan.AlreadyErased))
	p.field("Not found", fmt.Sprint(s.Plan.NotFound))
	p.count("Held, when planned", s.Plan.Held)
	p.count("Legal floor, when planned", s.Plan.Floor)
	p.count("Shared with others", s.Plan.Shared)
	if d := s.Delta; d != nil {
		p.field("Beyond the plan", fmt.Sprintf("executions %+d, blobs %+d, readable bytes %+d", d.Executions, d.Blobs, d.Bytes))
	}
	p.field("Method, per blob", strings.Join(s.Method, ", "))
	p.field("Keys destroyed", fmt.Sprint(s.Keys.Destroyed))
	p.field("KEK and version", fmt.Sprintf("%s, %d", s.Keys.KEK, s.Keys.KEKVersion))
	p.field("KEK destroyed", when(s.Keys.KEKDestroyedAt))
	p.field("Objects deleted", fmt.Sprint(s.Objects.Deleted))
	p.field("Versions deleted", fmt.Sprint(s.Objects.Versions))
	if len(s.Details) == 0 {
		p.field("Exceptions", strings.Join(s.Exceptions, ", "))
	}
	for _, x := range s.Details {
		p.field("Exception", exceptionText(x))
	}
	p.section("What was verified")
	for _, v := range s.Verification {
		p.item(v)
	}
}

func (p page) scope(s CertifiedScope) {
	p.field("Execution (keyed tag)", s.Execution)
	switch {
	case s.WholeTenant:
		p.field("Scope", "the whole tenant")
	case s.SubjectsTag != "":
		p.field("Scope", fmt.Sprintf("what was tagged with a person, by %d identifiers", s.Subjects))
		p.field("Identifiers (keyed tag)", s.SubjectsTag)
	case s.CapturedBefore != nil:
		p.field("Scope", "class "+s.Class+", captured before "+when(s.CapturedBefore))
	case s.Class != "":
		p.field("Scope", "class "+s.Class)
	}
	p.field("Refs", strings.Join(s.Refs, " "))
}

// count is a field that is left out where it is 0.
func (p page) count(label string, n int64) {
	if n > 0 {
		p.field(label, fmt.Sprint(n))
	}
}

func endedLabel(outcome string) string {
	switch outcome {
	case "", OutcomeErased:
		return "Erased"
	}
	return "As of"
}

func exceptionText(x Exception) string {
	text := x.Code
	if x.Count > 0 {
		text += fmt.Sprintf(", %d", x.Count)
	}
	if x.From != nil {
		text += ", from " + when(x.From)
	}
	if x.Until != nil {
		text += " until " + when(x.Until)
	}
	return text
}

func (p page) proof(c Certificate, sum [sha256.Size]byte) {
	p.section("Proof")
	p.item("The certificate is the JSON document with the SHA-256 below (of its canonical form). It is verified without a server: blobd evidence verify --key KEY CERTIFICATE")
	p.field("SHA-256 of the JSON", hex.EncodeToString(sum[:]))
	p.field("Key", c.Signature.Key)
	p.field("Entry of the log", fmt.Sprint(c.Log.Index))
	p.field("Log", c.Statement.Log)
	lines := strings.Split(c.Log.Checkpoint, "\n")
	if len(lines) > 2 {
		p.field("Tree size, root", lines[1]+", "+lines[2])
	}
	p.field("Made by", c.Statement.Tool.Name+" "+c.Statement.Tool.Version)
}

func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
