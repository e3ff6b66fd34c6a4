package minio

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

// deleteBatch deletes at most a page of versions and any number of uploads. Each ends as taken, as refused
// or as an error.
func (e *eraser) deleteBatch(ctx context.Context, batch []entry) error {
	var versions, single []entry
	for _, x := range batch {
		if x.upload {
			single = append(single, x)
		} else {
			versions = append(versions, x)
		}
	}
	if len(versions) > 0 {
		left, err := e.deleteMany(ctx, versions)
		if err != nil {
			return err
		}
		single = append(single, left...)
	}
	return e.deleteEach(ctx, single)
}

// deleteMany is one request for many versions. It returns those that the
// answer does not name as deleted.
func (e *eraser) deleteMany(ctx context.Context, versions []entry) ([]entry, error) {
	confirmed, err := try(ctx, e.s, "erase: delete", func(ctx context.Context) (map[string]bool, error) {
		return e.s.multiDelete(ctx, versions)
	})
	if unsupported(err) {
		return versions, nil // one by one, then
	}
	if err != nil {
		return nil, err
	}
	var left []entry
	for _, x := range versions {
		if confirmed[x.id()] {
			e.took(x)
		} else {
			left = append(left, x)
		}
	}
	return left, nil
}

// multiDelete returns the ids that the answer names as deleted. minio-go keeps
// silent about some of the others, so failures are found by their absence.
func (s *Store) multiDelete(ctx context.Context, versions []entry) (map[string]bool, error) {
	objects := func(yield func(minio.ObjectInfo) bool) {
		for _, x := range versions {
			if !yield(minio.ObjectInfo{Key: x.key, VersionID: x.Version}) {
				return
			}
		}
	}
	results, err := s.client.RemoveObjectsWithIter(ctx, s.bucket, objects, minio.RemoveObjectsOptions{})
	if err != nil {
		return nil, err
	}
	confirmed := make(map[string]bool, len(versions))
	for r := range results {
		switch {
		case r.Err == nil:
			confirmed[r.ObjectName+"\x00"+r.ObjectVersionID] = true
		case !perKey(r.Err):
			return nil, r.Err
		}
	}
	return confirmed, ctx.Err() // the sequence ends without a word when ctx does
}

// perKey reports an error that a 200 answer gave for one of its keys: it has a
// code and no status.
func perKey(err error) bool {
	var a minio.ErrorResponse
	return errors.As(err, &a) && a.StatusCode == 0
}

// deleteEach deletes entries one by one, several at a time.
func (e *eraser) deleteEach(ctx context.Context, entries []entry) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, x := range entries {
		group.Go(func() error { return e.deleteOne(ctx, x) })
	}
	return group.Wait()
}

func (e *eraser) deleteOne(ctx context.Context, x entry) error {
	op := "erase: delete " + x.Name
	_, err := try(ctx, e.s, op, func(ctx context.Context) (struct{}, error) { return struct{}{}, e.s.remove(ctx, x) })
	if err == nil {
		e.took(x)
		return nil
	}
	if x.upload || ctx.Err() != nil {
		return err
	}
	refusal, locked, lockErr := e.s.refusal(ctx, x, err)
	switch {
	case lockErr != nil:
		return fmt.Errorf("%w (whether it is locked: %w)", err, lockErr)
	case !locked:
		return err
	}
	e.refuse(x, refusal)
	return nil
}

// remove is one request. What is gone already is fine.
func (s *Store) remove(ctx context.Context, x entry) error {
	if x.upload {
		err := s.client.AbortMultipartUpload(ctx, s.bucket, x.key, x.Version)
		if code(err) == "NoSuchUpload" {
			return nil
		}
		return err
	}
	err := s.client.RemoveObject(ctx, s.bucket, x.key, minio.RemoveObjectOptions{VersionID: x.Version})
	if absent(err) || code(err) == "NoSuchVersion" {
		return nil
	}
	return err
}

// unless returns nil for an error that is fine.
func unless(err, fine error) error {
	if errors.Is(err, fine) {
		return nil
	}
	return err
}

func compare(a1, b1, a2, b2 string) int { return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2)) }
