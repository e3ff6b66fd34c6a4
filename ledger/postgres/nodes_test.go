package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Of first captures of one execution that share a transaction under keys of
// their own, one wins, and the others are told its key: a row under another key
// could never be opened.
func TestFirstCapturesInOneBatchHaveOneKey(t *testing.T) {
	l := newBench(t).withTenant(t, Options{})
	first, second, third := capture(1, 1), capture(1, 2), capture(1, 3)
	second.Key = capture(2, 1).Key
	third.Key = first.Key
	items := []*commit{{capture: first}, {capture: second}, {capture: third}}
	l.commitBatch(items)
	must(t, items[0].err)
	var conflict *ledger.KeyConflict
	if err := items[1].err; !errors.As(err, &conflict) || conflict.Winner.ID != first.Key.ID {
		t.Errorf("another key for the same execution: %v", err)
	}
	must(t, items[2].err)
	v, err := l.Lookup(t.Context(), tagOf(1), []blobd.Ref{refOf(1), refOf(2), refOf(3)})
	must(t, err)
	if v.Execution.Key.ID != first.Key.ID || v.Blobs[0] == nil || v.Blobs[1] != nil || v.Blobs[2] == nil {
		t.Errorf("%+v, blobs %v", v.Execution, v.Blobs)
	}
	wholeExecution(t, l, 1)
}

// On a timeline that was not compared nothing is changed and nothing decided but
// by what recovery needs: a record made there could take the number of one that
// was lost.
func TestAnUntrustedTimelineIsNotWrittenTo(t *testing.T) {
	l := newBench(t).withTenant(t, Options{})
	put(t, l, 1, 1)
	l.Trust("another")
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"commit": func() error { _, err := l.Commit(ctx, capture(1, 2)); return err },
		"fence":  func() error { _, _, err := l.Fence(ctx, fenceOf(1)); return err },
		"refs":   func() error { _, _, err := l.Fence(ctx, fenceOf(1, refOf(1))); return err },
		"hold": func() error {
			o := ledger.Order{ID: "o", Kind: ledger.OrderHold, Scope: fenceOf(1).Scope, PlacedAt: noon}
			_, _, err := l.PlaceOrder(ctx, o, entry(ledger.EntryOrder))
			return err
		},
		"mark":     func() error { _, err := l.Mark(ctx, noon); return err },
		"append":   func() error { return l.Append(ctx, entry(ledger.EntryRecovery)) },
		"claim":    func() error { _, err := l.Claim(ctx, "node", noon, noon.Add(time.Minute)); return err },
		"sequence": func() error { _, err := l.ClaimSequencer(ctx, "node", noon, noon.Add(time.Minute)); return err },
		"token": func() error {
			return l.CreateToken(ctx, ledger.Token{ID: "t", Tenant: acme, CreatedAt: noon}, entry(ledger.EntryToken))
		},
		"lookup": func() error { _, err := l.Lookup(ctx, tagOf(1), []blobd.Ref{refOf(1)}); return err },
		"check":  func() error { return l.Check(ctx) },
	} {
		if err := call(); !errors.Is(err, blobd.ErrUnavailable) {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
	}
	must(t, l.SetRecovery(ctx, ledger.RecoveryReplay, entry(ledger.EntryRecovery)))
	must(t, l.Replay(ctx, []ledger.Record{{Seq: 1, Kind: ledger.RecordMark, At: noon, Writes: 1}}))
	must(t, l.Published(ctx, []int64{1}))

	at, err := l.Timeline(ctx)
	must(t, err)
	l.Trust(at)
	v, err := l.Lookup(ctx, tagOf(1), []blobd.Ref{refOf(1), refOf(2)})
	must(t, err)
	if v.Execution.State != ledger.ExecutionOpen || v.Blobs[0].State != ledger.BlobLive || v.Blobs[1] != nil {
		t.Errorf("something was changed: %+v, %v", v.Execution, v.Blobs)
	}
	if head, err := l.Head(ctx); err != nil || head.Seq != 1 {
		t.Errorf("head %d, %v", head.Seq, err)
	}
}
