package minio

import (
	"context"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Get implements backends.Store.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := backends.CheckName(name); err != nil {
		return nil, fmt.Errorf("minio: get: %w", err)
	}
	data, err := try(ctx, s, "get "+name, func(ctx context.Context) ([]byte, error) { return s.get(ctx, name) })
	if err != nil && ctx.Err() == nil && absent(err) {
		return nil, fmt.Errorf("minio: get %s: %w: %w", name, blobd.ErrNotFound, err)
	}
	return data, err
}

// get is one try.
func (s *Store) get(ctx context.Context, name string) ([]byte, error) {
	return s.getUpTo(ctx, name, s.maxObject)
}

// getUpTo is one try; an object of more than limit bytes is ErrTooLarge. It reads an answer to its end, so that its connection can be
// used again.
func (s *Store) getUpTo(ctx context.Context, name string, limit int64) (_ []byte, err error) {
	body, info, _, err := s.client.GetObject(ctx, s.bucket, s.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := body.Close(); err == nil && e != nil {
			err = e
		}
	}()
	if info.Size > limit {
		return nil, fmt.Errorf("%d bytes: %w", info.Size, blobd.ErrTooLarge)
	}
	if info.Size < 0 {
		return readUnsized(body, limit)
	}
	data := make([]byte, info.Size)
	if n, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("%w: %d of %d bytes: %w", errShort, n, info.Size, err)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(body, 1)); err != nil {
		return nil, fmt.Errorf("%w: %w", errShort, err)
	}
	return data, nil
}

// readUnsized reads an answer that did not say its size.
func readUnsized(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errShort, err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("more than %d bytes: %w", limit, blobd.ErrTooLarge)
	}
	return data, nil
}

// List implements backends.Store. Keys that are no names of the contract are
// not listed.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if limit < 1 || limit > 1000 {
		return nil, fmt.Errorf("minio: list: limit %d: %w", limit, blobd.ErrInvalid)
	}
	return try(ctx, s, "list", func(ctx context.Context) ([]backends.Object, error) {
		return s.list(ctx, prefix, after, limit)
	})
}

func (s *Store) list(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	o := minio.ListObjectsOptions{Prefix: s.root + prefix, Recursive: true, MaxKeys: limit, FetchOwner: new(bool)}
	if after != "" {
		o.StartAfter = s.root + after
	}
	var found []backends.Object
	for info := range s.client.ListObjectsIter(ctx, s.bucket, o) {
		if info.Err != nil {
			return nil, info.Err
		}
		name, ok := s.nameOf(info.Key)
		if !ok || name <= after {
			continue
		}
		found = append(found, backends.Object{Name: name, Size: info.Size, Modified: info.LastModified.UTC()})
		if len(found) == limit {
			return found, nil
		}
	}
	// The sequence ends without a word when ctx does.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return found, nil
}
