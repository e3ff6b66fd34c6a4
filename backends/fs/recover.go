package fs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// recover brings index and segments together. The segments are the truth.
func (s *Store) recover() error {
	ids, err := segmentIDs(s.root)
	if err != nil {
		return err
	}
	for _, id := range ids {
		s.last = max(s.last, id.number())
	}
	t, known, err := s.openTable(ids)
	if err != nil {
		return err
	}
	s.index = newIndex(t)
	for _, id := range ids {
		if err := s.recoverSegment(id, known[id]); err != nil {
			return fmt.Errorf("%s: %w", id.path(), err)
		}
		s.moveIfFull()
	}
	if names, _ := s.index.waiting(); names == 0 {
		return nil
	}
	return s.moveIndex()
}

// openTable opens the index on disk, and a new one where it claims records that
// the segments do not hold.
func (s *Store) openTable(ids []segmentID) (*table, map[segmentID]extent, error) {
	t, err := openTable(s.root)
	if err != nil {
		return nil, nil, err
	}
	known, err := t.extents()
	if err == nil {
		var agrees bool
		if agrees, err = s.agrees(known, ids); agrees && err == nil {
			return t, known, nil
		}
	}
	_ = t.close(false)
	if err != nil && !errors.Is(err, errTable) {
		return nil, nil, err
	}
	t, err = freshTable(s.root)
	return t, nil, err
}

// agrees reports whether every segment that the table knows is there, as long as
// the table knows it.
func (s *Store) agrees(known map[segmentID]extent, ids []segmentID) (bool, error) {
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, there := slices.BinarySearch(ids, id); !there {
			return false, nil
		}
		info, err := s.root.Lstat(id.path())
		if err != nil {
			return false, err
		}
		if info.Size() < known[id].end {
			return false, nil
		}
	}
	return true, nil
}

// recoverSegment scans what the index lacks of a segment: all of it where an
// erasure or an older copy came between, else what was appended since.
func (s *Store) recoverSegment(id segmentID, known extent) error {
	f, err := s.openSegment(id, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	h, err := readSegmentHeader(f, id)
	if err != nil {
		return err
	}
	same := h.whole && known.end >= segmentStart && h.erasures == known.erasures
	if same {
		s.index.know(id, known)
	}
	if same && known.end == size {
		if known.live <= 0 {
			return s.dropIfEmpty(id)
		}
		return nil
	}
	r := recovery{store: s, file: f, id: id, end: segmentStart, there: make(map[int64]bool), buffer: make([]byte, 256<<10)}
	if same {
		r.end = known.end
	}
	if h.whole && h.closed == size {
		r.closed = true
	}
	if err := r.run(h); err != nil {
		return err
	}
	if known.end > 0 && !same {
		if err := s.index.forgetDead(id, r.there); err != nil {
			return err
		}
	}
	if r.records == 0 && r.end == segmentStart && len(r.damage) == 0 {
		s.index.forgetSegment(id)
		if err := s.root.Remove(id.path()); err != nil {
			return err
		}
		return syncFolder(s.root, segmentFolder)
	}
	return nil
}

// recovery is one scan of a segment.
//
// Records of one batch became durable together, and a batch was written only
// after the one before was durable. So what does not agree with its checksums in
// the last batch of a segment that was not closed was never acknowledged: it is
// erased or cut off. Anywhere else it was damaged: its name still answers, with
// ErrCorrupt, and if the name is lost too, the range is kept as damage.
type recovery struct {
	store   *Store
	file    file
	id      segmentID
	end     int64 // of the last record
	closed  bool
	last    uint32 // the last batch
	records int
	there   map[int64]bool // the offsets of records that the index is to know
	buffer  []byte
	gap     item // the gap before the next record
	damage  []damage
	changed bool
}

func (r *recovery) run(h segmentHeader) error {
	if err := r.findLastBatch(r.end); err != nil {
		return err
	}
	if err := walk(r.file, r.id, r.end, r.step); err != nil {
		return err
	}
	if err := r.closeTail(); err != nil {
		return err
	}
	if !h.whole && r.records > 0 {
		if _, err := r.file.WriteAt(encodeSegmentHeader(r.id), 0); err != nil {
			return err
		}
		h.erasures, r.changed = 0, true
	}
	if r.changed {
		if err := r.file.Sync(); err != nil {
			return err
		}
	}
	r.store.index.settle(r.id, r.end, h.erasures, r.damage)
	return nil
}

// closeTail decides about what lies behind the last record: zeros written ahead,
// a batch that was torn, or damage.
func (r *recovery) closeTail() error {
	switch {
	case !r.gap.isGap:
		return nil
	case !r.closed:
		r.changed = true
		return r.file.Truncate(r.end)
	case !r.gap.zero:
		if err := r.damaged(damage{r.gap.from, r.gap.to}); err != nil {
			return err
		}
	}
	r.end = r.gap.to
	return nil
}

func (r *recovery) findLastBatch(from int64) error {
	return walk(r.file, r.id, from, func(i item) error {
		if !i.isGap {
			r.last = max(r.last, i.header.batch)
		}
		return nil
	})
}

// torn reports whether a record may never have been acknowledged.
func (r *recovery) torn(h header) bool { return !r.closed && h.batch == r.last }

func (r *recovery) step(i item) error {
	if i.isGap {
		r.gap = i
		return nil
	}
	if err := r.closeGap(i.header); err != nil {
		return err
	}
	r.records++
	b, err := readBody(r.file, i.header, r.buffer)
	if err != nil {
		return err
	}
	if err := r.record(i.header, b); err != nil {
		return err
	}
	r.end = i.header.offset + i.header.size()
	return nil
}

// closeGap decides about a gap now that the record behind it is known.
func (r *recovery) closeGap(next header) error {
	gap := r.gap
	r.gap = item{}
	if !gap.isGap || gap.zero {
		return nil
	}
	if r.torn(next) {
		return r.wipe(gap.from, gap.to)
	}
	return r.damaged(damage{gap.from, gap.to})
}

func (r *recovery) record(h header, b body) error {
	switch {
	case !h.live && !b.zero: // an erasure was interrupted
		return r.blank(h)
	case !h.live:
		return nil
	case b.whole:
		r.add(h, b)
		return nil
	case r.torn(h):
		return r.wipe(h.offset, h.offset+h.size())
	case b.named:
		r.add(h, b)
		return nil
	}
	return r.damaged(damage{h.offset, h.offset + h.size()})
}

func (r *recovery) add(h header, b body) {
	r.there[h.offset] = true
	r.store.index.add(r.id, h.offset, named{b.name, location{r.id, h.offset, h.dataLen}})
}

// blank finishes an erasure.
func (r *recovery) blank(h header) error {
	r.changed = true
	if err := overwrite(r.file, h.offset+sumsAt, sumsSize, r.store.zeros); err != nil {
		return err
	}
	return overwrite(r.file, h.offset+headerSize, h.size()-headerSize, r.store.zeros)
}

// wipe makes a range a gap of zeros.
func (r *recovery) wipe(from, to int64) error {
	r.changed = true
	return overwrite(r.file, from, to-from, r.store.zeros)
}

func (r *recovery) damaged(d damage) error {
	if r.store.options.AcceptDamage {
		return r.wipe(d.from, d.to)
	}
	r.damage = append(r.damage, d)
	return nil
}
