package ledgertest

import (
	"errors"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// modelRow is what the model knows of a blob: what was put.
type modelRow struct {
	execution int
	class     string
	subjects  []int
	captured  int // seconds
	keyed     bool
}

// modelErasure is an erasure that was asked for.
type modelErasure struct {
	id      string
	scope   ledger.Scope
	awaits  bool
	undone  bool
	covered map[int]bool // what it covered when it was closed or fenced
	digest  [32]byte
	plan    ledger.Plan    // zero: it has none of its own
	told    ledger.Erasure // when check saw it last
}

// covers is the meaning of a scope, in the model's own words.
func (m *modelRow) covers(s ledger.Scope, n int) bool {
	switch {
	case s.WholeTenant:
		return true
	case len(s.Subjects) > 0:
		return slices.ContainsFunc(m.subjects, func(i int) bool { return slices.Contains(s.Subjects, subjectOf(i)) })
	case s.Class != "":
		return m.class == s.Class && (s.CapturedBefore.IsZero() || at(m.captured).Before(s.CapturedBefore))
	case tagOf(m.execution) != s.Tag:
		return false
	}
	return len(s.Refs) == 0 || slices.Contains(s.Refs, refOf(n))
}

// protected reports whether something in the model keeps a row.
func (p *protection) protected(n int) bool {
	row := p.rows[n]
	if row.class == "other" && p.floor > 0 && p.seconds < row.captured+p.floor {
		return true
	}
	for _, s := range p.holds {
		if row.covers(s, n) {
			return true
		}
	}
	return false
}

// closed says whether the model refuses a capture.
func (p *protection) closed(m *modelRow, n int) bool {
	for _, s := range p.closes {
		if m.covers(s, n) {
			return true
		}
	}
	return false
}

// seenRow is what the engine tells of a row.
type seenRow struct {
	state  ledger.BlobState
	gone   bool // erased, and not by a sweep
	keyed  bool
	erased bool
	closed bool
}

// seen reads every row of the model from the engine.
func (p *protection) seen() map[int]seenRow {
	all := map[int]seenRow{}
	scanned, err := p.ScanBlobs(ctx, ledger.Position{}, 1000)
	p.must(err)
	for n, row := range p.rows {
		i := slices.IndexFunc(scanned, func(s ledger.ScannedBlob) bool { return s.Position == position(row.execution, n) })
		if i < 0 {
			p.r.Fatalf("blob %d has no row", n)
		}
		s := scanned[i]
		erased := s.ExecutionState == ledger.ExecutionErased
		all[n] = seenRow{
			state:  s.Blob.State,
			gone:   erased || s.Blob.State == ledger.BlobErased,
			keyed:  s.Blob.WrappedKey != nil && s.Key != nil && !erased,
			erased: erased || s.Blob.State == ledger.BlobErased || s.Blob.State == ledger.BlobExpired,
			closed: s.Blob.Closed != 0 && (s.ExecutionState == ledger.ExecutionClosed || !p.wholeClosed(row.execution)),
		}
	}
	return all
}

// wholeClosed says whether the model closes a whole execution.
func (p *protection) wholeClosed(x int) bool {
	for _, s := range p.closes {
		if s.WholeTenant || s.Tag == tagOf(x) && len(s.Refs) == 0 {
			return true
		}
	}
	return false
}

// check compares what the engine tells with the model, after each call.
func (p *protection) check() {
	before := p.last
	p.last = p.seen()
	for n, now := range p.last {
		row := p.rows[n]
		if was := before[n]; was.keyed && !now.keyed && p.protected(n) {
			p.r.Fatalf("blob %d lost its key, and is protected", n)
		}
		if !now.erased && now.closed != p.closed(row, n) {
			p.r.Fatalf("blob %d is told as closed: %v, and the model says %v", n, now.closed, !now.closed)
		}
	}
	p.checkFigures(before)
}

// checkFigures compares what erasures say that they took since check saw them last with
// the rows that were erased since: to the row, whatever is repeated. Plans stay. Of a
// tenant that was fenced the figures come later than the fence.
func (p *protection) checkFigures(before map[int]seenRow) {
	var told, gone int64
	liveOnly, fenced := false, false
	for _, x := range p.asked {
		e, err := p.Erasure(ctx, tenant, x.id)
		if errors.Is(err, blobd.ErrNotFound) {
			continue // it was refused
		}
		p.must(err)
		if (x.plan != ledger.Plan{}) != e.Planned || e.Planned && e.Plan != x.plan {
			p.r.Fatalf("erasure %s has the plan %+v (its own: %v), and was asked for with %+v", x.id, e.Plan, e.Planned, x.plan)
		}
		was := x.told
		x.told = e
		told += e.Drops.Blobs + e.Fenced.Blobs - was.Drops.Blobs - was.Fenced.Blobs
		fenced = fenced || e.Scope.WholeTenant && !e.Closing
		if acted := e.Dropped > was.Dropped || !e.Closing && (was.Closing || was.ID == ""); acted {
			liveOnly = e.Scope.Form() == ledger.ScopeTenant || e.Scope.Form() == ledger.ScopeExecution && !e.OfRefs
		}
	}
	for n, was := range before {
		if !was.gone && p.last[n].gone && (!liveOnly || was.state == ledger.BlobLive) {
			gone++
		}
	}
	if told != gone && !fenced {
		p.r.Fatalf("erasures took %d blobs by their figures, and %d were erased", told, gone)
	}
}
