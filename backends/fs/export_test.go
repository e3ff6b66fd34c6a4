package fs

// File is what a test puts faults into.
type File = file

// OpenWrapped opens a store whose segments are wrapped.
func OpenWrapped(folder string, o Options, wrap func(File) File) (*Store, error) {
	s, err := open(folder, o, func(_ segmentID, f file) file { return wrap(f) })
	if err != nil {
		return nil, classify("open", err)
	}
	return s, nil
}

// OpenSegments returns how many segments are open for reading.
func (s *Store) OpenSegments() int {
	s.handles.mu.Lock()
	defer s.handles.mu.Unlock()
	return s.handles.recent.Len()
}

// Crash lets go of the folder as a killed process would: nothing is completed.
func (s *Store) Crash() {
	s.life.Lock()
	defer s.life.Unlock()
	s.closed = true
	if s.writer != nil {
		_ = s.writer.file.Close()
	}
	s.handles.closeAll()
	_ = s.index.table.db.Close()
	_ = s.lock.Close()
	_ = s.root.Close()
}

// QueuedPuts returns how many puts wait for a batch.
func (s *Store) QueuedPuts() int { return s.puts.Queued() }
