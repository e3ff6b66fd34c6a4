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

type journalled struct {
	ledger.Record
	published bool
}

// append adds evidence. The caller holds the lock.
func (l *Ledger) append(es ...ledger.Entry) {
	for _, e := range es {
		e.At = kept(e.At)
		e.Body, e.Salt = slices.Clone(e.Body), slices.Clone(e.Salt)
		l.entries = append(l.entries, ledger.StoredEntry{ID: int64(len(l.entries)) + 1, Entry: e})
	}
}

// record adds a journal record after its evidence. The caller holds the lock.
func (l *Ledger) record(r ledger.Record) ledger.Record {
	r.Seq, r.At, r.Writes = l.head().Seq+1, kept(r.At), l.writes
	l.journal = append(l.journal, journalled{Record: r})
	l.headEvidence = len(l.entries)
	return r
}

func (l *Ledger) head() ledger.Record {
	if len(l.journal) == 0 {
		return ledger.Record{}
	}
	return l.journal[len(l.journal)-1].Record
}

// Mark implements ledger.Journal.
func (l *Ledger) Mark(ctx context.Context, at time.Time) (ledger.Record, error) {
	if err := l.begin(ctx, "mark"); err != nil {
		return ledger.Record{}, err
	}
	defer l.mu.Unlock()
	if len(l.entries) == l.headEvidence {
		return ledger.Record{}, nil
	}
	return l.record(ledger.Record{Kind: ledger.RecordMark, At: at}), nil
}

// Unpublished implements ledger.Journal.
func (l *Ledger) Unpublished(ctx context.Context, limit int) ([]ledger.Record, error) {
	if err := checkLimit("unpublished", limit); err != nil {
		return nil, err
	}
	if err := l.begin(ctx, "unpublished"); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	var rs []ledger.Record
	for _, j := range l.journal {
		if !j.published {
			rs = append(rs, j.Record)
		}
	}
	return cut(rs, limit), nil
}

// Published implements ledger.Journal.
func (l *Ledger) Published(ctx context.Context, seqs []int64) error {
	if err := l.begin(ctx, "published"); err != nil {
		return err
	}
	defer l.mu.Unlock()
	var at []int
	for _, seq := range seqs {
		i := slices.IndexFunc(l.journal, func(j journalled) bool { return j.Seq == seq })
		if i < 0 {
			return refuse("published", fmt.Errorf("record %d: %w", seq, blobd.ErrNotFound))
		}
		at = append(at, i)
	}
	for _, i := range at {
		l.journal[i].published = true
	}
	return nil
}

// Head implements ledger.Journal.
func (l *Ledger) Head(ctx context.Context) (ledger.Record, error) {
	if err := l.begin(ctx, "head"); err != nil {
		return ledger.Record{}, err
	}
	defer l.mu.Unlock()
	return l.head(), nil
}

// HasRecord implements ledger.Journal.
func (l *Ledger) HasRecord(ctx context.Context, r ledger.Record) (bool, error) {
	if err := l.begin(ctx, "has record"); err != nil {
		return false, err
	}
	defer l.mu.Unlock()
	has, _ := l.hasRecord(r)
	return has, nil
}

// hasRecord reports whether the journal has this record, and whether what it has
// under its number was published.
func (l *Ledger) hasRecord(r ledger.Record) (same, published bool) {
	want, err := r.Encode()
	for _, j := range l.journal {
		if j.Seq == r.Seq {
			got, bad := j.Encode()
			same = err == nil && bad == nil && bytes.Equal(got, want)
			return same, j.published
		}
	}
	return false, false
}
