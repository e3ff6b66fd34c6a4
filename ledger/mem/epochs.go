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

// epoch is an epoch's row, which is also its job.
type epoch struct {
	ledger.Epoch
	lease ledger.EpochLease
	held  bool
}

func (l *Ledger) epoch(id string) *epoch {
	i := slices.IndexFunc(l.epochs, func(e *epoch) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return l.epochs[i]
}

// over reports whether an epoch is never due again.
func over(s ledger.EpochState) bool { return s == ledger.EpochTrimmed || s == ledger.EpochEnded }

// StartEpoch implements ledger.Epochs.
func (l *Ledger) StartEpoch(ctx context.Context, n ledger.NewEpoch) (ledger.Epoch, error) {
	if n.ID == "" {
		return ledger.Epoch{}, refuse("start an epoch", fmt.Errorf("no id: %w", blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "start an epoch"); err != nil {
		return ledger.Epoch{}, err
	}
	defer l.mu.Unlock()
	if first := l.epoch(n.ID); first != nil {
		if first.Tenant != n.Tenant {
			return ledger.Epoch{}, refuse("start an epoch", fmt.Errorf("the id is another tenant's: %w", blobd.ErrConflict))
		}
		return first.Epoch, nil
	}
	if err := l.living(n.Tenant); err != nil {
		return ledger.Epoch{}, refuse("start an epoch", err)
	}
	for _, e := range l.epochs {
		if e.Tenant == n.Tenant && (e.State == ledger.EpochRotating || e.State == ledger.EpochRewrapping) {
			return ledger.Epoch{}, refuse("start an epoch", fmt.Errorf("epoch %s is not complete: %w", e.ID, blobd.ErrConflict))
		}
	}
	e := &epoch{Epoch: ledger.Epoch{
		ID: n.ID, Tenant: n.Tenant, State: ledger.EpochRotating, StartedAt: kept(n.At), RunAt: kept(n.At),
	}}
	l.epochs = append(l.epochs, e)
	l.append(n.Entry)
	return e.Epoch, nil
}

// ClaimEpoch implements ledger.Epochs.
func (l *Ledger) ClaimEpoch(ctx context.Context, owner string, at, until time.Time) (ledger.EpochJob, error) {
	if err := l.begin(ctx, "claim an epoch"); err != nil {
		return ledger.EpochJob{}, err
	}
	defer l.mu.Unlock()
	at = kept(at)
	var first *epoch
	for _, e := range l.epochs {
		leased := e.held && e.lease.Until.After(at)
		if over(e.State) || e.RunAt.After(at) || leased {
			continue
		}
		if first == nil || e.RunAt.Before(first.RunAt) {
			first = e
		}
	}
	if first == nil {
		return ledger.EpochJob{}, refuse("claim an epoch", blobd.ErrNotFound)
	}
	first.Attempts++
	first.held = true
	first.lease = ledger.EpochLease{EpochID: first.ID, Owner: owner, Term: first.lease.Term + 1, Until: kept(until)}
	return ledger.EpochJob{Epoch: first.Epoch, Lease: first.lease}, nil
}

// epochOf returns the epoch of a lease that is still its holder's.
func (l *Ledger) epochOf(lease ledger.EpochLease) (*epoch, error) {
	e := l.epoch(lease.EpochID)
	if e == nil || over(e.State) || !e.held || e.lease.Owner != lease.Owner || e.lease.Term != lease.Term {
		return nil, fmt.Errorf("the lease is stale: %w", blobd.ErrConflict)
	}
	return e, nil
}

// MoveEpoch implements ledger.Epochs.
func (l *Ledger) MoveEpoch(ctx context.Context, lease ledger.EpochLease, m ledger.EpochMove) error {
	if err := l.begin(ctx, "move an epoch"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	e, err := l.epochOf(lease)
	if err != nil {
		return refuse("move an epoch", err)
	}
	next, err := l.moved(e.Epoch, m)
	if err != nil {
		return refuse("move an epoch", err)
	}
	if next.State == ledger.EpochRewrapping && e.State != next.State {
		t := l.tenants[e.Tenant]
		t.MinimumWrap = max(t.MinimumWrap, next.Version)
		l.tenants[e.Tenant] = t
	}
	e.Epoch = next
	e.held = !m.Until.IsZero() && next.State != ledger.EpochTrimmed
	if e.held {
		e.lease.Until = kept(m.Until)
	}
	l.append(m.Entries...)
	return nil
}

// moved returns an epoch as a move leaves it, if the move is legal.
func (l *Ledger) moved(e ledger.Epoch, m ledger.EpochMove) (ledger.Epoch, error) {
	moves := m.To != e.State
	if moves && !ledger.Legal(ledger.EpochMoves(), e.State, m.To) {
		return e, fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	if m.From != 0 {
		e.From = m.From
	}
	if m.Version != 0 {
		e.Version = m.Version
	}
	if !m.TrimAt.IsZero() {
		e.TrimAt = kept(m.TrimAt)
	}
	if m.Until.IsZero() {
		e.RunAt = kept(m.Due)
	}
	e.LastError = m.LastError
	if !moves {
		return e, nil
	}
	e.State = m.To
	switch e.State {
	case ledger.EpochRewrapping:
		if e.Version <= e.From {
			return e, fmt.Errorf("version %d after %d: %w", e.Version, e.From, blobd.ErrInvalid)
		}
		e.Total = int64(len(l.wraps(e.Tenant, e.Version)))
	case ledger.EpochWaiting:
		if n := len(l.wraps(e.Tenant, e.Version)); n > 0 {
			return e, fmt.Errorf("%d wraps are below version %d: %w", n, e.Version, blobd.ErrConflict)
		}
		e.CompletedAt = kept(m.At)
	case ledger.EpochTrimmed:
		e.TrimmedAt = kept(m.At)
	}
	return e, nil
}

// wraps lists a tenant's wraps below a version.
func (l *Ledger) wraps(tenant string, below uint32) []ledger.Wrap {
	if l.fenced(tenant) {
		return nil
	}
	var ws []ledger.Wrap
	if t, known := l.tenants[tenant]; known && t.IndexWrap < below {
		ws = append(ws, ledger.Wrap{Key: ledger.WrappedKey{Version: t.IndexWrap, Ciphertext: slices.Clone(t.IndexKey)}})
	}
	for tag, e := range l.executions {
		if e.Tenant == tenant && e.Key != nil && e.Key.Version < below {
			ws = append(ws, ledger.Wrap{Tag: tag, CreatedAt: e.CreatedAt, Key: *cloneKey(*e.Key), LostBlob: l.lostBlob[tag]})
		}
	}
	slices.SortFunc(ws, func(a, b ledger.Wrap) int { return compareWraps(cursorOf(a), cursorOf(b)) })
	return ws
}

func cursorOf(w ledger.Wrap) ledger.ExecutionCursor {
	return ledger.ExecutionCursor{CreatedAt: w.CreatedAt, Tag: w.Tag}
}

// compareWraps orders oldest first; the zero cursor, of the index key, is first.
func compareWraps(a, b ledger.ExecutionCursor) int {
	none := ledger.ExecutionCursor{}
	switch {
	case a == b:
		return 0
	case a == none:
		return -1
	case b == none:
		return 1
	}
	if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
		return c
	}
	return bytes.Compare(a.Tag[:], b.Tag[:])
}

// Wraps implements ledger.Epochs.
func (l *Ledger) Wraps(ctx context.Context, q ledger.WrapQuery) ([]ledger.Wrap, error) {
	if err := checkLimit("wraps", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "wraps"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	after := ledger.ExecutionCursor{CreatedAt: kept(q.After.CreatedAt), Tag: q.After.Tag}
	ws := l.wraps(q.Tenant, q.Below)
	if after != (ledger.ExecutionCursor{}) {
		ws = slices.DeleteFunc(ws, func(w ledger.Wrap) bool { return compareWraps(cursorOf(w), after) <= 0 })
	}
	return cut(ws, q.Limit), nil
}

// Rewrap implements ledger.Epochs.
func (l *Ledger) Rewrap(ctx context.Context, lease ledger.EpochLease, items []ledger.Rewrap) (int, error) {
	if len(items) < 1 || len(items) > maxRefs {
		return 0, refuse("rewrap", fmt.Errorf("%d items: %w", len(items), blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "rewrap"); err != nil {
		return 0, err
	}
	defer l.mu.Unlock()
	e, err := l.epochOf(lease)
	if err == nil && e.State != ledger.EpochRewrapping {
		err = fmt.Errorf("the epoch is %v: %w", e.State, blobd.ErrConflict)
	}
	if err != nil {
		return 0, refuse("rewrap", err)
	}
	minimum := l.tenants[e.Tenant].MinimumWrap
	for _, item := range items {
		if item.New.Version < minimum {
			return 0, refuse("rewrap", fmt.Errorf("wrapped by version %d, minimum %d: %w", item.New.Version, minimum, blobd.ErrConflict))
		}
	}
	done := 0
	for _, item := range items {
		if !l.rewrap(e.Tenant, item) {
			continue
		}
		done++
		if item.New.ID != item.Old.ID {
			e.Rekeyed++
		}
	}
	e.Rewrapped += int64(done)
	return done, nil
}

// rewrap replaces one wrap, if the ledger still has what it was made from.
func (l *Ledger) rewrap(tenant string, item ledger.Rewrap) bool {
	if item.Tag == (blobd.ExecutionTag{}) {
		t := l.tenants[tenant]
		if t.IndexWrap != item.Old.Version || !bytes.Equal(t.IndexKey, item.Old.Ciphertext) {
			return false
		}
		t.IndexWrap, t.IndexKey = item.New.Version, slices.Clone(item.New.Ciphertext)
		l.tenants[tenant] = t
		return true
	}
	x := l.executions[item.Tag]
	switch {
	case x == nil || x.Tenant != tenant || x.Key == nil || x.Key.ID != item.Old.ID,
		!bytes.Equal(x.Key.Ciphertext, item.Old.Ciphertext):
		return false
	case item.New.ID == item.Old.ID && l.lostBlob[item.Tag]:
		return false
	case item.New.ID != item.Old.ID && !l.rewrapBlobs(item):
		return false
	}
	x.Key = cloneKey(item.New)
	return true
}

// rewrapBlobs gives an execution's blobs keys wrapped by its new key: all that
// still have one, or none.
func (l *Ledger) rewrapBlobs(item ledger.Rewrap) bool {
	wrapped := map[blobd.Ref][]byte{}
	for _, b := range item.Blobs {
		row := l.blobs[ledger.Position{Tag: item.Tag, Ref: b.Ref}]
		if row != nil && row.WrappedKey != nil && bytes.Equal(row.WrappedKey, b.Old) {
			wrapped[b.Ref] = b.New
		}
	}
	for at, row := range l.blobs {
		if _, listed := wrapped[at.Ref]; at.Tag == item.Tag && row.WrappedKey != nil && !listed {
			return false
		}
	}
	for ref, key := range wrapped {
		l.blobs[ledger.Position{Tag: item.Tag, Ref: ref}].WrappedKey = slices.Clone(key)
	}
	delete(l.lostBlob, item.Tag)
	return true
}

// ListEpochs implements ledger.Epochs.
func (l *Ledger) ListEpochs(ctx context.Context, q ledger.EpochQuery) ([]ledger.Epoch, error) {
	if err := checkLimit("list epochs", q.Limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "list epochs"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	newest := func(a, b ledger.EpochCursor) int {
		if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
			return c
		}
		return bytes.Compare([]byte(b.ID), []byte(a.ID))
	}
	cursor := func(e ledger.Epoch) ledger.EpochCursor { return ledger.EpochCursor{StartedAt: e.StartedAt, ID: e.ID} }
	before := ledger.EpochCursor{StartedAt: kept(q.Before.StartedAt), ID: q.Before.ID}
	var es []ledger.Epoch
	for _, e := range l.epochs {
		later := q.Before != (ledger.EpochCursor{}) && newest(before, cursor(e.Epoch)) >= 0
		if e.Tenant == q.Tenant && !later {
			es = append(es, e.Epoch)
		}
	}
	slices.SortFunc(es, func(a, b ledger.Epoch) int { return newest(cursor(a), cursor(b)) })
	return cut(es, q.Limit), nil
}
