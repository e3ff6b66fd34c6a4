package minio

import (
	"context"
	"errors"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd/backends"
)

// everywhere is all that this examination wrote.
func (e exam) everywhere() part { return part{e.key(e.name), false} }

// broken is a failure to do what an erasure does. An outage says nothing about
// tomorrow; a definite refusal does.
func broken(check, what string, err error) backends.Finding {
	if passing(err) || errors.Is(err, context.Canceled) {
		return backends.Failed(check, "%s: %s", what, why(err))
	}
	return backends.NoErasure(check, "%s: %s", what, why(err))
}

func (e exam) versions(ctx context.Context) backends.Finding {
	const check = "versions"
	n, err := try(ctx, e.Store, "list versions", func(ctx context.Context) (n int, err error) {
		p := e.everywhere()
		return n, e.Store.versions(ctx, p.prefix, p.in, func(entry) error { n++; return nil })
	})
	switch {
	case err != nil:
		return broken(check, "versions cannot be listed", err)
	case n == 0:
		return backends.Failed(check, "what was written is in no listing of versions")
	}
	return backends.Passed(check, "all versions are listed")
}

// delete writes over an object and hides it, as others may, and then erases all
// that this examination wrote.
func (e exam) delete(ctx context.Context) backends.Finding {
	const check = "delete"
	name := e.name + "-d"
	for _, body := range []string{"first", "second"} {
		if err := e.send(ctx, name, []byte(body)); err != nil {
			return backends.Failed(check, "cannot put: %s", why(err))
		}
	}
	if err := e.client.RemoveObject(ctx, e.bucket, e.key(name), minio.RemoveObjectOptions{}); err != nil {
		return broken(check, "cannot delete", err)
	}
	eraser := newEraser(e.Store)
	if err := eraser.prefix(ctx, e.everywhere()); err != nil {
		return broken(check, "versions cannot be deleted", err)
	}
	if refused := eraser.result().Refused; len(refused) > 0 {
		until := "for as long as it is held"
		if !refused[0].Until.IsZero() {
			until = "until " + refused[0].Until.Format("2006-01-02 15:04 MST")
		}
		return backends.NoErasure(check, "the store locks new objects (%s) %s", refused[0].Reason, until)
	}
	left, err := e.residue(ctx, e.everywhere(), 1)
	switch {
	case err != nil:
		return broken(check, "what is left cannot be listed", err)
	case len(left) > 0:
		return backends.NoErasure(check, "a version is still listed after it was deleted")
	}
	if got, err := e.fetch(ctx, name); !absent(err) {
		return backends.Failed(check, "a deleted object is not absent (%d bytes, %v)", len(got), err)
	}
	return backends.Passed(check, "every version and marker is deleted")
}

func (e exam) uploads(ctx context.Context) backends.Finding {
	const check = "uploads"
	key := e.key(e.name + "-u")
	id, err := e.client.NewMultipartUpload(ctx, e.bucket, key, minio.PutObjectOptions{})
	if err != nil {
		// No upload of our own to find; others may begin some.
		return backends.Warned(check, "no upload can be begun to try their end: %s", why(err))
	}
	found, err := e.listsUpload(ctx, key, id)
	abort := e.remove(ctx, entry{key: key, upload: true, Object: backends.Object{Version: id}})
	switch {
	case err != nil:
		return broken(check, "unfinished uploads cannot be listed", err)
	case abort != nil:
		return broken(check, "unfinished uploads cannot be aborted", abort)
	case !found:
		return backends.NoErasure(check, "an unfinished upload is not listed by its own name")
	}
	if still, err := e.listsUpload(ctx, key, id); err != nil || still {
		return backends.NoErasure(check, "an aborted upload is still listed")
	}
	if err := e.learnUploads(ctx); err != nil {
		return broken(check, "unfinished uploads cannot be listed", err)
	}
	if e.byFolder.Load() != uploadsByFolder {
		return backends.Warned(check, "unfinished uploads are listed by whole names only: of names that have no object, those may stay unseen (blobd begins none)")
	}
	return backends.Passed(check, "unfinished uploads are listed and aborted")
}

func (e exam) listsUpload(ctx context.Context, key, id string) (bool, error) {
	return try(ctx, e.Store, "list uploads", func(ctx context.Context) (found bool, err error) {
		err = e.Store.uploads(ctx, key, part{key, true}.in, func(x entry) error {
			found = found || x.Version == id
			return nil
		})
		return found, err
	})
}
