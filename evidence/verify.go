package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// VerifyCertificate checks a certificate against the log's verifier, with
// nothing else at hand: its spelling, its signature, the checkpoint's signature,
// the inclusion of its entry, and that the entry says what the statement says.
// Any flaw is ErrInvalid.
func VerifyCertificate(b []byte, verifier string) (Certificate, error) {
	c, err := ParseCertificate(b)
	if err != nil {
		return Certificate{}, err
	}
	for _, check := range []func(Certificate, string) error{checkSignature, checkInclusion, checkStatement} {
		if err := check(c, verifier); err != nil {
			return Certificate{}, err
		}
	}
	return c, nil
}

func flaw(format string, args ...any) error {
	return fmt.Errorf("certificate: %s: %w", fmt.Sprintf(format, args...), blobd.ErrInvalid)
}

func checkSignature(c Certificate, verifier string) error {
	verifier = strings.TrimSpace(verifier)
	if c.Signature.Algorithm != signatureAlgorithm || c.Signature.Key != verifier {
		return flaw("signed with another key")
	}
	public, err := publicKey(verifier)
	if err != nil {
		return err
	}
	message, err := c.signed()
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, message, c.Signature.Value) {
		return flaw("the signature does not verify")
	}
	return nil
}

// ed25519Note is the algorithm's number in front of a verifier's key.
const ed25519Note = 1

// publicKey takes the key out of a verifier whose own hash fits.
func publicKey(verifier string) (ed25519.PublicKey, error) {
	if _, err := ParseVerifier(verifier); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(verifier, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(key) != 1+ed25519.PublicKeySize || key[0] != ed25519Note {
		return nil, flaw("not a verifier with an Ed25519 key")
	}
	return key[1:], nil
}

func checkInclusion(c Certificate, verifier string) error {
	v, err := ParseVerifier(verifier)
	if err != nil {
		return err
	}
	checkpoint, err := OpenCheckpoint([]byte(c.Log.Checkpoint), v)
	if err != nil {
		return err
	}
	proof := make(tlog.RecordProof, len(c.Log.Proof))
	for i, h := range c.Log.Proof {
		if len(h) != tlog.HashSize {
			return flaw("a hash of the proof has %d bytes", len(h))
		}
		proof[i] = tlog.Hash(h)
	}
	if c.Log.Index < 0 || c.Log.Index >= checkpoint.Size {
		return flaw("entry %d is not below the checkpoint's %d", c.Log.Index, checkpoint.Size)
	}
	if err := tlog.CheckRecord(proof, checkpoint.Size, checkpoint.Root, c.Log.Index, tlog.RecordHash(c.Log.Leaf)); err != nil {
		return flaw("the proof does not lead to the checkpoint")
	}
	if c.Statement.Log != v.Name() {
		return flaw("the statement names another log")
	}
	return nil
}

// checkStatement compares the statement with the entry that the log holds.
func checkStatement(c Certificate, _ string) error {
	leaf, err := ParseLeaf(c.Log.Leaf, c.Log.Body)
	if err != nil {
		return err
	}
	var step ErasureStep
	if err := json.Unmarshal(leaf.Body, &step); err != nil {
		return flaw("the entry is not a step of an erasure")
	}
	s := c.Statement
	for what, agree := range map[string]bool{
		"type":       s.Type == CertificateType && versionFits(s, step),
		"entry":      leaf.Kind == ledger.EntryErasure && outcomeFits(s, step),
		"tenant":     leaf.Tenant == s.Tenant && s.Keys.KEK == s.Tenant,
		"erasure":    step.Erasure == s.Erasure && s.Erasure != "",
		"scope":      scopeFits(s.Scope, step),
		"time":       leaf.At.Equal(s.ErasedAt),
		"keys":       step.KeysDestroyed == s.Keys.Destroyed && sameTime(step.KEKDestroyedAt, s.Keys.KEKDestroyedAt),
		"objects":    step.ObjectsDeleted == s.Objects.Deleted && step.VersionsDeleted == s.Objects.Versions,
		"residuals":  residualsTold(s.Residuals, step.Residuals),
		"exceptions": exceptionsFit(s, step),
		"delta":      sameDelta(s.Delta, step.Delta),
	} {
		if !agree {
			return flaw("the statement's %s is not what the log's entry says", what)
		}
	}
	return nil
}

func sameDelta(a, b *Delta) bool { return a == b || a != nil && b != nil && *a == *b }

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// residualsTold reports whether a statement names each residual of the entry.
func residualsTold(stated []Residual, told []string) bool {
	for _, what := range told {
		if !slices.ContainsFunc(stated, func(r Residual) bool { return r.What == what }) {
			return false
		}
	}
	return true
}

// versionFits reports whether a statement has the version of its entry, and no member
// of a later one.
func versionFits(s Statement, step ErasureStep) bool {
	switch {
	case step.Form == "":
		return s.Version == 1 && s.Outcome == "" && s.Details == nil && s.Delta == nil
	case step.Delta == nil:
		return s.Version == 2 && s.Delta == nil
	}
	return s.Version == CertificateVersion
}

func outcomeFits(s Statement, step ErasureStep) bool {
	switch step.Step {
	case StepErased, StepDeferred, StepDenied:
		return s.Outcome == outcome(step) || s.Outcome == "" && s.Version == 1 && step.Step == StepErased
	}
	return false
}

func scopeFits(s CertifiedScope, step ErasureStep) bool {
	ours, told := s.ScopeStep, step.ScopeStep
	before := sameTime(ours.CapturedBefore, told.CapturedBefore)
	ours.CapturedBefore, told.CapturedBefore = nil, nil
	whole := step.WholeTenant == (step.Execution == "")
	if step.Form != "" {
		whole = step.WholeTenant == (step.Form == FormName(ledger.ScopeTenant))
	}
	return before && whole && ours == told && slices.Equal(step.Refs, s.Refs) && step.WholeTenant == s.WholeTenant
}

// exceptionsFit reports whether the codes are those of the details, and what the entry
// counts as kept is among them with that count.
func exceptionsFit(s Statement, step ErasureStep) bool {
	if s.Version == 1 {
		return true
	}
	counts := make(map[string]int64, len(s.Details))
	for i, x := range s.Details {
		if i >= len(s.Exceptions) || s.Exceptions[i] != x.Code {
			return false
		}
		counts[x.Code] = x.Count
	}
	kept := outcome(step) == OutcomePartial || outcome(step) == OutcomeDeferred
	_, denied := counts[step.Code]
	return len(s.Exceptions) == len(s.Details) && len(counts) == len(s.Details) &&
		counts[CodeStoreRefused] == step.Failed && (step.Step != StepDenied || denied) &&
		(!kept || counts[CodeLegalHold] == step.Held && counts[CodeLegalFloor] == step.Floor)
}
