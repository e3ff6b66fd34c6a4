package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// unit is a part of a scope: what one listing can look through.
type unit struct {
	prefix string              // of keys
	keys   map[string]struct{} // nil: every key under prefix
}

func exactly(key string) unit { return unit{key, map[string]struct{}{key: {}}} }

func (u unit) has(key string) bool {
	if u.keys == nil {
		return strings.HasPrefix(key, u.prefix)
	}
	_, ok := u.keys[key]
	return ok
}

// folderWorth is how many names of one folder are cheaper to find by listing the
// folder than by a listing for each.
const folderWorth = 32

// units cuts a checked scope up.
func (s *Store) units(scope backends.Scope) []unit {
	if scope.Prefix != "" {
		return []unit{{prefix: s.key(scope.Prefix)}}
	}
	folders := make(map[string]map[string]struct{})
	for _, name := range scope.Names {
		folder := name[:strings.LastIndexByte(name, '/')+1]
		if folders[folder] == nil {
			folders[folder] = make(map[string]struct{})
		}
		folders[folder][s.key(name)] = struct{}{}
	}
	var all []unit
	for folder, keys := range folders {
		if len(keys) >= folderWorth && folder != "" {
			all = append(all, unit{s.key(folder), keys})
			continue
		}
		for key := range keys {
			all = append(all, exactly(key))
		}
	}
	slices.SortFunc(all, func(a, b unit) int { return strings.Compare(a.prefix, b.prefix) })
	return all
}

// version is one version, delete marker or unfinished upload of a key.
type version struct {
	key      string
	id       string // "null" for what was written without versioning
	size     int64
	modified time.Time
}

func (s *Store) object(v version) backends.Object {
	return backends.Object{Name: strings.TrimPrefix(v.key, s.root), Size: v.size, Modified: v.modified, Version: v.id}
}

// eachVersions calls use with the versions and delete markers of a unit, a page
// at a time. What is deleted meanwhile may make a server skip entries, so only a
// walk that found nothing proves that nothing is there.
func (s *Store) eachVersions(ctx context.Context, u unit, use func([]version) error) error {
	in := &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &u.prefix, MaxKeys: aws.Int32(pageMost)}
	for {
		var out *s3.ListObjectVersionsOutput
		err := s.do(ctx, func(ctx context.Context) (err error) {
			if out, err = s.client.ListObjectVersions(ctx, in); err != nil {
				return err
			}
			return s.isListing(out.Name)
		})
		if err != nil {
			return fmt.Errorf("list versions: %w", err)
		}
		if page := versionsOf(out, u); len(page) > 0 {
			if err := use(page); err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		// Both markers: the versions of one key may span pages.
		if aws.ToString(out.NextKeyMarker) == "" || aws.ToString(out.NextKeyMarker) == aws.ToString(in.KeyMarker) &&
			aws.ToString(out.NextVersionIdMarker) == aws.ToString(in.VersionIdMarker) {
			return fmt.Errorf("list versions: more to come and no way on: %w", blobd.ErrUnavailable)
		}
		in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, out.NextVersionIdMarker
	}
}

func versionsOf(out *s3.ListObjectVersionsOutput, u unit) []version {
	var page []version
	for _, v := range out.Versions {
		if key := aws.ToString(v.Key); u.has(key) {
			page = append(page, version{key, orNull(v.VersionId), aws.ToInt64(v.Size), utc(v.LastModified)})
		}
	}
	for _, m := range out.DeleteMarkers {
		if key := aws.ToString(m.Key); u.has(key) {
			page = append(page, version{key, orNull(m.VersionId), 0, utc(m.LastModified)})
		}
	}
	return page
}

// orNull is the id of a version that has none.
func orNull(id *string) string { return cmp.Or(aws.ToString(id), "null") }

// eachUploads calls use with the unfinished uploads of a unit. Some servers list
// them by a folder, others only by the whole key, or all of the bucket: with
// those, every key of the unit is asked for, and those in keys.
func (s *Store) eachUploads(ctx context.Context, u unit, keys []string, use func([]version) error) error {
	byFolder, err := s.uploadsByFolder(ctx)
	if err != nil {
		return err
	}
	if byFolder {
		return s.eachUploadsUnder(ctx, u.prefix, u, use)
	}
	for key := range u.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var mu sync.Mutex // use is called by one at a time, and once for each upload
	seen := make(map[version]struct{})
	once := func(found []version) error {
		mu.Lock()
		defer mu.Unlock()
		found = slices.DeleteFunc(found, func(v version) bool {
			_, again := seen[v.named()]
			seen[v.named()] = struct{}{}
			return again
		})
		return use(found)
	}
	if u.keys == nil {
		if err := s.eachUploadsUnder(ctx, "", u, once); err != nil {
			return err
		}
	}
	return each(ctx, len(keys), func(ctx context.Context, i int) error {
		return s.eachUploadsUnder(ctx, keys[i], exactly(keys[i]), once)
	})
}

func (s *Store) eachUploadsUnder(ctx context.Context, prefix string, u unit, use func([]version) error) error {
	in := &s3.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: &prefix, MaxUploads: aws.Int32(pageMost)}
	for {
		var out *s3.ListMultipartUploadsOutput
		err := s.do(ctx, func(ctx context.Context) (err error) {
			if out, err = s.client.ListMultipartUploads(ctx, in); err != nil {
				return err
			}
			return s.isListing(out.Bucket)
		})
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		var page []version
		for _, up := range out.Uploads {
			if key := aws.ToString(up.Key); u.has(key) {
				page = append(page, version{key, aws.ToString(up.UploadId), 0, utc(up.Initiated)})
			}
		}
		if len(page) > 0 {
			if err := use(page); err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		if aws.ToString(out.NextKeyMarker) == "" || aws.ToString(out.NextKeyMarker) == aws.ToString(in.KeyMarker) &&
			aws.ToString(out.NextUploadIdMarker) == aws.ToString(in.UploadIdMarker) {
			return fmt.Errorf("list uploads: more to come and no way on: %w", blobd.ErrUnavailable)
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

// How a server lists unfinished uploads.
const (
	uploadsUnknown = iota
	uploadsByFolder
	uploadsByKey
)

// uploadsByFolder finds out, once, by an upload of its own in the scratch folder.
func (s *Store) uploadsByFolder(ctx context.Context) (bool, error) {
	if how := s.byFolder.Load(); how != uploadsUnknown {
		return how == uploadsByFolder, nil
	}
	key, err := s.scratchKey()
	if err != nil {
		return false, err
	}
	folder := key + "/"
	key = folder + "upload"
	id, err := s.createUpload(ctx, key)
	if isDenied(err) || isUnknown(err) { // cannot be found out: the more thorough way
		s.byFolder.Store(uploadsByKey)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found := false
	err = s.eachUploadsUnder(ctx, folder, unit{prefix: folder}, func([]version) error { found = true; return nil })
	if err := errors.Join(err, s.abort(ctx, version{key: key, id: id})); err != nil {
		return false, err
	}
	how := int32(uploadsByKey)
	if found {
		how = uploadsByFolder
	}
	s.byFolder.Store(how)
	return found, nil
}

func (s *Store) createUpload(ctx context.Context, key string) (id string, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &key})
		if err != nil {
			return err
		}
		id = aws.ToString(out.UploadId)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("create an upload: %w", err)
	}
	return id, nil
}

// atOnce is how many requests one call may have on the way.
const atOnce = 16

// each calls do with 0 to n-1, several at a time, until one fails.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(atOnce, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
