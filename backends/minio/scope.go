package minio

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// part is a share of a scope that is listed as one: everything under a prefix,
// or all that one key has.
type part struct {
	prefix string // of keys
	exact  bool   // the prefix is a whole key, and only that is meant
}

// in reports whether a key belongs to the part. A listing of "ab" also has
// "abc".
func (p part) in(key string) bool {
	if p.exact {
		return key == p.prefix
	}
	return strings.HasPrefix(key, p.prefix)
}

// parts divides a scope: a prefix is one part, and each name is one.
func (s *Store) parts(scope backends.Scope) []part {
	if scope.Prefix != "" {
		return []part{{s.key(scope.Prefix), false}}
	}
	names := slices.Clone(scope.Names)
	slices.Sort(names)
	names = slices.Compact(names)
	parts := make([]part, len(names))
	for i, name := range names {
		parts[i] = part{s.key(name), true}
	}
	return parts
}

// visible makes sure that no object lies where a folder of the parts is. MinIO
// takes such objects and from then on lists nothing below them, though it still
// gives it out.
func (s *Store) visible(ctx context.Context, parts []part) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, folder := range foldersOf(parts) {
		group.Go(func() error {
			there, err := try(ctx, s, "list", func(ctx context.Context) (bool, error) { return s.hasVersion(ctx, folder) })
			if there {
				return fmt.Errorf("minio: an object lies where a folder is, and may hide it: %w", blobd.ErrUnavailable)
			}
			return err
		})
	}
	return group.Wait()
}

// foldersOf returns the keys that are folders of parts.
func foldersOf(parts []part) []string {
	var folders []string
	for _, p := range parts {
		for i, c := range p.prefix {
			if c == '/' {
				folders = append(folders, p.prefix[:i])
			}
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// hasVersion reports whether exactly this key has a version or marker. The key
// itself is the first of those that begin like it.
func (s *Store) hasVersion(ctx context.Context, key string) (bool, error) {
	o := minio.ListObjectsOptions{Prefix: key, WithVersions: true, MaxKeys: 1} // one level, so that nothing below is walked
	for info := range s.client.ListObjectsIter(ctx, s.bucket, o) {
		return info.Err == nil && info.Key == key, info.Err
	}
	return false, ctx.Err()
}
