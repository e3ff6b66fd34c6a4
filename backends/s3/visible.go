package s3

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
)

// visible makes sure that no object lies where a folder of the units is. MinIO
// takes such objects and from then on lists nothing below them, though it still
// gives it out: a listing would prove an absence that is none.
func (s *Store) visible(ctx context.Context, units []unit) error {
	folders := foldersOf(units)
	return each(ctx, len(folders), func(ctx context.Context, i int) error {
		there, err := s.hasVersion(ctx, folders[i])
		if err == nil && there {
			err = fmt.Errorf("an object lies where a folder is, and may hide it: %w", blobd.ErrUnavailable)
		}
		return err
	})
}

// foldersOf returns the keys that are folders of units, each once.
func foldersOf(units []unit) []string {
	var folders []string
	for _, u := range units {
		for i, c := range u.prefix {
			if c == '/' {
				folders = append(folders, u.prefix[:i])
			}
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// hasVersion reports whether exactly this key has a version or marker. The key
// itself is the first of those that begin like it.
func (s *Store) hasVersion(ctx context.Context, key string) (there bool, err error) {
	in := &s3.ListObjectVersionsInput{Bucket: &s.bucket, Prefix: &key, Delimiter: aws.String("/"), MaxKeys: aws.Int32(1)}
	err = s.do(ctx, func(ctx context.Context) error {
		out, err := s.client.ListObjectVersions(ctx, in)
		if err != nil {
			return err
		}
		there = len(versionsOf(out, exactly(key))) > 0
		return s.isListing(out.Name)
	})
	if err != nil {
		return false, fmt.Errorf("list versions: %w", err)
	}
	return there, nil
}
