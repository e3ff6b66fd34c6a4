package fs

import "errors"

// writer is the segment being written.
type writer struct {
	id        segmentID
	file      file
	end       int64 // where the next record goes; all before is durable
	allocated int64 // the file is written up to here, behind end with zeros
	limit     int64 // no zeros are written behind this offset
	batch     uint32
	unsynced  bool // an fsync failed
	zeros     []byte
}

// append writes records behind each other and makes them durable. Now and then
// it writes zeros ahead in the same call: an fdatasync of bytes that overwrite
// others needs no journal commit of the filesystem.
func (w *writer) append(fresh []*put) error {
	w.batch++
	end := w.end
	for _, p := range fresh {
		p.offset = end
		placeRecord(*p.buffer, w.id, end, w.batch)
		end += int64(len(*p.buffer))
	}
	ahead := w.ahead(end)
	err := w.file.WriteVectors(w.vectors(fresh, ahead), w.end)
	if err != nil && ahead > 0 {
		// The disk may have room for the records and not for zeros.
		w.limit, ahead = 0, 0
		err = w.file.WriteVectors(w.vectors(fresh, 0), w.end)
	}
	if err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		w.unsynced = true
		return err
	}
	w.end = end
	w.allocated = max(w.allocated, end+ahead)
	return nil
}

func (w *writer) vectors(fresh []*put, ahead int64) [][]byte {
	buffers := make([][]byte, 0, len(fresh)+1)
	for _, p := range fresh {
		buffers = append(buffers, *p.buffer)
	}
	if ahead > 0 {
		buffers = append(buffers, w.zeros[:ahead])
	}
	return buffers
}

// ahead returns how many zeros to write behind a batch that ends at end. A batch
// that would use up an eighth of them is large enough to bear its own commit.
func (w *writer) ahead(end int64) int64 {
	if end <= w.allocated || end-w.end > int64(len(w.zeros))/8 {
		return 0
	}
	return max(0, min(int64(len(w.zeros)), w.limit-end))
}

// takeBack cuts off what a failed write left. It reports whether the segment can
// be written on.
func (w *writer) takeBack() bool {
	err := w.file.Truncate(w.end)
	w.allocated = w.end
	return err == nil && !w.unsynced
}

// close cuts off the zeros ahead and notes that the segment is whole: what does
// not agree with its checksums from now on was damaged and not torn.
func (w *writer) close() error {
	err := w.file.Truncate(w.end)
	if err == nil && !w.unsynced {
		err = writeUint64(w.file, closedAt, uint64(w.end))
	}
	if err == nil && !w.unsynced {
		err = w.file.Sync()
	}
	return errors.Join(err, w.file.Close())
}
