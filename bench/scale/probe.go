package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// probed is how many executions Probe looks at.
const probed = 50

// Probe asks the ledger's methods for what was filled in: counters, a sample of
// executions with all that hangs on them, and the evidence log.
func Probe(ctx context.Context, l ledger.Ledger, executions int) error {
	s, err := l.Stats(ctx)
	if err != nil {
		return err
	}
	blobs := int64(executions) * BlobsPerExecution
	if s.Executions != int64(executions) || s.Blobs != blobs || s.Bytes != blobs*blobSize {
		return fmt.Errorf("stats say %d executions, %d blobs, %d bytes", s.Executions, s.Blobs, s.Bytes)
	}
	for k := range probed {
		if err := probeExecution(ctx, l, k*executions/probed); err != nil {
			return fmt.Errorf("execution %d: %w", k*executions/probed, err)
		}
	}
	if err := probeListing(ctx, l, executions); err != nil {
		return err
	}
	if err := probeDue(ctx, l, executions); err != nil {
		return err
	}
	return probeLog(ctx, l)
}

// countMost bounds what is counted at once: an engine's statements have a time.
const countMost = 1_000_000

// probeDue wants every row where a sweep looks for it.
func probeDue(ctx context.Context, l ledger.Ledger, executions int) error {
	stored, err := l.CountStored(ctx, tenant, countMost)
	if err != nil {
		return err
	}
	if want := min(int64(executions)*BlobsPerExecution, countMost); stored != want {
		return fmt.Errorf("retention finds %d rows of %d", stored, want)
	}
	for k := range probed {
		i := k * executions / probed
		captured := start().Add(time.Duration(i) * time.Second)
		page, err := l.Due(ctx, ledger.DueQuery{Tenant: tenant, Class: class, From: captured, To: captured.Add(time.Second), Limit: 1000})
		if err != nil {
			return err
		}
		want := min(i+1, BlobsPerExecution) // of those that began in the seconds before
		if len(page) != want {
			return fmt.Errorf("at the start of execution %d retention finds %d rows of %d", i, len(page), want)
		}
	}
	return nil
}

func probeExecution(ctx context.Context, l ledger.Ledger, i int) error {
	s, err := l.Execution(ctx, tenant, Tag(i))
	if err != nil {
		return err
	}
	if s.ID != executionID(i) || s.Blobs != BlobsPerExecution || s.Steps != BlobsPerExecution || s.Classes[class] != BlobsPerExecution ||
		s.Key == nil || len(s.Key.Ciphertext) != wrappedKeySize || !s.CreatedAt.Equal(start().Add(time.Duration(i)*time.Second)) {
		return fmt.Errorf("summary %+v", s)
	}
	var refs []blobd.Ref
	var repeats [][32]byte
	for n := range BlobsPerExecution {
		refs, repeats = append(refs, Ref(i, n)), append(repeats, repeat(i, n))
	}
	byRef, err := l.Lookup(ctx, Tag(i), refs)
	if err != nil {
		return err
	}
	byRepeat, err := l.LookupRepeats(ctx, Tag(i), repeats)
	if err != nil {
		return err
	}
	for n := range BlobsPerExecution {
		a, b := byRef.Blobs[n], byRepeat.Blobs[n]
		if a == nil || b == nil || a.Ref != refs[n] || b.Ref != refs[n] || a.State != ledger.BlobLive ||
			a.Size != blobSize || len(a.WrappedKey) != wrappedBlobKey {
			return fmt.Errorf("blob %d is %+v, by its repeat tag %+v", n, a, b)
		}
	}
	records, err := l.Records(ctx, ledger.RecordQuery{Tag: Tag(i), Limit: 2 * BlobsPerExecution})
	if err != nil {
		return err
	}
	if len(records) != BlobsPerExecution {
		return fmt.Errorf("%d attempt records", len(records))
	}
	for n, r := range records {
		if r.Blob == nil || r.Blob.Ref != refs[n] || r.StepID != fmt.Sprintf("turn:%d:model", n) {
			return fmt.Errorf("attempt record %d is %+v", n, r)
		}
	}
	return nil
}

// probeListing walks the first pages of the listing, newest first.
func probeListing(ctx context.Context, l ledger.Ledger, executions int) error {
	q := ledger.ExecutionQuery{Tenant: tenant, Limit: 10}
	for i := executions - 1; i >= max(0, executions-50); {
		page, err := l.ListExecutions(ctx, q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("the listing ends at execution %d", i)
		}
		for _, x := range page {
			if x.ID != executionID(i) {
				return fmt.Errorf("the listing has %s in place of %s", x.ID, executionID(i))
			}
			i--
		}
		last := page[len(page)-1]
		q.Before = ledger.ExecutionCursor{CreatedAt: last.CreatedAt, Tag: last.Tag}
	}
	return nil
}

// probeLog wants every entry in the log.
func probeLog(ctx context.Context, l ledger.Ledger) error {
	left, err := l.Unsequenced(ctx, 0, 10)
	if err != nil {
		return err
	}
	state, err := l.LogState(ctx, 0)
	if err != nil {
		return err
	}
	if len(left) > 0 || state.Size == 0 {
		return fmt.Errorf("the log has %d entries, and %d are not in it", state.Size, len(left))
	}
	last, err := l.Logged(ctx, ledger.LogQuery{Indexes: []int64{state.Size - 1}})
	if err != nil {
		return err
	}
	if len(last) != 1 || last[0].Index != state.Size-1 || len(last[0].Hashes) != completed(state.Size-1) {
		return fmt.Errorf("the log's last entry is %+v", last)
	}
	return nil
}
