package s3

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// pageMost is the most that one listing or one delete takes.
const pageMost = 1000

// List implements backends.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if limit < 1 || limit > pageMost {
		return nil, classify("list", fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid))
	}
	found, err := s.list(ctx, prefix, after, limit)
	if err != nil {
		return nil, classify("list", err)
	}
	return found, nil
}

func (s *Store) list(ctx context.Context, prefix, after string, limit int) ([]backends.Object, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	// Servers differ in what they make of a start that does not begin with the
	// prefix, so it is not put to them.
	if after != "" && !strings.HasPrefix(after, prefix) {
		if after > prefix {
			return nil, nil // all that begins with prefix sorts before it
		}
		after = ""
	}
	var found []backends.Object
	for {
		page, more, err := s.listPage(ctx, prefix, after, limit-len(found))
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			after = strings.TrimPrefix(aws.ToString(o.Key), s.root)
			if !strings.HasPrefix(after, scratch) {
				found = append(found, backends.Object{
					Name: after, Size: aws.ToInt64(o.Size), Modified: utc(o.LastModified),
				})
			}
		}
		if !more || len(found) == limit {
			return found, nil
		}
	}
}

// listPage returns objects in byte order, all of them after after.
func (s *Store) listPage(ctx context.Context, prefix, after string, limit int) (page []types.Object, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.key(prefix)), MaxKeys: aws.Int32(int32(limit))}
	if after != "" {
		in.StartAfter = aws.String(s.key(after))
	}
	err = s.do(ctx, func(ctx context.Context) error {
		out, err := s.client.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		page, more = out.Contents, aws.ToBool(out.IsTruncated)
		return s.isListing(out.Name)
	})
	if err != nil {
		return nil, false, err
	}
	last := aws.ToString(in.StartAfter)
	for _, o := range page {
		if key := aws.ToString(o.Key); key <= last || !strings.HasPrefix(key, *in.Prefix) {
			return nil, false, fmt.Errorf("the listing is not in byte order: %w", blobd.ErrUnavailable)
		}
		last = *o.Key
	}
	if more && len(page) == 0 {
		return nil, false, fmt.Errorf("a listing with more to come and nothing in it: %w", blobd.ErrUnavailable)
	}
	return page, more, nil
}

// isListing accepts an answer that names our bucket. Any other well-formed page
// reads as an empty listing, and an empty listing is a proof.
func (s *Store) isListing(bucket *string) error {
	if aws.ToString(bucket) != s.bucket {
		return fmt.Errorf("%w: the answer is no listing of the bucket", errAgain)
	}
	return nil
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
