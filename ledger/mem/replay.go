package mem

import (
	"context"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Replay implements ledger.Journal.
func (l *Ledger) Replay(ctx context.Context, rs []ledger.Record) error {
	if err := l.begin(ctx, "replay"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	lost, err := l.checkReplays(rs)
	if err != nil {
		return refuse("replay", err)
	}
	own := l.giveWay(lost)
	for _, r := range lost {
		r.At, r.Before, r.Until = kept(r.At), kept(r.Before), kept(r.Until)
		if err := l.reapply(r); err != nil {
			return refuse("replay", err)
		}
		l.journal = append(l.journal, journalled{r, true})
		slices.SortFunc(l.journal, func(a, b journalled) int { return int(a.Seq - b.Seq) })
		l.writes = max(l.writes, r.Writes)
		l.headEvidence = len(l.entries)
	}
	for _, r := range own {
		l.renumber(r)
	}
	return nil
}

// renumber gives a record of this ledger a number behind all others.
func (l *Ledger) renumber(old ledger.Record) {
	r := l.record(old)
	if e := l.erasure(r.ErasureID); e != nil && e.first.Seq == old.Seq && e.first.Kind == old.Kind {
		e.first = r
	}
	if o := l.orders[r.OrderID]; o != nil && o.first.Seq == old.Seq && o.first.Kind == old.Kind {
		o.first = r
	}
}

// checkReplays returns the records that this ledger lost, if all may be applied.
func (l *Ledger) checkReplays(rs []ledger.Record) (lost []ledger.Record, err error) {
	for i, r := range rs {
		if i > 0 && r.Seq <= rs[i-1].Seq || r.Seq < 1 {
			return nil, fmt.Errorf("record %d is out of order: %w", r.Seq, blobd.ErrInvalid)
		}
		same, published := l.hasRecord(r)
		switch {
		case same:
			continue
		case published:
			return nil, fmt.Errorf("record %d: the ledger published another one: %w", r.Seq, blobd.ErrConflict)
		}
		if err := l.checkReplay(r); err != nil {
			return nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		lost = append(lost, r)
	}
	return lost, nil
}

// giveWay takes out the records of this ledger that stand in the way of lost
// ones, and returns them.
func (l *Ledger) giveWay(lost []ledger.Record) (own []ledger.Record) {
	l.journal = slices.DeleteFunc(l.journal, func(j journalled) bool {
		stands := slices.ContainsFunc(lost, func(r ledger.Record) bool { return r.Seq == j.Seq })
		if stands {
			own = append(own, j.Record)
		}
		return stands
	})
	return own
}

func (l *Ledger) checkReplay(r ledger.Record) error {
	switch r.Kind {
	case ledger.RecordMark, ledger.RecordRevoke:
	case ledger.RecordLift:
		if r.OrderID == "" {
			return fmt.Errorf("a lift of no order: %w", blobd.ErrInvalid)
		}
	case ledger.RecordOrder:
		return l.checkOrderReplay(r)
	case ledger.RecordFence, ledger.RecordErase, ledger.RecordTenant:
		if len(r.Refs) > 0 && r.Kind != ledger.RecordErase || r.ErasureID == "" || r.Tenant == "" && r.Kind == ledger.RecordTenant {
			return fmt.Errorf("%s record of %d refs: %w", r.Kind, len(r.Refs), blobd.ErrInvalid)
		}
		if e := l.executions[r.Tag]; e != nil && e.Tenant != r.Tenant {
			return fmt.Errorf("the execution is another tenant's: %w", blobd.ErrConflict)
		}
	default:
		return fmt.Errorf("kind %q: %w", r.Kind, blobd.ErrInvalid)
	}
	return nil
}

func (l *Ledger) reapply(r ledger.Record) error {
	switch r.Kind {
	case ledger.RecordFence, ledger.RecordErase, ledger.RecordTenant:
		return l.reapplyFence(r)
	case ledger.RecordOrder:
		l.reapplyOrder(r)
	case ledger.RecordLift:
		l.reapplyLift(r)
	case ledger.RecordRevoke:
		if t, known := l.tokens[r.TokenID]; known && t.Tenant == r.Tenant && t.RevokedAt.IsZero() {
			t.RevokedAt = kept(r.At)
			l.tokens[r.TokenID] = t
		}
	}
	return nil
}

func (l *Ledger) reapplyFence(r ledger.Record) error {
	if r.Kind == ledger.RecordTenant {
		l.enterTenant(r)
	}
	scope := ledger.Scope{Tenant: r.Tenant, Tag: r.Tag, Refs: r.Refs, WholeTenant: r.Kind == ledger.RecordTenant}
	wrap := max(r.Wrap, l.wrapOf(scope))
	e := newErasure(&ledger.Fence{ID: r.ErasureID, At: r.At, Scope: scope})
	e.OfRefs = r.Kind == ledger.RecordErase
	known := l.erasure(r.ErasureID)
	if known != nil && known.Closing {
		e = known
		e.asked = sorted(append(e.asked, r.Refs...))
	}
	if err := l.fence(e, r.At, true); err != nil {
		return err
	}
	if known != nil && e != known {
		return nil // it fenced before: what this one found is told by that one
	}
	e.Wrap, e.runAt, e.held = max(e.Wrap, wrap), r.At.UnixMicro(), false
	if known == nil {
		e.first = r
		l.erasures = append(l.erasures, e)
	}
	if o := l.closingOf(e); o != nil {
		l.end(o, r.At, "", "")
	}
	return nil
}
