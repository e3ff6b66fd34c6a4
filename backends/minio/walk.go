package minio

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd/backends"
)

// entry is one version, marker or unfinished upload.
type entry struct {
	backends.Object
	key    string
	upload bool
}

// pageSize is the longest listing and the largest batch that S3 allows.
const pageSize = 1000

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// versions walks the versions and markers whose keys start with prefix and are
// accepted by in. visit's error ends the walk.
func (s *Store) versions(ctx context.Context, prefix string, in func(key string) bool, visit func(entry) error) error {
	o := minio.ListObjectsOptions{Prefix: prefix, Recursive: true, WithVersions: true}
	for info := range s.client.ListObjectsIter(ctx, s.bucket, o) {
		if info.Err != nil {
			return info.Err
		}
		if !in(info.Key) {
			continue
		}
		err := visit(entry{key: info.Key, Object: backends.Object{
			Name: strings.TrimPrefix(info.Key, s.root), Size: info.Size, Modified: info.LastModified.UTC(), Version: info.VersionID,
		}})
		if err != nil {
			return err
		}
	}
	return ctx.Err() // the sequence ends without a word when ctx does
}

// uploads walks the unfinished uploads that the server lists for prefix and
// whose keys are accepted by in.
func (s *Store) uploads(ctx context.Context, prefix string, in func(key string) bool, visit func(entry) error) error {
	var key, id string
	for {
		page, err := s.client.ListMultipartUploads(ctx, s.bucket, prefix, key, id, "", pageSize)
		if err != nil {
			return err
		}
		for _, u := range page.Uploads {
			if !in(u.Key) {
				continue
			}
			err := visit(entry{key: u.Key, upload: true, Object: backends.Object{
				Name: strings.TrimPrefix(u.Key, s.root), Size: u.Size, Modified: u.Initiated.UTC(), Version: u.UploadID,
			}})
			if err != nil {
				return err
			}
		}
		if !page.IsTruncated {
			return nil
		}
		if page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return errShape // it would go on for ever
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// walk visits everything in a part, an upload perhaps twice.
func (s *Store) walk(ctx context.Context, p part, visit func(entry) error) error {
	if err := s.versions(ctx, p.prefix, p.in, visit); err != nil {
		return err
	}
	if err := s.uploads(ctx, p.prefix, p.in, visit); err != nil {
		return err
	}
	if p.exact || s.byFolder.Load() == uploadsByFolder {
		return nil
	}
	return s.uploads(ctx, "", p.in, visit)
}

// How a server lists unfinished uploads.
const (
	uploadsUnknown = iota
	uploadsByFolder
	uploadsByKey // and perhaps all of the bucket
)

// learnUploads finds out, once, how the server lists unfinished uploads: it
// begins one that no listing of objects shows. Whoever may not begin one takes
// the long way.
func (s *Store) learnUploads(ctx context.Context) error {
	if s.byFolder.Load() != uploadsUnknown {
		return nil
	}
	name, err := s.probeName()
	if err != nil {
		return fmt.Errorf("minio: %w", err)
	}
	folder := s.key(name) + "/"
	how, err := try(ctx, s, "probe of uploads", func(ctx context.Context) (int32, error) {
		return s.probeUploads(ctx, folder)
	})
	if err != nil {
		return err
	}
	s.byFolder.Store(how)
	return nil
}

func (s *Store) probeUploads(ctx context.Context, folder string) (int32, error) {
	key := folder + "upload"
	id, err := s.client.NewMultipartUpload(ctx, s.bucket, key, minio.PutObjectOptions{})
	if passing(err) || ctx.Err() != nil {
		return 0, err
	}
	if err != nil {
		return uploadsByKey, nil
	}
	how := int32(uploadsByKey)
	err = s.uploads(ctx, folder, part{prefix: folder}.in, func(x entry) error {
		how = uploadsByFolder
		return nil
	})
	return how, errors.Join(err, s.remove(ctx, entry{key: key, upload: true, Object: backends.Object{Version: id}}))
}
