package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Identity implements ledger.Deployment.
func (l *Ledger) Identity(ctx context.Context, id string) (ledger.Identity, error) {
	if _, err := blobd.ParseExecutionTag(id); err != nil { // the same spelling: 32 lowercase hex digits
		return ledger.Identity{}, refuse("identity", fmt.Errorf("deployment id: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "identity"); err != nil {
		return ledger.Identity{}, err
	}
	defer l.mu.Unlock()
	isNew := l.identity.ID == ""
	if isNew {
		l.identity.ID = id
	}
	i := l.identity
	i.New = isNew
	return i, nil
}

// ConfirmIdentity implements ledger.Deployment.
func (l *Ledger) ConfirmIdentity(ctx context.Context) error {
	if err := l.begin(ctx, "confirm identity"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.identity.ID == "" {
		return refuse("confirm identity", blobd.ErrNotFound)
	}
	l.identity.Confirmed = true
	return nil
}

// SetRecovery implements ledger.Deployment.
func (l *Ledger) SetRecovery(ctx context.Context, s ledger.RecoveryState, e ledger.Entry) error {
	if s > ledger.RecoveryReplayGap {
		return refuse("set recovery", fmt.Errorf("recovery state %d: %w", s, blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "set recovery"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	l.identity.Recovery = s
	l.append(e)
	return nil
}

// Check implements ledger.Deployment.
func (l *Ledger) Check(ctx context.Context) error {
	if err := l.begin(ctx, "check"); err != nil {
		return err
	}
	l.mu.Unlock()
	return nil
}

// Append implements ledger.Audit.
func (l *Ledger) Append(ctx context.Context, e ledger.Entry) error {
	if err := l.begin(ctx, "append"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	l.append(e)
	return nil
}

// Entries implements ledger.Audit.
func (l *Ledger) Entries(ctx context.Context, after int64, limit int) ([]ledger.StoredEntry, error) {
	if err := checkLimit("entries", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "entries"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	after = min(max(after, 0), int64(len(l.entries)))
	return slices.Clone(cut(l.entries[after:], limit)), nil
}

// ScanBlobs implements ledger.Maintenance.
func (l *Ledger) ScanBlobs(ctx context.Context, after ledger.Position, limit int) ([]ledger.ScannedBlob, error) {
	if err := checkLimit("scan blobs", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "scan blobs"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	order := func(a, b ledger.Position) int {
		if c := bytes.Compare(a.Tag[:], b.Tag[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.Ref[:], b.Ref[:])
	}
	var bs []ledger.ScannedBlob
	for at, row := range l.blobs {
		if order(at, after) <= 0 {
			continue
		}
		s := ledger.ScannedBlob{Position: at, Blob: *l.blob(at.Tag, row)}
		if e := l.executions[at.Tag]; e != nil {
			e = l.shown(e)
			s.Tenant, s.ExecutionID, s.ExecutionState, s.Key = e.Tenant, e.ID, e.State, e.Key
		}
		bs = append(bs, s)
	}
	slices.SortFunc(bs, func(a, b ledger.ScannedBlob) int { return order(a.Position, b.Position) })
	return cut(bs, limit), nil
}

// EnterMissing implements ledger.Maintenance.
func (l *Ledger) EnterMissing(ctx context.Context, objects []ledger.Position, at time.Time) (int, error) {
	if err := l.begin(ctx, "enter missing"); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	entered := 0
	for _, p := range objects {
		if l.blobs[p] == nil {
			l.blobs[p] = &ledger.Blob{Ref: p.Ref, State: ledger.BlobMissing, CreatedAt: kept(at)}
			entered++
		}
	}
	return entered, nil
}

// AcceptLoss implements ledger.Maintenance.
func (l *Ledger) AcceptLoss(ctx context.Context, tag blobd.ExecutionTag, ref blobd.Ref, _ time.Time, entry ledger.Entry) error {
	if err := l.begin(ctx, "accept loss"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	row, e := l.blobs[ledger.Position{Tag: tag, Ref: ref}], l.executions[tag]
	if row == nil {
		return refuse("accept loss", blobd.ErrNotFound)
	}
	erased := e != nil && l.shown(e).State == ledger.ExecutionErased
	if erased || row.State != ledger.BlobLive && row.State != ledger.BlobMissing {
		return refuse("accept loss", fmt.Errorf("the blob's state is %d: %w", row.State, blobd.ErrConflict))
	}
	if row.State == ledger.BlobLive {
		e.Blobs, e.Bytes = e.Blobs-1, e.Bytes-row.Size
	}
	row.State = ledger.BlobLost
	l.release(tag, row)
	l.append(entry)
	return nil
}

// Collect implements ledger.Maintenance.
func (l *Ledger) Collect(ctx context.Context, p ledger.Position, at time.Time) error {
	if err := l.begin(ctx, "collect"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	if l.blobs[p] != nil {
		return refuse("collect", fmt.Errorf("the ref has a row: %w", blobd.ErrConflict))
	}
	l.blobs[p] = &ledger.Blob{Ref: p.Ref, State: ledger.BlobCollected, CreatedAt: kept(at)}
	return nil
}

// Settle implements ledger.Maintenance. There is no file; what the runtime has
// not reused yet is out of reach.
func (l *Ledger) Settle(ctx context.Context) ([]string, error) {
	if err := l.begin(ctx, "settle"); err != nil {
		return nil, err
	}
	l.mu.Unlock()
	return []string{"memory that the runtime has not reused"}, nil
}

// Stats implements ledger.Maintenance.
func (l *Ledger) Stats(ctx context.Context) (s ledger.Stats, err error) {
	if err := l.begin(ctx, "stats"); err != nil {
		return s, err
	}
	defer l.mu.Unlock()
	for _, e := range l.executions {
		s.Blobs, s.Bytes = s.Blobs+e.Blobs, s.Bytes+e.Bytes
		if e.State != ledger.ExecutionErased {
			s.Executions++
		}
	}
	for _, e := range l.erasures {
		if e.State.Ended() {
			continue
		}
		s.ErasuresOpen++
		if e.State != ledger.ErasureRunning {
			continue
		}
		if s.OldestErasure.IsZero() || e.FencedAt.Before(s.OldestErasure) {
			s.OldestErasure = e.FencedAt
		}
	}
	for _, j := range l.journal {
		if !j.published {
			s.JournalUnpublished++
		}
	}
	return s, nil
}
