package fs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// found is a record as read.
type found struct {
	fate   fate
	header header
	data   []byte // nil unless live
}

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, classify("get", err)
	}
	defer s.life.RUnlock()
	data, err := s.get(name)
	if err != nil {
		return nil, classify("get", fmt.Errorf("%s: %w", name, err))
	}
	return data, nil
}

func (s *Store) get(name string) ([]byte, error) {
	if err := backends.CheckName(name); err != nil {
		// The name is not ours, so it is not repeated either.
		return nil, err
	}
	l, ok, err := s.index.newest(name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.absent()
	}
	f, err := s.newestLive(name, l)
	switch {
	case err != nil:
		return nil, err
	case f.fate == dead:
		return nil, s.absent()
	case f.fate == damaged:
		return nil, fmt.Errorf("the record is damaged: %w", blobd.ErrCorrupt)
	}
	return f.data, nil
}

// absent is the answer for a name without a record. It is ErrNotFound unless the
// store has ranges that may have held one.
func (s *Store) absent() error {
	if err := s.index.damaged(); err != nil {
		return err
	}
	return blobd.ErrNotFound
}

// newestLive reads the record at l, and older ones of the name where that one was
// erased. Its fate is dead when all were.
func (s *Store) newestLive(name string, l location) (found, error) {
	f, err := s.readRecord(named{name, l})
	if err != nil || f.fate != dead {
		return f, err
	}
	records, err := s.index.all(name)
	if err != nil {
		return found{}, err
	}
	for _, n := range records {
		if n.location == l {
			continue
		}
		if f, err = s.readRecord(n); err != nil || f.fate != dead {
			return f, err
		}
	}
	return found{fate: dead}, nil
}

func (s *Store) readRecord(n named) (f found, err error) {
	err = s.handles.use(n.segment, func(file file) error {
		f.fate, f.header, f.data, err = readRecord(file, n)
		return err
	})
	return f, s.lost(n, &f, err)
}

func (s *Store) readHeader(n named) (f found, err error) {
	err = s.handles.use(n.segment, func(file file) error {
		f.fate, f.header, err = readHeader(file, n)
		return err
	})
	return f, s.lost(n, &f, err)
}

// lost judges a segment file that is not there. It is removed only after the
// index forgot its records; if the index still has this one, the file is lost.
func (s *Store) lost(n named, f *found, err error) error {
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	records, err := s.index.all(n.name)
	if err != nil {
		return err
	}
	f.fate = dead
	for _, r := range records {
		if r == n {
			f.fate = damaged
		}
	}
	return nil
}

// List implements backends.Store. Every listed record's header was read.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if err := s.enter(ctx); err != nil {
		return nil, classify("list", err)
	}
	defer s.life.RUnlock()
	if limit < 1 || limit > 1000 {
		return nil, classify("list", fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	objects, err := s.list(ctx, prefix, after, limit)
	if err != nil {
		return nil, classify("list", err)
	}
	return objects, nil
}

func (s *Store) list(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	var objects []backends.Object
	for {
		page, err := s.index.page(prefix, after, limit)
		if err != nil || len(page) == 0 {
			return objects, err
		}
		for _, n := range page {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if len(objects) > 0 && objects[len(objects)-1].Name == n.name {
				continue // an older record of the same name
			}
			f, err := s.readHeader(n)
			if err != nil {
				return nil, err
			}
			if f.fate == dead {
				continue
			}
			if objects = append(objects, object(n, f)); len(objects) == limit {
				return objects, nil
			}
		}
		after = page[len(page)-1].name
	}
}

// object describes a record. One that is damaged has no time.
func object(n named, f found) backends.Object {
	o := backends.Object{Name: n.name, Size: n.dataLen}
	if f.fate == live {
		o.Modified = f.header.modified()
	}
	return o
}
