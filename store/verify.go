package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
)

// VerifyOptions tune Verify.
type VerifyOptions struct {
	// Repair collects objects without a row that are older than the put margin.
	Repair bool
	// Progress is told how many rows and objects were looked at, if set.
	Progress func(looked int64)
}

// Report is what Verify found.
type Report struct {
	Live     int64 // live rows that opened
	Erased   int64 // tombstones
	Erasing  int64 // rows of an erased execution whose job still runs
	Missing  int64 // rows entered as missing, waiting for an operator
	Lost     int64 // losses accepted
	Other    int64 // superseded, expired and collected rows
	Objects  int64 // sealed objects in the store
	Orphans  int64 // objects without a row: unreadable, and no fault
	Repaired int64 // orphans collected
	Faults   []Fault
	// MissingRows are the first of the Missing, at most maxListed.
	MissingRows []ledger.Position
}

// Fault is a promise that does not hold.
type Fault struct {
	Execution blobd.ExecutionTag
	Ref       blobd.Ref
	Problem   string // one of the Problem words
}

// The problems that Verify tells apart.
const (
	ProblemObjectMissing = "object_missing"
	ProblemKeyMissing    = "key_missing"
	ProblemCorrupt       = "corrupt"
	ProblemLeftover      = "leftover" // an object is there whose erasure says erased
)

// maxListed bounds what a report lists of what is no fault.
const maxListed = 1000

// OK reports whether every live row opens and nothing erased is left.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// verifyPage is how many rows are looked at in one step.
const verifyPage = 256

// Verify opens every live row from the store itself, and looks at every object
// for its row. It is the judge of the crash tests: run it while nothing writes.
// An error means that it could not look; what it found is in the report.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (Report, error) {
	v := &verifier{Store: s, options: o, erasing: make(map[blobd.ExecutionTag]bool), dropped: make(map[ledger.Position]bool)}
	if err := v.openErasures(ctx); err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	if err := v.rows(ctx); err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	if err := v.objects(ctx); err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	return v.report, nil
}

type verifier struct {
	*Store
	options VerifyOptions
	report  Report
	looked  int64
	erasing map[blobd.ExecutionTag]bool // an erasure in it still runs; a tenant by its tag
	dropped map[ledger.Position]bool    // an erasure that only closed its scope still runs
}

// openErasures learns where objects may still be on their way out.
func (v *verifier) openErasures(ctx context.Context) error {
	for after := ""; ; {
		tenants, err := v.Ledger.ListTenants(ctx, after, listPage)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if err := v.openErasuresOf(ctx, t.ID); err != nil {
				return err
			}
			after = t.ID
		}
		if len(tenants) < listPage {
			return nil
		}
	}
}

func (v *verifier) openErasuresOf(ctx context.Context, tenant string) error {
	for _, state := range []ledger.ErasureState{ledger.ErasureRunning, ledger.ErasureDeferred} {
		err := v.eachErasure(ctx, tenant, state, func(e *ledger.Erasure) error {
			if e.Closing {
				return v.openRows(ctx, e.ID)
			}
			v.erasing[e.Scope.Tag] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// openRows learns which rows an erasure dropped whose objects may still be there.
func (v *verifier) openRows(ctx context.Context, erasure string) error {
	for after := (ledger.Position{}); ; {
		page, err := v.Ledger.DroppedRows(ctx, erasure, after, verifyPage)
		if err != nil {
			return err
		}
		for _, at := range page {
			v.dropped[at], after = true, at
		}
		if len(page) < verifyPage {
			return nil
		}
	}
}

func (v *verifier) rows(ctx context.Context) error {
	for after := (ledger.Position{}); ; {
		page, err := v.Ledger.ScanBlobs(ctx, after, verifyPage)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := v.row(ctx, row); err != nil {
				return err
			}
			after = row.Position
			v.step()
		}
		if len(page) < verifyPage {
			return nil
		}
	}
}

func (v *verifier) row(ctx context.Context, row ledger.ScannedBlob) error {
	switch row.Blob.State {
	case ledger.BlobErased:
		v.report.Erased++
	case ledger.BlobMissing:
		v.report.Missing++
		if len(v.report.MissingRows) < maxListed {
			v.report.MissingRows = append(v.report.MissingRows, row.Position)
		}
	case ledger.BlobLost:
		v.report.Lost++
	case ledger.BlobLive:
		if row.ExecutionState == ledger.ExecutionErased {
			v.report.Erasing++
			return nil
		}
		return v.opens(ctx, row)
	default:
		v.report.Other++
	}
	return nil
}

// opens reads the object from the store, never from memory.
func (v *verifier) opens(ctx context.Context, row ledger.ScannedBlob) error {
	t, err := v.Tenant(ctx, row.Tenant)
	if err != nil {
		return err
	}
	v.cache.remove(v.blobName(t, row.Tag, row.Ref))
	x := ledger.Execution{Tag: row.Tag, Tenant: row.Tenant, ID: row.ExecutionID, State: row.ExecutionState, Key: row.Key}
	text, _, err := v.Open(ctx, t, x, &row.Blob)
	switch {
	case err == nil:
		text.Wipe()
		v.report.Live++
	case row.Blob.Expired(v.Now()) && (errors.Is(err, blobd.ErrKeyMissing) || errors.Is(err, blobd.ErrMissing)):
		v.report.Other++ // a ledger put back from before a sweep: reads are null, and the next sweep takes it
	case errors.Is(err, blobd.ErrKeyMissing):
		v.fault(row.Position, ProblemKeyMissing)
	case errors.Is(err, blobd.ErrMissing):
		v.fault(row.Position, ProblemObjectMissing)
	case errors.Is(err, blobd.ErrCorrupt):
		v.fault(row.Position, ProblemCorrupt)
	default:
		return err
	}
	return nil
}

func (v *verifier) objects(ctx context.Context) error {
	return v.eachPage(ctx, func(page []backends.Object) error {
		for _, o := range page {
			if p, ok := backends.ParseBlobName(o.Name); ok {
				if err := v.object(ctx, o, p); err != nil {
					return err
				}
			}
			v.step()
		}
		return nil
	})
}

func (v *verifier) object(ctx context.Context, o backends.Object, name backends.BlobNameParts) error {
	p := ledger.Position{Tag: name.Execution, Ref: name.Ref}
	v.report.Objects++
	view, err := v.Ledger.Lookup(ctx, p.Tag, []blobd.Ref{p.Ref})
	if err != nil {
		return err
	}
	switch row := view.Blobs[0]; {
	case row == nil:
		v.report.Orphans++
		return v.collect(ctx, o, p)
	case row.State == ledger.BlobCollected:
		v.report.Orphans++
		return v.remove(ctx, o)
	case row.State == ledger.BlobErased && !v.dropped[p] && !v.erasing[p.Tag] && !v.erasingTenant(name.TenantTag), // its erasure says erased
		row.State == ledger.BlobExpired && row.Class == "": // and so does its sweep
		v.fault(p, ProblemLeftover)
	}
	return nil
}

// collect first inserts the row, so that a late commit of this ref conflicts
// instead of acknowledging what is gone, then deletes.
func (v *verifier) collect(ctx context.Context, o backends.Object, p ledger.Position) error {
	now := v.Now().UTC()
	if !v.options.Repair || now.Sub(o.Modified) < 2*v.PutMargin {
		return nil
	}
	err := v.Ledger.Collect(ctx, p, now)
	if errors.Is(err, blobd.ErrConflict) {
		return nil // its commit arrived
	}
	if err != nil {
		return err
	}
	return v.remove(ctx, o)
}

func (v *verifier) remove(ctx context.Context, o backends.Object) error {
	if !v.options.Repair {
		return nil
	}
	if _, err := v.Objects.Erase(ctx, backends.Scope{Names: []string{o.Name}}); err != nil {
		return err
	}
	v.report.Repaired++
	return nil
}

func (v *verifier) fault(p ledger.Position, problem string) {
	v.report.Faults = append(v.report.Faults, Fault{p.Tag, p.Ref, problem})
}

func (v *verifier) step() {
	v.looked++
	if v.options.Progress != nil {
		v.options.Progress(v.looked)
	}
}

// AcceptLoss turns live or missing rows whose objects are gone into nulls: an
// operator's decision, recorded as evidence.
func (s *Store) AcceptLoss(ctx context.Context, tenant, executionID string, refs []blobd.Ref, actor string) error {
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return fmt.Errorf("accept a loss: %w", err)
	}
	tag := executionTag(t, executionID)
	for _, ref := range refs {
		if err := s.acceptLoss(ctx, t, tag, ref, actor, s.Now().UTC()); err != nil {
			return fmt.Errorf("accept a loss: %w", err)
		}
	}
	return nil
}

// AcceptMissing accepts the loss of every row that is entered as missing, and
// returns how many there were: after a rollback their executions are known by
// their tags alone.
func (s *Store) AcceptMissing(ctx context.Context, actor string) (int, error) {
	accepted := 0
	for after := (ledger.Position{}); ; {
		page, err := s.Ledger.ScanBlobs(ctx, after, verifyPage)
		if err != nil {
			return accepted, fmt.Errorf("accept a loss: %w", err)
		}
		for _, row := range page {
			after = row.Position
			if row.Blob.State != ledger.BlobMissing {
				continue
			}
			t := ledger.Tenant{}
			if row.Tenant != "" {
				if t, err = s.Tenant(ctx, row.Tenant); err != nil {
					return accepted, fmt.Errorf("accept a loss: %w", err)
				}
			}
			if err := s.acceptLoss(ctx, t, row.Tag, row.Ref, actor, s.Now().UTC()); err != nil {
				return accepted, fmt.Errorf("accept a loss: %w", err)
			}
			accepted++
		}
		if len(page) < verifyPage {
			return accepted, nil
		}
	}
}

func (s *Store) acceptLoss(ctx context.Context, t ledger.Tenant, tag blobd.ExecutionTag, ref blobd.Ref, actor string, at time.Time) error {
	entry, err := s.scribe(t).Loss(at, tag, ref, actor)
	if err != nil {
		return err
	}
	if err := s.Ledger.AcceptLoss(ctx, tag, ref, at, entry); err != nil {
		return &blobd.RefsError{Refs: []blobd.Ref{ref}, Err: err}
	}
	return nil
}

// AcceptGap accepts that puts of which neither ledger nor store knows may be
// lost: refs without a row are null again.
func (s *Store) AcceptGap(ctx context.Context) error {
	return s.recoveryStep(ctx, ledger.RecoveryNone, "gap accepted", 0, 0)
}
