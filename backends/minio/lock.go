package minio

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd/backends"
)

// refusal finds out whether the store would not delete a version because it is
// locked. The code of a refused delete does not tell: MinIO calls it an invalid
// request, others deny access as they do to one who may not delete.
func (s *Store) refusal(ctx context.Context, x entry, refused error) (backends.Refusal, bool, error) {
	r := backends.Refusal{Name: x.Name, Version: x.Version, Reason: code(refused)}
	if r.Reason == "" {
		return r, false, nil
	}
	l, err := try(ctx, s, "erase: lock of "+x.Name, func(ctx context.Context) (lock, error) { return s.lockOf(ctx, x) })
	if err != nil {
		return r, false, err
	}
	if !l.hold { // a hold has no date
		r.Until = l.until
	}
	return r, l.hold || !l.until.IsZero(), nil
}

// lock is what keeps a version from being deleted.
type lock struct {
	until time.Time // zero: no retention
	hold  bool
}

// lockOf asks for a version's headers: servers do not agree on what the requests
// for a retention and for a hold are answered with. versitygw keeps the bucket's
// default out of them and obeys it.
func (s *Store) lockOf(ctx context.Context, x entry) (lock, error) {
	var seen witness
	info, err := s.client.StatObject(seen.in(ctx), s.bucket, x.key, minio.StatObjectOptions{VersionID: x.Version})
	if err != nil {
		return lock{}, err
	}
	l := lock{hold: info.Headers.Get("X-Amz-Object-Lock-Legal-Hold") == "ON"}
	if until := info.Headers.Get("X-Amz-Object-Lock-Retain-Until-Date"); until != "" {
		l.until, err = time.Parse(time.RFC3339, until)
		if err != nil {
			return l, fmt.Errorf("%w: retained until %q", errShape, until)
		}
	}
	if l.hold || !l.until.IsZero() {
		l.until = l.until.UTC()
		return l, nil
	}
	now, err := http.ParseTime(seen.date)
	if err != nil {
		return l, fmt.Errorf("%w: no date", errShape)
	}
	until, err := s.byDefault(ctx, info.LastModified)
	if until.After(now) {
		l.until = until.UTC()
	}
	return l, err
}

// byDefault returns how long the bucket's default keeps what was stored at a
// time; zero where it has none.
func (s *Store) byDefault(ctx context.Context, stored time.Time) (time.Time, error) {
	mode, length, unit, err := s.client.GetBucketObjectLockConfig(ctx, s.bucket)
	switch {
	case unset(err):
		return time.Time{}, nil
	case err != nil || mode == nil || length == nil || unit == nil:
		return time.Time{}, err
	case *unit == minio.Years:
		return stored.AddDate(int(*length), 0, 0), nil
	}
	return stored.AddDate(0, 0, int(*length)), nil
}
