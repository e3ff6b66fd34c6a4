package evidence

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Horizons tells when the backups of a ledger become useless.
type Horizons interface {
	// Horizon returns the date from which no older backup of the ledger can open
	// what the erasure erased, and whether it was reached: whether the KEK's
	// versions that this takes are destroyed. A zero date: none can be given.
	Horizon(ctx context.Context, e ledger.Erasure) (at time.Time, reached bool, err error)
}

// Certifier makes certificates. The same facts always give the same bytes.
type Certifier struct {
	Log      *Log
	Erasures ledger.Erasures
	Horizons Horizons // nil: no date is known
	Version  string   // of this program
}

// Certificate returns the certificate of a tenant's erasure, as canonical JSON.
// planDigest is the plan's, as the API tells it, of an erasure whose row has none. An
// unknown erasure is ErrNotFound; one that is neither erased, deferred nor denied, or
// that no published checkpoint covers yet, is ErrConflict.
func (c Certifier) Certificate(ctx context.Context, tenant, erasure, planDigest string) ([]byte, error) {
	e, err := c.Erasures.Erasure(ctx, tenant, erasure)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	last := lastStep(e.State)
	if last == "" {
		return nil, fmt.Errorf("certificate: the erasure is %s: %w", e.State, blobd.ErrConflict)
	}
	told, err := c.told(ctx, e, last)
	if err != nil {
		return nil, err
	}
	if e.PlanDigest != ([32]byte{}) {
		planDigest = hex.EncodeToString(e.PlanDigest[:])
	}
	included, key, err := c.include(ctx, told.last)
	if err != nil {
		return nil, err
	}
	statement, err := c.statement(ctx, e, &told, planDigest)
	if err != nil {
		return nil, err
	}
	return c.sign(ctx, Certificate{Log: included, Statement: statement}, key)
}

// include proves the entry against the oldest checkpoint that covers it, so that
// a certificate does not change when the log grows.
func (c Certifier) include(ctx context.Context, e ledger.LoggedEntry) (Inclusion, ledger.LogKey, error) {
	published, err := c.Log.Checkpoint(ctx)
	if err != nil {
		return Inclusion{}, ledger.LogKey{}, err
	}
	if e.Index >= published.Size {
		return Inclusion{}, ledger.LogKey{}, fmt.Errorf("certificate: no checkpoint covers the erasure yet: %w", blobd.ErrConflict)
	}
	state, err := c.Log.ledger.LogState(ctx, e.Index+1)
	if err != nil {
		return Inclusion{}, ledger.LogKey{}, fmt.Errorf("certificate: %w", err)
	}
	checkpoint, err := openState(state)
	if err != nil {
		return Inclusion{}, ledger.LogKey{}, err
	}
	proof, err := c.Log.include(ctx, checkpoint, e.Index)
	if err != nil {
		return Inclusion{}, ledger.LogKey{}, err
	}
	out := Inclusion{Index: e.Index, Leaf: LeafOf(e.Entry), Proof: [][]byte{}, Checkpoint: string(checkpoint.Note)}
	if _, err := ParseLeaf(out.Leaf, nil); err != nil { // it holds only the body's hash
		out.Body = e.Body
	}
	for _, h := range proof.Hashes {
		out.Proof = append(out.Proof, h[:])
	}
	return out, *state.Key, nil
}

func (c Certifier) statement(ctx context.Context, e ledger.Erasure, t *told, planDigest string) (Statement, error) {
	last := t.step
	residuals, err := c.residuals(ctx, e, last)
	if err != nil {
		return Statement{}, err
	}
	s := Statement{
		Type: CertificateType, Version: 1, Erasure: e.ID, Log: c.Log.origin, Tenant: e.Scope.Tenant,
		Tool:  Tool{"blobd", c.Version},
		Scope: CertifiedScope{last.ScopeStep, last.Refs, last.WholeTenant}, Regime: e.Regime,
		ReceivedAt: dated(e.ReceivedAt), DueAt: dated(e.DueAt), FencedAt: t.nullSince(e).UTC(), ErasedAt: t.last.At.UTC(),
		RequestedBy: t.requestedBy, ApprovedBy: t.approvedBy,
		Plan: CertifiedPlan{
			planDigest, e.Plan.Executions, e.Plan.Blobs, e.Plan.Bytes, e.Plan.AlreadyErased, e.Plan.NotFound,
			e.Plan.Held, e.Plan.Floor, e.Plan.Shared,
		},
		Method:     []string{"key_destroyed", "object_deleted"},
		Keys:       ErasedKeys{last.KeysDestroyed, e.Scope.Tenant, e.Wrap, last.KEKDestroyedAt},
		Objects:    ErasedStore{last.ObjectsDeleted, last.VersionsDeleted},
		Exceptions: []string{}, Residuals: residuals, Limits: limits(last),
	}
	if last.Form != "" {
		s.Version, s.Outcome, s.Details = 2, outcome(last), t.exceptions(e)
		for _, x := range s.Details {
			s.Exceptions = append(s.Exceptions, x.Code)
		}
	}
	if last.Delta != nil {
		s.Version, s.Delta = CertificateVersion, last.Delta
	}
	if o := outcome(last); (o == OutcomeDeferred || o == OutcomeDenied) && last.KeysDestroyed == 0 {
		s.Method = []string{}
	}
	s.Verification = verification(last)
	if last.KEKDestroyedAt != nil {
		s.Method = append(s.Method, "kek_destroyed")
		s.Verification = append(s.Verification, "the tenant's KEK was destroyed in every version, and the tenant never gets another one")
	}
	return s, nil
}

// verification is what was looked at, for each outcome.
func verification(last ErasureStep) []string {
	switch outcome(last) {
	case OutcomeErased:
		return []string{
			"every wrapped key in scope was dropped and the ledger's own files were settled",
			"every version, marker and unfinished upload in scope was deleted, and a listing after the put margin found none",
			"every read in scope has been null since fencedAt",
		}
	case OutcomePartial:
		return []string{
			"the wrapped key of every blob that is counted as destroyed was dropped and the ledger's own files were settled",
			"every version, marker and unfinished upload of those blobs was deleted, and a listing after the put margin found none",
			"every read in scope has been null since fencedAt, also of what is protected and still stored",
		}
	case OutcomeDeferred:
		return []string{"every read in scope has been null since fencedAt; all of it is protected and still stored"}
	}
	return []string{"nothing in scope was erased by this erasure beyond what is counted, and what is left can be read again"}
}

func dated(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// backups is the residual that every erasure has: what the horizon ends.
const backups = "copies of the ledger made before the erasure, which hold wrapped keys, together with copies of the object store and a key service that still has the KEK's version"

func (c Certifier) residuals(ctx context.Context, e ledger.Erasure, step ErasureStep) ([]Residual, error) {
	out := []Residual{{What: backups}}
	if c.Horizons != nil && (e.Wrap != 0 || e.Scope.WholeTenant) {
		at, reached, err := c.Horizons.Horizon(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("certificate: horizon: %w", err)
		}
		out[0].Until, out[0].Reached = dated(at), reached
	}
	for _, what := range step.Residuals {
		out = append(out, Residual{What: what})
	}
	return out, nil
}

// limits are what a certificate does not say.
func limits(step ErasureStep) []string {
	fence := "the execution's fence"
	switch {
	case step.WholeTenant:
		fence = "the tenant's fence and those of its executions"
	case step.Form == FormName(ledger.ScopeSubjects):
		fence = "a suppression of the keyed hashes of who was named"
	case step.Form == FormName(ledger.ScopeClass):
		fence = "the executions themselves"
	case outcome(step) != OutcomeErased:
		fence = "the execution itself"
	}
	out := []string{
		"It speaks of blobd's ledger, object store and keys, and of nothing that others copied out of them.",
		"It does not say that all data of a person was erased: only what is in its scope was.",
		"Digests of erased texts that a runtime keeps in its own log are not blobd's.",
		"What stays: " + fence + ", tombstones (ref and time), the erasure's own record, and entries of this log with refs, keyed tags and counts.",
		"Snapshots of the key service may hold destroyed KEK versions for as long as they are kept.",
	}
	if step.Form == FormName(ledger.ScopeSubjects) {
		out = append(out, "It covers what was tagged with the person when it was stored. Texts that name the person and were not tagged, or were tagged with another identifier, are not covered.")
	}
	if outcome(step) != OutcomeErased {
		out = append(out, "What the exceptions count as held or under a legal floor is not erased.")
	}
	if len(step.Refs) > 0 || step.Form != "" && step.Form != FormName(ledger.ScopeExecution) && !step.WholeTenant {
		out = append(out, "The keyed tag by which a repeat of an erased text is refused is kept until its execution is erased.")
	}
	return out
}

func (c Certifier) sign(ctx context.Context, cert Certificate, key ledger.LogKey) ([]byte, error) {
	s, err := openSigner(ctx, c.Log.keys, c.Log.origin, key)
	if err != nil {
		return nil, err
	}
	defer s.wipe()
	message, err := cert.signed()
	if err != nil {
		return nil, err
	}
	cert.Signature = Signature{signatureAlgorithm, key.Verifier, ed25519.Sign(s.key, message)}
	b, err := cert.encode()
	if err != nil {
		return nil, err
	}
	if _, err := VerifyCertificate(b, key.Verifier); err != nil { // what would not verify is not given out
		return nil, errors.Join(fmt.Errorf("certificate: the log and the ledger disagree: %w", blobd.ErrCorrupt), err)
	}
	return b, nil
}
