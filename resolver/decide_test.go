package resolver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// TestDecide holds every state of an execution against every state of a blob.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const unknown = 99 // a state of a later version
	blobs := map[ledger.BlobState]verdict{
		0: null, ledger.BlobLive: live, ledger.BlobErased: nullErased, ledger.BlobMissing: missing, ledger.BlobLost: nullLost,
		ledger.BlobCollected: null, ledger.BlobSuperseded: nullExpired, unknown: missing,
	}
	for state, inOpen := range blobs {
		for execution, all := range map[ledger.ExecutionState]verdict{
			ledger.ExecutionOpen: inOpen, ledger.ExecutionClosed: nullClosed, ledger.ExecutionErased: nullErased,
		} {
			v := ledger.View{Now: now, Execution: &ledger.Execution{State: execution}}
			var b *ledger.Blob
			if state != 0 {
				b = &ledger.Blob{State: state, CreatedAt: now}
			}
			if got := decide(v, b, new(asker)); got != all {
				t.Errorf("blob %d in execution %d: verdict %d, want %d", state, execution, got, all)
			}
		}
	}
}

func TestDecideAtTheEdgeOfTheMaximum(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	v := ledger.View{Now: now, Execution: &ledger.Execution{State: ledger.ExecutionOpen}}
	for age, want := range map[time.Duration]verdict{time.Hour - 1: live, time.Hour: nullExpired, time.Hour + 1: nullExpired} {
		b := &ledger.Blob{State: ledger.BlobLive, ExpiresAt: now.Add(time.Hour - age)}
		if got := decide(v, b, new(asker)); got != want {
			t.Errorf("after %v: verdict %d, want %d", age, got, want)
		}
	}
}

// TestDecideByASuspectClock: only what time alone would decide is doubtful, at the edge of
// the maximum by either time; every other verdict is as by a clock that is trusted.
func TestDecideByASuspectClock(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	early, late := now.Add(-time.Hour), now.Add(time.Hour)
	open := &ledger.Execution{State: ledger.ExecutionOpen}
	member := [32]byte{1}
	for name, c := range map[string]struct {
		now, trusted time.Time
		blob         ledger.Blob
		execution    *ledger.Execution
		asker        *asker
		want         verdict
	}{
		"ahead, due between the two": {late, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now}, open, new(asker), doubtful},
		"behind, due between":        {early, late, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now}, open, new(asker), doubtful},
		"due before both":            {late, now, ledger.Blob{State: ledger.BlobLive, ExpiresAt: early}, open, new(asker), doubtful},
		"due after both":             {early, now, ledger.Blob{State: ledger.BlobLive, ExpiresAt: late}, open, new(asker), live},
		"due at the later":           {now, late, ledger.Blob{State: ledger.BlobLive, ExpiresAt: late}, open, new(asker), doubtful},
		"just after the later":       {now, late, ledger.Blob{State: ledger.BlobLive, ExpiresAt: late.Add(1)}, open, new(asker), live},
		"no maximum":                 {now, early, ledger.Blob{State: ledger.BlobLive}, open, new(asker), live},
		"an auditor":                 {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now}, open, nil, doubtful},
		"an auditor, held":           {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Held: true}, open, nil, live},
		"a runtime, held":            {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Held: true}, open, new(asker), doubtful},
		"an outsider":                {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Audience: [][32]byte{member}}, open, new(asker), nullOutsider},
		"a member":                   {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Audience: [][32]byte{member}}, open, &asker{true, member}, doubtful},
		"without its execution":      {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now}, nil, new(asker), missing},
		"swept":                      {now, early, ledger.Blob{State: ledger.BlobExpired, ExpiresAt: now}, open, new(asker), nullExpired},
		"superseded":                 {now, early, ledger.Blob{State: ledger.BlobSuperseded, ExpiresAt: now}, open, new(asker), nullExpired},
		"erased":                     {now, early, ledger.Blob{State: ledger.BlobErased, ExpiresAt: now}, open, new(asker), nullErased},
		"lost":                       {now, early, ledger.Blob{State: ledger.BlobLost, ExpiresAt: now}, open, new(asker), nullLost},
		"missing":                    {now, early, ledger.Blob{State: ledger.BlobMissing, ExpiresAt: now}, open, new(asker), missing},
		"closed":                     {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Closed: ledger.ClosedErasure}, open, new(asker), nullClosed},
		"restricted":                 {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now, Closed: ledger.ClosedRestricted}, open, new(asker), nullRestricted},
		"fenced": {now, early, ledger.Blob{State: ledger.BlobLive, ExpiresAt: now},
			&ledger.Execution{State: ledger.ExecutionErased}, new(asker), nullErased},
	} {
		v := ledger.View{Now: c.now, Trusted: c.trusted, Execution: c.execution}
		if got := decide(v, &c.blob, c.asker); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
	if doubtful.isNull() {
		t.Error("what is doubtful is a null")
	}
}

// TestDecideInRecovery: while the ledger may have forgotten puts, a ref without
// a row is an error; what it does know stays as it is.
func TestDecideInRecovery(t *testing.T) {
	for _, state := range []ledger.RecoveryState{ledger.RecoveryReplay, ledger.RecoveryGap} {
		v := ledger.View{Recovery: state, Execution: &ledger.Execution{State: ledger.ExecutionOpen}}
		if got := decide(v, nil, new(asker)); got != missing {
			t.Errorf("no row: verdict %d, want missing", got)
		}
		v.Execution = nil
		if got := decide(v, nil, new(asker)); got != missing {
			t.Errorf("no execution: verdict %d, want missing", got)
		}
		v.Execution = &ledger.Execution{State: ledger.ExecutionErased}
		if got := decide(v, nil, new(asker)); got != nullErased {
			t.Errorf("fenced: verdict %d, want erased", got)
		}
	}
	if got := decide(ledger.View{}, nil, new(asker)); got != null {
		t.Errorf("a whole ledger without a row: verdict %d, want null", got)
	}
	if got := decide(ledger.View{}, &ledger.Blob{State: ledger.BlobLive}, new(asker)); got != missing {
		t.Errorf("a row without its execution: verdict %d, want missing", got)
	}
}

func TestDecideByAudience(t *testing.T) {
	member, other := [32]byte{1}, [32]byte{2}
	v := ledger.View{Execution: &ledger.Execution{State: ledger.ExecutionOpen}}
	for name, c := range map[string]struct {
		audience [][32]byte
		who      *asker
		want     verdict
	}{
		"no audience, nobody":     {nil, new(asker), live},
		"no audience, someone":    {nil, &asker{true, other}, live},
		"audience, nobody":        {[][32]byte{member}, new(asker), nullOutsider},
		"audience, zero tag":      {[][32]byte{{}}, new(asker), nullOutsider},
		"audience, outsider":      {[][32]byte{member}, &asker{true, other}, nullOutsider},
		"audience, second member": {[][32]byte{other, member}, &asker{true, member}, live},
		"audience, auditor":       {[][32]byte{member}, nil, live},
	} {
		if got := decide(v, &ledger.Blob{State: ledger.BlobLive, Audience: c.audience}, c.who); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
	}
}

// TestEveryVerdictHasAStatus: only live is ok.
func TestEveryVerdictHasAStatus(t *testing.T) {
	for v := null; v <= missing; v++ {
		s := status(v)
		if (s == StatusOK) != (v == live) || (s == StatusMissing) != (v == missing) {
			t.Errorf("verdict %d is %s", v, s)
		}
		if v.isNull() == (v == live || v == missing) {
			t.Errorf("verdict %d is null: %v", v, v.isNull())
		}
	}
}

func TestJoined(t *testing.T) {
	a, b := blobd.RefOf([]byte("a")), blobd.RefOf([]byte("b"))
	about := func(r blobd.Ref, err error) error {
		return fmt.Errorf("open: %w", &blobd.RefsError{Refs: []blobd.Ref{r}, Err: err})
	}
	if err := joined([]error{nil, nil}); err != nil {
		t.Errorf("nothing wrong: %v", err)
	}
	for _, errs := range [][]error{
		{about(a, blobd.ErrMissing), nil, about(b, blobd.ErrCorrupt)},
		{about(a, blobd.ErrCorrupt), about(b, blobd.ErrMissing)},
	} {
		err := joined(errs)
		var refs *blobd.RefsError
		if !errors.Is(err, blobd.ErrCorrupt) || !errors.As(err, &refs) || len(refs.Refs) != 2 || refs.Refs[0] != a || refs.Refs[1] != b {
			t.Errorf("%v, want the gravest and both refs", err)
		}
	}
	err := joined([]error{about(a, blobd.ErrCorrupt), blobd.ErrUnavailable})
	if !errors.Is(err, blobd.ErrUnavailable) || errors.Is(err, blobd.ErrCorrupt) {
		t.Errorf("%v: one answer that is not definite makes the whole so", err)
	}
}
