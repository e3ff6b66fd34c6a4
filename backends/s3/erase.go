package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// passMost bounds how often a scope is listed again because the last listing
// still found something. Each pass deletes all that it saw.
const passMost = 20

// Erase implements backends.Store: every version and marker that a listing
// shows is deleted by its id, unfinished uploads are aborted, and both are
// repeated until a listing shows nothing but what was refused. It never makes a
// delete marker and never asks to bypass a lock.
func (s *Store) Erase(ctx context.Context, scope backends.Scope) (backends.Erased, error) {
	if err := backends.CheckScope(scope); err != nil {
		return backends.Erased{}, classify("erase", err)
	}
	units := s.units(scope)
	if err := s.visible(ctx, units); err != nil {
		return backends.Erased{}, classify("erase", err)
	}
	erased, err := s.eraseUnits(ctx, units)
	return erased, classify("erase", err)
}

// Residue implements backends.Store.
func (s *Store) Residue(ctx context.Context, scope backends.Scope, limit int) ([]backends.Object, error) {
	err := backends.CheckScope(scope)
	if err == nil && limit < 1 {
		err = fmt.Errorf("limit %d: %w", limit, blobd.ErrInvalid)
	}
	if err != nil {
		return nil, classify("residue", err)
	}
	units := s.units(scope)
	if err := s.visible(ctx, units); err != nil {
		return nil, classify("residue", err)
	}
	left, err := s.residue(ctx, units, limit)
	if err != nil {
		return nil, classify("residue", err)
	}
	return left, nil
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

func (s *Store) residue(ctx context.Context, units []unit, limit int) ([]backends.Object, error) {
	var mu sync.Mutex
	var left []backends.Object // guarded by mu
	err := each(ctx, len(units), func(ctx context.Context, i int) error {
		var keys []string
		take := func(page []version) error {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range page {
				if len(left) == limit {
					return errEnough
				}
				keys = append(keys, v.key)
				left = append(left, s.object(v))
			}
			return nil
		}
		if err := s.eachVersions(ctx, units[i], take); err != nil {
			return err
		}
		return s.eachUploads(ctx, units[i], slices.Clone(keys), take)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return left, nil
}

// eraseUnits erases, several units at a time.
func (s *Store) eraseUnits(ctx context.Context, units []unit) (backends.Erased, error) {
	var mu sync.Mutex
	var total backends.Erased // guarded by mu
	err := each(ctx, len(units), func(ctx context.Context, i int) error {
		w := s.work(units[i])
		err := w.erase(ctx)
		mu.Lock()
		defer mu.Unlock()
		total.Objects += len(w.died)
		total.Versions += w.versions
		total.Refused = append(total.Refused, slices.Collect(maps.Values(w.refused))...)
		return err
	})
	slices.SortFunc(total.Refused, func(a, b backends.Refusal) int {
		return slices.Compare([]string{a.Name, a.Version}, []string{b.Name, b.Version})
	})
	return total, err
}

// work is the erasure of one unit.
type work struct {
	store    *Store
	unit     unit
	died     map[string]struct{} // keys of which something was deleted
	versions int
	refused  map[version]backends.Refusal
}

func (s *Store) work(u unit) *work {
	return &work{store: s, unit: u, died: make(map[string]struct{}), refused: make(map[version]backends.Refusal)}
}

func (w *work) erase(ctx context.Context) error {
	if err := w.passes(ctx, w.versionPass); err != nil {
		return err
	}
	return w.passes(ctx, w.uploadPass)
}

// passes repeats a pass until it found nothing to delete.
func (w *work) passes(ctx context.Context, pass func(context.Context) (found int, err error)) error {
	for range passMost {
		found, err := pass(ctx)
		if err != nil || found == 0 {
			return err
		}
	}
	return fmt.Errorf("after %d passes the store still lists what it said was deleted: %w", passMost, blobd.ErrUnavailable)
}

func (w *work) versionPass(ctx context.Context) (found int, err error) {
	err = w.store.eachVersions(ctx, w.unit, func(page []version) error {
		page = slices.DeleteFunc(page, w.isRefused)
		found += len(page)
		return w.deleteVersions(ctx, page)
	})
	return found, err
}

func (w *work) isRefused(v version) bool {
	_, ok := w.refused[v.named()]
	return ok
}

// named is a version without what a listing adds.
func (v version) named() version { return version{key: v.key, id: v.id} }

func (w *work) deleteVersions(ctx context.Context, page []version) error {
	for batch := range slices.Chunk(page, pageMost) {
		result, err := w.store.deleteBatch(ctx, batch)
		for _, v := range result.deleted {
			w.died[v.key] = struct{}{}
			w.versions++
		}
		if err != nil {
			return fmt.Errorf("delete versions: %w", err)
		}
		for _, no := range result.rejected {
			r, err := w.store.refusal(ctx, no)
			if err != nil {
				return fmt.Errorf("delete a version: %w", err)
			}
			w.refused[no.named()] = r
		}
	}
	return nil
}

// uploadPass aborts unfinished uploads, also those of keys whose versions died.
func (w *work) uploadPass(ctx context.Context) (found int, err error) {
	var uploads []version
	err = w.store.eachUploads(ctx, w.unit, slices.Collect(maps.Keys(w.died)), func(page []version) error {
		uploads = append(uploads, page...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, u := range uploads {
		if err := w.store.abort(ctx, u); err != nil {
			return 0, err
		}
		w.died[u.key] = struct{}{}
		w.versions++
	}
	return len(uploads), nil
}

// abort ends an unfinished upload; one that is gone is fine.
func (s *Store) abort(ctx context.Context, u version) error {
	err := s.do(ctx, func(ctx context.Context) error {
		_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: &s.bucket, Key: &u.key, UploadId: &u.id,
		})
		if codeOf(err) == "NoSuchUpload" {
			return nil // the listing that follows is the proof
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("abort an upload: %w", err)
	}
	return nil
}

// refusal turns a version that the store would not delete into what an erasure
// reports, if a lock is the reason. Any other reason is the error itself.
func (s *Store) refusal(ctx context.Context, no rejection) (backends.Refusal, error) {
	r := backends.Refusal{Name: s.object(no.version).Name, Version: no.id, Reason: no.code}
	var head *s3.HeadObjectOutput
	err := s.do(ctx, func(ctx context.Context) (err error) {
		head, err = s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &no.key, VersionId: &no.id})
		return err
	})
	if err != nil {
		return r, fmt.Errorf("%w, and whether it is locked cannot be told: %w", no.err(), err)
	}
	held := head.ObjectLockLegalHoldStatus == "ON"
	if head.ObjectLockMode == "" && !held {
		return r, no.err()
	}
	if !held {
		r.Until = utc(head.ObjectLockRetainUntilDate)
	}
	r.Reason = string(head.ObjectLockMode)
	if held {
		r.Reason = "LEGAL_HOLD"
	}
	return r, nil
}
