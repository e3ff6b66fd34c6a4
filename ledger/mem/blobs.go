package mem

import (
	"context"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

const maxRefs = 256

// Lookup implements ledger.Blobs.
func (l *Ledger) Lookup(ctx context.Context, tag blobd.ExecutionTag, refs []blobd.Ref) (ledger.View, error) {
	if len(refs) < 1 || len(refs) > maxRefs {
		return ledger.View{}, refuse("lookup", fmt.Errorf("%d refs: %w", len(refs), blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "lookup"); err != nil {
		return ledger.View{}, err
	}
	defer l.mu.Unlock()
	v := l.view(tag)
	v.Blobs = make([]*ledger.Blob, len(refs))
	for i, ref := range refs {
		if row := l.blobs[ledger.Position{Tag: tag, Ref: ref}]; row != nil {
			v.Blobs[i] = l.blob(tag, row)
		}
	}
	return v, nil
}

// LookupRepeats implements ledger.Blobs.
func (l *Ledger) LookupRepeats(ctx context.Context, tag blobd.ExecutionTag, repeats [][32]byte) (ledger.View, error) {
	if len(repeats) > maxRefs {
		return ledger.View{}, refuse("lookup repeats", fmt.Errorf("%d repeats: %w", len(repeats), blobd.ErrInvalid))
	}
	if err := l.begin(ctx, "lookup repeats"); err != nil {
		return ledger.View{}, err
	}
	defer l.mu.Unlock()
	v := l.view(tag)
	v.Blobs = make([]*ledger.Blob, len(repeats))
	for i, r := range repeats {
		if ref, known := l.repeats[repeat{tag, r}]; known {
			v.Blobs[i] = l.blob(tag, l.blobs[ledger.Position{Tag: tag, Ref: ref}])
		}
	}
	return v, nil
}

func (l *Ledger) view(tag blobd.ExecutionTag) ledger.View {
	v := ledger.View{Now: kept(l.now()), Recovery: l.identity.Recovery}
	if e := l.executions[tag]; e != nil {
		v.Execution = l.shown(e)
		v.MinimumWrap = l.tenants[e.Tenant].MinimumWrap
	}
	return v
}

// Commit implements ledger.Blobs.
func (l *Ledger) Commit(ctx context.Context, c ledger.Capture) (ledger.Committed, error) {
	if err := checkCapture(&c); err != nil {
		return ledger.Committed{}, refuse("commit", err)
	}
	if err := l.begin(ctx, "commit"); err != nil {
		return ledger.Committed{}, err
	}
	defer l.mu.Unlock()
	if err := l.checkExecution(&c); err != nil {
		return ledger.Committed{}, refuse("commit", err)
	}
	s := staging{ledger: l, capture: &c, rows: map[blobd.Ref]*ledger.Blob{}, repeats: map[[32]byte]*ledger.Blob{}}
	if err := s.run(); err != nil {
		return ledger.Committed{}, refuse("commit", err)
	}
	s.keep()
	l.append(ledger.JoinPuts([]ledger.Entry{c.Entry})...)
	done := ledger.Committed{Created: s.created}
	for _, row := range s.answers {
		done.Blobs = append(done.Blobs, *l.blob(c.Tag, row))
	}
	return done, nil
}

func checkCapture(c *ledger.Capture) error {
	if len(c.Blobs) > maxRefs || len(c.Parts) < 1 || len(c.Parts) > maxRefs {
		return fmt.Errorf("%d blobs, %d parts: %w", len(c.Blobs), len(c.Parts), blobd.ErrInvalid)
	}
	if slices.ContainsFunc(c.Blobs, func(b ledger.NewBlob) bool { return b.Class == "" }) {
		return fmt.Errorf("a blob has no class: %w", blobd.ErrInvalid)
	}
	if slices.ContainsFunc(c.Parts, func(p ledger.Part) bool { return p.Blob >= len(c.Blobs) }) {
		return fmt.Errorf("a part names no blob of the capture: %w", blobd.ErrInvalid)
	}
	return nil
}

func (l *Ledger) checkExecution(c *ledger.Capture) error {
	e := l.executions[c.Tag]
	if e != nil && e.State == ledger.ExecutionErased {
		return blobd.ErrErased
	}
	if l.fenced(c.Tenant) || e != nil && l.fenced(e.Tenant) {
		return blobd.ErrTenantErased
	}
	if err := refusal(l.closesCapture(c)); err != nil {
		return err
	}
	if l.suppresses(c) {
		return blobd.ErrSuppressed
	}
	t, known := l.tenants[c.Tenant]
	switch {
	case !known:
		return fmt.Errorf("tenant: %w", blobd.ErrNotFound)
	case e != nil && e.Tenant != c.Tenant:
		return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
	case e == nil && c.Key.Version < t.MinimumWrap:
		return fmt.Errorf("wrapped by version %d, minimum %d: %w", c.Key.Version, t.MinimumWrap, blobd.ErrConflict)
	case e != nil && e.Key.ID != c.Key.ID:
		return &ledger.KeyConflict{Winner: *cloneKey(*e.Key)}
	case e == nil && l.idInUse(c.Tenant, c.ExecutionID):
		return fmt.Errorf("the execution id has another tag: %w", blobd.ErrConflict)
	}
	return nil
}

func (l *Ledger) idInUse(tenant, id string) bool {
	if id == "" {
		return false
	}
	for _, e := range l.executions {
		if e.Tenant == tenant && e.ID == id {
			return true
		}
	}
	return false
}
