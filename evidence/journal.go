package evidence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/ledger"
)

// Journal copies the ledger's journal records to places outside the ledger,
// one immutable object each, so that a ledger restored from a backup can be
// told what it forgot.
//
// A record is published after its transaction committed and before the caller
// is answered: first in the object store, then in the second place if there is
// one. A record that was committed but not published (a crash) is published by
// the next Flush.
type Journal struct {
	ledger ledger.Journal
	places []backends.Store // the object store first
	// lenient: the second place may be absent or another's, and is made anew then.
	lenient bool

	deployment atomic.Pointer[string] // of Join

	mu       sync.Mutex
	lastMark string // name of the newest mark published here: an older mark tells nothing more
}

// NewJournal returns a journal that writes to places, the object store first.
func NewJournal(l ledger.Journal, places ...backends.Store) *Journal {
	return &Journal{ledger: l, places: places}
}

// Lenient makes the second place one that nobody asked for: it tells of a
// rollback if it is there, and is begun anew if it is absent or another
// deployment's.
func (j *Journal) Lenient() *Journal {
	j.lenient = true
	return j
}

// flushBatch is how many records one Flush step reads.
const flushBatch = 100

// listPage is how many names one listing asks for.
const listPage = 1000

// Publish makes one committed record durable in every place. A record that went
// into a store that is not the deployment's is ErrUnavailable and stays
// unpublished. The zero record is nothing to publish.
func (j *Journal) Publish(ctx context.Context, r ledger.Record) error {
	if r.Seq == 0 {
		return nil
	}
	name, body, err := encode(r)
	if err != nil {
		return err
	}
	for _, p := range j.places {
		if err := p.Put(ctx, name, body); err != nil {
			return fmt.Errorf("journal: publish %d: %w", r.Seq, err)
		}
	}
	if err := j.ours(ctx); err != nil {
		return fmt.Errorf("journal: publish %d: %w", r.Seq, err)
	}
	if err := j.ledger.Published(ctx, []int64{r.Seq}); err != nil {
		return fmt.Errorf("journal: publish %d: %w", r.Seq, err)
	}
	if r.Kind != ledger.RecordMark {
		return nil
	}
	return j.replaceMark(ctx, name)
}

// ours asks whether the object store is still that of the deployment that joined.
func (j *Journal) ours(ctx context.Context) error {
	id := j.deployment.Load()
	if id == nil {
		return nil
	}
	object, err := j.places[0].Get(ctx, backends.IdentityName)
	switch {
	case err != nil && !errors.Is(err, blobd.ErrNotFound):
		return err
	case err != nil || string(object) != *id:
		return fmt.Errorf("the store is not this deployment's: %w", blobd.ErrUnavailable)
	}
	return nil
}

// replaceMark deletes the mark before this one: only the newest says anything.
func (j *Journal) replaceMark(ctx context.Context, name string) error {
	j.mu.Lock()
	before := j.lastMark
	j.lastMark = name
	j.mu.Unlock()
	if before == "" || before >= name {
		return nil
	}
	for _, p := range j.places {
		if _, err := p.Erase(ctx, backends.Scope{Names: []string{before}}); err != nil {
			return fmt.Errorf("journal: drop an old mark: %w", err)
		}
	}
	return nil
}

// Flush publishes every record that is committed and not published.
func (j *Journal) Flush(ctx context.Context) error {
	for {
		rs, err := j.ledger.Unpublished(ctx, flushBatch)
		if err != nil {
			return fmt.Errorf("journal: flush: %w", err)
		}
		for _, r := range rs {
			if err := j.Publish(ctx, r); err != nil {
				return err
			}
		}
		if len(rs) < flushBatch {
			return nil
		}
	}
}

// Mark records how far the ledger is, if anything was written since the last
// record.
func (j *Journal) Mark(ctx context.Context, at time.Time) error {
	r, err := j.ledger.Mark(ctx, at)
	if err != nil {
		return fmt.Errorf("journal: mark: %w", err)
	}
	return j.Publish(ctx, r)
}

// Lost is what the journal knows and the ledger does not.
type Lost struct {
	Records []ledger.Record // in order; empty: the ledger was not rolled back
	// StoreBehind says that the object store's own copy of the journal lacks
	// records that the second place has: the store was rolled back too, so that
	// a listing of it does not tell of every put.
	StoreBehind bool
}

// Compare reads the journal and reports what the ledger lost.
func (j *Journal) Compare(ctx context.Context) (Lost, error) {
	head, err := j.ledger.Head(ctx)
	if err != nil {
		return Lost{}, fmt.Errorf("journal: compare: %w", err)
	}
	var lost Lost
	seen := make(map[int64]bool)
	for i, place := range j.places {
		records, err := j.unknown(ctx, place, head)
		if err != nil {
			return Lost{}, err
		}
		for _, r := range records {
			if seen[r.Seq] {
				continue
			}
			seen[r.Seq] = true
			lost.Records = append(lost.Records, r)
			lost.StoreBehind = lost.StoreBehind || i > 0
		}
	}
	slices.SortFunc(lost.Records, func(a, b ledger.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return lost, nil
}

// unknown returns the place's records that the ledger does not hold. A ledger
// that was rolled back and went on has a head that the place does not have, so
// the search starts at the beginning unless the place confirms the head.
func (j *Journal) unknown(ctx context.Context, place backends.Store, head ledger.Record) ([]ledger.Record, error) {
	after, err := confirmedHead(ctx, place, head)
	if err != nil {
		return nil, err
	}
	var records []ledger.Record
	for vanished := 0; ; {
		page, err := place.List(ctx, backends.JournalPrefix, after, listPage)
		if err != nil {
			return nil, fmt.Errorf("journal: list: %w", err)
		}
		found, next, err := j.unknownOf(ctx, place, page)
		records = append(records, found...)
		if next != "" {
			after = next
		}
		switch {
		case errors.Is(err, blobd.ErrNotFound) && vanished < vanishTries:
			vanished++ // another node replaced a mark: what it put is listed now
		case err != nil:
			return nil, err
		case len(page) < listPage:
			return records, nil
		}
	}
}

// vanishTries bounds how often a record may vanish between its listing and its
// reading.
const vanishTries = 20

// unknownOf returns what of a page the ledger does not hold, and the last name
// that it saw to.
func (j *Journal) unknownOf(ctx context.Context, place backends.Store, page []backends.Object) (records []ledger.Record, last string, err error) {
	for _, o := range page {
		if strings.HasPrefix(o.Name, logPrefix) { // a checkpoint's copy, not a record
			last = o.Name
			continue
		}
		r, err := read(ctx, place, o.Name)
		if err != nil {
			return records, last, err
		}
		known, err := j.ledger.HasRecord(ctx, r)
		if err != nil {
			return records, last, fmt.Errorf("journal: compare %d: %w", r.Seq, err)
		}
		if !known {
			records = append(records, r)
		}
		last = o.Name
	}
	return records, last, nil
}

func confirmedHead(ctx context.Context, place backends.Store, head ledger.Record) (string, error) {
	if head.Seq == 0 {
		return "", nil
	}
	name, _, err := encode(head)
	if err != nil {
		return "", err
	}
	_, err = place.Get(ctx, name)
	if errors.Is(err, blobd.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("journal: read the head: %w", err)
	}
	return name, nil
}

// Join makes sure that every place belongs to the deployment with this id. A
// second place that is new gets a copy of the journal and the identity, and the
// object store remembers that there is one: from then on an absent, emptied or
// foreign second place is ErrConflict, for it is what tells of a rollback. To
// move it, copy it.
func (j *Journal) Join(ctx context.Context, id string) error {
	if err := j.join(ctx, id); err != nil {
		return err
	}
	j.deployment.Store(&id)
	return nil
}

func (j *Journal) join(ctx context.Context, id string) error {
	remembered, err := content(ctx, j.places[0], backends.SecondPlaceName)
	if err != nil {
		return err
	}
	if len(j.places) == 1 || j.lenient {
		if remembered != "" {
			return fmt.Errorf("journal: its second place is not configured: %w", blobd.ErrConflict)
		}
		return j.joinLenient(ctx, id)
	}
	second := j.places[1]
	owner, err := content(ctx, second, backends.IdentityName)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != id:
		return fmt.Errorf("journal: its second place belongs to deployment %q: %w", owner, blobd.ErrConflict)
	case owner == "" && remembered != "":
		return fmt.Errorf("journal: its second place is absent or was emptied: %w", blobd.ErrConflict)
	case owner == "":
		if err := j.begin(ctx, second, id); err != nil {
			return err
		}
	}
	if err := j.places[0].Put(ctx, backends.SecondPlaceName, []byte(id)); err != nil {
		return fmt.Errorf("journal: remember the second place: %w", err)
	}
	return nil
}

func (j *Journal) joinLenient(ctx context.Context, id string) error {
	if len(j.places) == 1 {
		return nil
	}
	second := j.places[1]
	owner, err := content(ctx, second, backends.IdentityName)
	if err != nil || owner == id {
		return err
	}
	for {
		page, err := second.List(ctx, "", "", listPage)
		if err != nil {
			return fmt.Errorf("journal: clear the second place: %w", err)
		}
		if len(page) == 0 {
			return j.begin(ctx, second, id)
		}
		names := make([]string, len(page))
		for i, o := range page {
			names[i] = o.Name
		}
		if _, err := second.Erase(ctx, backends.Scope{Names: names}); err != nil {
			return fmt.Errorf("journal: clear the second place: %w", err)
		}
	}
}

// begin makes a second place: the copy first, then the identity.
func (j *Journal) begin(ctx context.Context, second backends.Store, id string) error {
	if err := copyJournal(ctx, j.places[0], second); err != nil {
		return err
	}
	if err := second.Put(ctx, backends.IdentityName, []byte(id)); err != nil {
		return fmt.Errorf("journal: begin a second place: %w", err)
	}
	return nil
}

// Leave makes the object store forget that there was a second place: an
// operator's decision.
func (j *Journal) Leave(ctx context.Context) error {
	if _, err := j.places[0].Erase(ctx, backends.Scope{Names: []string{backends.SecondPlaceName}}); err != nil {
		return fmt.Errorf("journal: leave the second place: %w", err)
	}
	return nil
}

// content returns a small object's bytes, "" where the place says it is absent.
func content(ctx context.Context, place backends.Store, name string) (string, error) {
	b, err := place.Get(ctx, name)
	if errors.Is(err, blobd.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("journal: %s: %w", name, err)
	}
	return string(b), nil
}

// copyJournal copies what is listed. What is gone when it is read, and is not listed
// any more, was a mark or a checkpoint that a running node has replaced: nothing else
// of a journal is deleted. What is still listed and cannot be read is an error.
func copyJournal(ctx context.Context, from, to backends.Store) error {
	for after := ""; ; {
		page, err := from.List(ctx, backends.JournalPrefix, after, listPage)
		if err != nil {
			return fmt.Errorf("journal: copy: %w", err)
		}
		for _, o := range page {
			after = o.Name
			body, err := from.Get(ctx, o.Name)
			if errors.Is(err, blobd.ErrNotFound) {
				if err = stillListed(ctx, from, o.Name); err == nil {
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("journal: copy: %w", err)
			}
			if err := to.Put(ctx, o.Name, body); err != nil {
				return fmt.Errorf("journal: copy: %w", err)
			}
		}
		if len(page) < listPage {
			return nil
		}
	}
}

// stillListed is an error for an object that a place lists and does not give out.
func stillListed(ctx context.Context, place backends.Store, name string) error {
	page, err := place.List(ctx, name, "", 1)
	if err != nil {
		return err
	}
	if len(page) > 0 && page[0].Name == name {
		return fmt.Errorf("%s is listed and not there: %w", name, blobd.ErrUnavailable)
	}
	return nil
}

// Places returns how many places there are, the object store included.
func (j *Journal) Places() int { return len(j.places) }

// Check reports whether every place answers.
func (j *Journal) Check(ctx context.Context) error {
	for _, p := range j.places[1:] { // the store is checked as the store
		if err := p.Check(ctx); err != nil {
			return fmt.Errorf("journal: second place: %w", err)
		}
	}
	return nil
}

// encode returns a record's object: its name sorts by sequence and ends in the
// hash of its bytes.
func encode(r ledger.Record) (name string, body []byte, err error) {
	body, err = r.Encode()
	if err != nil {
		return "", nil, fmt.Errorf("journal: encode %d: %w", r.Seq, err)
	}
	sum := sha256.Sum256(body)
	return fmt.Sprintf("%s%016x-%s", backends.JournalPrefix, r.Seq, hex.EncodeToString(sum[:])), body, nil
}

// read returns a record whose name and bytes prove each other.
func read(ctx context.Context, place backends.Store, name string) (ledger.Record, error) {
	body, err := place.Get(ctx, name)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("journal: read %s: %w", name, err)
	}
	r, err := ledger.DecodeRecord(body)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("journal: read %s: %w", name, err)
	}
	if again, _, err := encode(r); err != nil || again != name {
		return ledger.Record{}, fmt.Errorf("journal: %s is not what its name says: %w", name, blobd.ErrCorrupt)
	}
	return r, nil
}
