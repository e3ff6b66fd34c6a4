package fs

import (
	"container/list"
	"os"
	"sync"
)

// handles keeps a bounded number of segments open for reading and closes the
// least recently used first.
type handles struct {
	open  func(segmentID, int) (file, error)
	limit int

	mu     sync.Mutex
	byID   map[segmentID]*list.Element // guarded by mu; of *handle
	recent *list.List                  // guarded by mu; the last used at the front
}

// handle is an open segment. The last who uses it closes it.
type handle struct {
	file
	id    segmentID
	users int // guarded by handles.mu; the list is one of them
}

func newHandles(limit int, open func(segmentID, int) (file, error)) *handles {
	return &handles{open: open, limit: limit, byID: make(map[segmentID]*list.Element), recent: list.New()}
}

// use calls do with an open segment.
func (h *handles) use(id segmentID, do func(file) error) error {
	f, err := h.take(id)
	if err != nil {
		return err
	}
	defer h.release(f)
	return do(f)
}

func (h *handles) take(id segmentID) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byID[id]; ok {
		h.recent.MoveToFront(e)
		f := e.Value.(*handle)
		f.users++
		return f, nil
	}
	opened, err := h.open(id, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := &handle{opened, id, 2}
	h.byID[id] = h.recent.PushFront(f)
	if h.recent.Len() > h.limit {
		h.remove(h.recent.Back())
	}
	return f, nil
}

func (h *handles) release(f *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(f)
}

// drop needs mu.
func (h *handles) drop(f *handle) {
	if f.users--; f.users == 0 {
		_ = f.Close() // it was only read
	}
}

// remove needs mu.
func (h *handles) remove(e *list.Element) {
	f := h.recent.Remove(e).(*handle)
	delete(h.byID, f.id)
	h.drop(f)
}

func (h *handles) forget(id segmentID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byID[id]; ok {
		h.remove(e)
	}
}

func (h *handles) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.recent.Len() > 0 {
		h.remove(h.recent.Back())
	}
}
