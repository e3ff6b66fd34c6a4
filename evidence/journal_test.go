package evidence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	backendmem "github.com/blobd/blobd/backends/mem"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
	ledgermem "github.com/blobd/blobd/ledger/mem"
)

func now() time.Time { return at.UTC() }

// fence makes a record in a ledger: the erasure of an execution never seen.
func fence(t *testing.T, l ledger.Ledger, id string) ledger.Record {
	t.Helper()
	_, r, err := l.Fence(t.Context(), ledger.Fence{
		ID: id, Scope: ledger.Scope{Tenant: "acme", Tag: blobd.ExecutionTag{id[0]}, ExecutionID: id}, At: now(), RunAt: now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newLedger(t *testing.T) *ledgermem.Ledger {
	t.Helper()
	l := ledgermem.New(now)
	if err := l.CreateTenant(t.Context(), ledger.Tenant{ID: "acme", CreatedAt: now()}, ledger.Entry{Tenant: "acme", Kind: ledger.EntryTenant, At: now()}); err != nil {
		t.Fatal(err)
	}
	return l
}

func seqs(rs []ledger.Record) (out []int64) {
	for _, r := range rs {
		out = append(out, r.Seq)
	}
	return out
}

func TestPublishedRecordsAreKnownToNewLedgers(t *testing.T) {
	l, first, second := newLedger(t), backendmem.New(now), backendmem.New(now)
	j := evidence.NewJournal(l, first, second)
	var want []int64
	for i := range 3 {
		r := fence(t, l, fmt.Sprint(i))
		want = append(want, r.Seq)
		if err := j.Publish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if lost, err := j.Compare(t.Context()); err != nil || len(lost.Records) != 0 || lost.StoreBehind {
		t.Errorf("a whole ledger lost %v, %v", lost, err)
	}
	lost, err := evidence.NewJournal(newLedger(t), first, second).Compare(t.Context())
	if err != nil || !cmp.Equal(seqs(lost.Records), want) || lost.StoreBehind {
		t.Errorf("lost %v (store behind %v), %v, want %v", seqs(lost.Records), lost.StoreBehind, err, want)
	}
	lost, err = evidence.NewJournal(newLedger(t), backendmem.New(now), second).Compare(t.Context())
	if err != nil || !cmp.Equal(seqs(lost.Records), want) || !lost.StoreBehind {
		t.Errorf("with an old store: lost %v (store behind %v), %v", seqs(lost.Records), lost.StoreBehind, err)
	}
}

func TestFlushPublishesWhatACrashLeft(t *testing.T) {
	l, place := newLedger(t), backendmem.New(now)
	for i := range 250 { // more than one batch
		fence(t, l, fmt.Sprint(i))
	}
	j := evidence.NewJournal(l, place)
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	objects, err := place.List(t.Context(), backends.JournalPrefix, "", 1000)
	if err != nil || len(objects) != 250 {
		t.Errorf("%d records in the place, %v, want 250", len(objects), err)
	}
	if left, err := l.Unpublished(t.Context(), 10); err != nil || len(left) != 0 {
		t.Errorf("%d records are unpublished, %v", len(left), err)
	}
}

func TestPublishIsAllPlacesOrAnError(t *testing.T) {
	for place := range 2 {
		for _, when := range []backendfaulty.When{backendfaulty.Before, backendfaulty.After} {
			l := newLedger(t)
			places := []*backendfaulty.Store{backendfaulty.New(backendmem.New(now)), backendfaulty.New(backendmem.New(now))}
			j := evidence.NewJournal(l, places[0], places[1])
			r := fence(t, l, "x")
			places[place].Fail("put", 1, when, blobd.ErrUnavailable)
			if err := j.Publish(t.Context(), r); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("place %d: %v, want unavailable", place, err)
			}
			if left, _ := l.Unpublished(t.Context(), 10); len(left) != 1 {
				t.Errorf("place %d: the record counts as published", place)
			}
			if err := j.Flush(t.Context()); err != nil {
				t.Errorf("place %d: the second try: %v", place, err)
			}
		}
	}
	var none ledger.Record
	if err := evidence.NewJournal(newLedger(t)).Publish(t.Context(), none); err != nil {
		t.Errorf("the zero record: %v", err)
	}
}

// TestOnlyTheNewestMarkIsKept, and the journal says nothing when nothing was
// written.
func TestOnlyTheNewestMarkIsKept(t *testing.T) {
	l, place := newLedger(t), backendmem.New(now)
	j := evidence.NewJournal(l, place)
	write := func() {
		if err := l.Append(t.Context(), ledger.Entry{Tenant: "acme", Kind: ledger.EntryRead, At: now()}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		write()
		if err := j.Mark(t.Context(), now()); err != nil {
			t.Fatal(err)
		}
		if err := j.Mark(t.Context(), now()); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := place.List(t.Context(), backends.JournalPrefix, "", 1000)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d marks, %v, want the newest", len(objects), err)
	}
	head, err := l.Head(t.Context())
	if err != nil || !strings.HasPrefix(objects[0].Name, fmt.Sprintf("journal/%016x-", head.Seq)) {
		t.Errorf("%s is not the mark of %d", objects[0].Name, head.Seq)
	}
}

// TestDamagedJournalIsAnError: a record that is not what its name says is never
// skipped.
func TestDamagedJournalIsAnError(t *testing.T) {
	l := newLedger(t)
	r := fence(t, l, "x")
	whole := backendmem.New(now)
	if err := evidence.NewJournal(l, whole).Publish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	objects, err := whole.List(t.Context(), backends.JournalPrefix, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	body, err := whole.Get(t.Context(), objects[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]struct {
		name string
		body []byte
	}{
		"other bytes":      {objects[0].Name, append([]byte(" "), body...)},
		"no record":        {objects[0].Name, []byte("{}")},
		"empty":            {objects[0].Name, nil},
		"under other name": {strings.Replace(objects[0].Name, "journal/0", "journal/1", 1), body},
		"not a name":       {"journal/x", body},
	} {
		place := backendmem.New(now)
		if err := place.Put(t.Context(), damaged.name, damaged.body); err != nil {
			t.Fatal(err)
		}
		lost, err := evidence.NewJournal(newLedger(t), place).Compare(t.Context())
		if !errors.Is(err, blobd.ErrCorrupt) {
			t.Errorf("%s: lost %v, %v, want corrupt", name, lost, err)
		}
	}
}

// TestCompareFaults: a place that does not answer is an error, never "nothing
// was lost".
func TestCompareFaults(t *testing.T) {
	l := newLedger(t)
	inner := backendmem.New(now)
	if err := evidence.NewJournal(l, inner).Publish(t.Context(), fence(t, l, "x")); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"list", "get"} {
		for name, ledger := range map[string]ledger.Ledger{"whole": l, "new": newLedger(t)} {
			place := backendfaulty.New(inner)
			place.Fail(op, 0, backendfaulty.Before, blobd.ErrUnavailable)
			if lost, err := evidence.NewJournal(ledger, place).Compare(t.Context()); !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("%s ledger, %s fails: lost %v, %v", name, op, lost, err)
			}
		}
	}
}

func TestJoinCopiesTheWholeJournalToANewPlace(t *testing.T) {
	l, first, second := newLedger(t), backendmem.New(now), backendmem.New(now)
	for i := range 5 {
		if err := evidence.NewJournal(l, first).Publish(t.Context(), fence(t, l, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	j := evidence.NewJournal(l, first, second)
	if j.Places() != 2 {
		t.Errorf("%d places", j.Places())
	}
	for range 2 { // a second time does nothing
		if err := j.Join(t.Context(), "ours"); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := evidence.NewJournal(newLedger(t), second).Compare(t.Context())
	if err != nil || len(lost.Records) != 5 {
		t.Errorf("the second place tells of %d records, %v, want 5", len(lost.Records), err)
	}
}

// vanishing gives out one object no more: erased as it is read, or listed all the same.
type vanishing struct {
	backends.Store
	name   string
	listed bool
}

func (v vanishing) Get(ctx context.Context, name string) ([]byte, error) {
	if name != v.name {
		return v.Store.Get(ctx, name)
	}
	if !v.listed {
		if _, err := v.Erase(ctx, backends.Scope{Names: []string{name}}); err != nil {
			return nil, err
		}
	}
	return nil, blobd.ErrNotFound
}

// A running node replaces its mark between the listing and the read of a copy. A
// record that is listed and cannot be read is another thing.
func TestACopyLeavesOutOnlyWhatIsReplacedMeanwhile(t *testing.T) {
	for _, listed := range []bool{false, true} {
		l, first, second := newLedger(t), backendmem.New(now), backendmem.New(now)
		for i := range 3 {
			if err := evidence.NewJournal(l, first).Publish(t.Context(), fence(t, l, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		all, err := first.List(t.Context(), backends.JournalPrefix, "", 10)
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		err = evidence.NewJournal(l, vanishing{first, all[1].Name, listed}, second).Join(t.Context(), "ours")
		if listed {
			if !errors.Is(err, blobd.ErrUnavailable) {
				t.Errorf("a record that is listed and cannot be read: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		copied, err := second.List(t.Context(), backends.JournalPrefix, "", 10)
		if err != nil || len(copied) != 2 || copied[0].Name != all[0].Name || copied[1].Name != all[2].Name {
			t.Errorf("copied %+v, %v", copied, err)
		}
	}
}

// TestJoinMissesASecondPlace: once there was a second place, nothing passes for
// it but itself, until an operator says so.
func TestJoinMissesASecondPlace(t *testing.T) {
	l, first, second := newLedger(t), backendmem.New(now), backendmem.New(now)
	if err := evidence.NewJournal(l, first, second).Join(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	foreign := backendmem.New(now)
	if err := foreign.Put(t.Context(), backends.IdentityName, []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	for name, places := range map[string][]backends.Store{
		"not configured": {first},
		"emptied":        {first, backendmem.New(now)},
		"another's":      {first, foreign},
	} {
		if err := evidence.NewJournal(l, places...).Join(t.Context(), "ours"); !errors.Is(err, blobd.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
	}
	if err := evidence.NewJournal(l, first, second).Join(t.Context(), "ours"); err != nil {
		t.Errorf("itself: %v", err)
	}
	alone := evidence.NewJournal(l, first)
	if err := alone.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := alone.Join(t.Context(), "ours"); err != nil {
		t.Errorf("after leaving it: %v", err)
	}
}

// TestALenientPlaceIsBegunAnew: it is copied to when absent, cleared when it is
// another deployment's, and tells of a rollback when it is ours.
func TestALenientPlaceIsBegunAnew(t *testing.T) {
	l, first, second := newLedger(t), backendmem.New(now), backendmem.New(now)
	if err := evidence.NewJournal(l, first).Publish(t.Context(), fence(t, l, "gone")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"ours", "ours", "another", "ours"} {
		if err := evidence.NewJournal(l, first, second).Lenient().Join(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if owner, err := second.Get(t.Context(), backends.IdentityName); err != nil || string(owner) != id {
			t.Errorf("the place is %q's, %v, want %q", owner, err, id)
		}
		lost, err := evidence.NewJournal(newLedger(t), second).Compare(t.Context())
		if err != nil || len(lost.Records) != 1 {
			t.Errorf("the place tells of %d records, %v, want 1", len(lost.Records), err)
		}
	}
	if err := evidence.NewJournal(l, first).Join(t.Context(), "ours"); err != nil {
		t.Errorf("without it: %v", err)
	}
}

// TestRecordEncodingIsCanonical: what is written is read back, and encodes to
// the same bytes.
func TestRecordEncodingIsCanonical(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := ledger.Record{
			Seq:       rapid.Int64Range(1, 1<<60).Draw(rt, "seq"),
			Kind:      rapid.SampledFrom([]ledger.RecordKind{ledger.RecordMark, ledger.RecordFence, ledger.RecordErase, ledger.RecordRevoke, ledger.RecordOrder, ledger.RecordLift}).Draw(rt, "kind"),
			At:        time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(rt, "at")).UTC(),
			Tenant:    rapid.StringMatching(`[a-z]{0,5}`).Draw(rt, "tenant"),
			OrderID:   rapid.StringMatching(`[0-9a-f]{0,8}`).Draw(rt, "order"),
			OrderKind: ledger.OrderKind(rapid.IntRange(0, 4).Draw(rt, "order kind")),
			ErasureID: rapid.StringMatching(`[0-9a-f]{0,8}`).Draw(rt, "erasure"),
			TokenID:   rapid.StringMatching(`[0-9a-f]{0,8}`).Draw(rt, "token"),
			Writes:    rapid.Int64Range(0, 1<<60).Draw(rt, "writes"),
		}
		copy(r.Tag[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "tag"))
		for _, b := range rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(rt, "refs") {
			r.Refs = append(r.Refs, blobd.RefOf([]byte{b}))
		}
		body, err := r.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		got, err := ledger.DecodeRecord(body)
		if err != nil || !cmp.Equal(got, r) {
			rt.Fatalf("%s reads as %+v, %v", body, got, err)
		}
	})
}

// FuzzDecodeRecord: bytes that are accepted are the one encoding of what they
// say.
func FuzzDecodeRecord(f *testing.F) {
	for _, seed := range []string{
		`{"seq":1,"kind":"mark","at":"2026-11-30T12:00:00Z","writes":0}`,
		`{"seq":2,"kind":"fence","at":"2026-11-30T12:00:00Z","tenant":"acme","tag":"00000000000000000000000000000001","erasureId":"e","writes":3}`,
		`{"seq":1,"kind":"mark","at":"2026-11-30T12:00:00Z","writes":0} `, `{"kind":"mark","seq":1}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ledger.DecodeRecord(body)
		if err != nil {
			if !errors.Is(err, blobd.ErrCorrupt) {
				t.Errorf("%v is not corrupt", err)
			}
			return
		}
		again, err := r.Encode()
		if err != nil || string(again) != string(body) {
			t.Errorf("%q was read, and encodes as %q, %v", body, again, err)
		}
	})
}

func TestDecodeRefusesOtherSpellings(t *testing.T) {
	const body = `{"seq":1,"kind":"mark","at":"2026-11-30T12:00:00Z","writes":0}`
	if _, err := ledger.DecodeRecord([]byte(body)); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{
		body + " ", " " + body, strings.Replace(body, ":1", ": 1", 1), strings.Replace(body, "mark", `mar\u006b`, 1),
		strings.Replace(body, "12:00:00Z", "12:00:00.0Z", 1), strings.Replace(body, "12:00:00Z", "13:00:00+01:00", 1),
		strings.Replace(body, `"writes":0`, `"writes":0,"x":1`, 1), strings.Replace(body, `"seq"`, `"Seq"`, 1),
		strings.Replace(body, `"writes"`, `"refs":["sha256:00"],"writes"`, 1), strings.Replace(body, `"writes"`, `"tag":"00","writes"`, 1),
		strings.Replace(body, `"writes"`, `"refs":[],"writes"`, 1),
	} {
		if r, err := ledger.DecodeRecord([]byte(other)); !errors.Is(err, blobd.ErrCorrupt) {
			t.Errorf("%s reads as %+v, %v", other, r, err)
		}
	}
}
