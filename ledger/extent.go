package ledger

// An erasure's figures are counted in three places, each in the transaction that does
// what it counts, so that neither a crash nor a repeat counts anything twice:
//
//   - Plan, before anything is closed: what was previewed, and approved;
//   - Drops, by Drop, while the scope is only closed;
//   - Fenced, by the fence, and of a whole tenant by DropKeys.
//
// What Drop and a fence took together, less the plan, is the delta. Puts into a closed
// scope are refused: what joins does so between the plan and the closing.

// Extent counts parts of a scope, in the measure of Plan: of a whole execution and of a
// whole tenant what is live, of the other forms rows that are not erased.
type Extent struct {
	Executions int64
	Blobs      int64
	Bytes      int64 // readable
}

// Plus adds two extents.
func (x Extent) Plus(y Extent) Extent {
	return Extent{x.Executions + y.Executions, x.Blobs + y.Blobs, x.Bytes + y.Bytes}
}

// Minus subtracts an extent, where there may be less than nothing left.
func (x Extent) Minus(y Extent) Extent {
	return Extent{x.Executions - y.Executions, x.Blobs - y.Blobs, x.Bytes - y.Bytes}
}

// Extent is what a plan counts of what is not erased.
func (p Plan) Extent() Extent { return Extent{p.Executions, p.Blobs, p.Bytes} }

// Add adds an extent to what a plan counts of what is not erased.
func (p *Plan) Add(x Extent) {
	p.Executions, p.Blobs, p.Bytes = p.Executions+x.Executions, p.Blobs+x.Blobs, p.Bytes+x.Bytes
}

// Extent is a row of a scope by itself, for a form. Which executions it is in is not
// counted row by row.
func (r *DueRow) Extent(f ScopeForm) Extent {
	if (f == ScopeExecution || f == ScopeTenant) && r.State != BlobLive {
		return Extent{}
	}
	return Extent{Blobs: 1, Bytes: r.Size}
}

// Delta is what an erasure took of its scope, or left in it protected, less what its
// plan counted: what joined the scope since, less what left it. It is negative where
// more left than joined: a sweep took it, or another erasure.
//
// It is not known of an erasure without a plan of its own (Planned), nor while
// something in scope is neither erased nor seen to be protected.
func (e *Erasure) Delta() (d Extent, known bool) {
	if !e.Planned {
		return d, false
	}
	done := e.State == ErasureErased || !e.Closing && !e.Scope.WholeTenant
	waits := e.State == ErasureDeferred || e.State == ErasureDenied || e.State == ErasureCancelled
	if !done && (!waits || e.Progress.Left == (Extent{})) {
		return d, false
	}
	return e.Drops.Plus(e.Fenced.Extent()).Plus(e.Progress.Left).Minus(e.Plan.Extent()), true
}

// Found is what an erasure met in its scope: what its fence found, or, of one that has
// not fenced, its plan. What was not found when it was planned, and was dropped since,
// is not among NotFound.
func (e *Erasure) Found() Plan {
	if !e.Closing {
		return e.Fenced
	}
	p := e.Plan
	if e.Dropped > 0 && !e.Scope.Form().Fenceable() {
		p.NotFound = 0
	}
	return p
}
