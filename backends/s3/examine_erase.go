package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// everywhere is all that this examination wrote.
func (e exam) everywhere() unit { return unit{prefix: e.key} }

// broken is a failure to do what an erasure does. An outage says nothing about
// tomorrow; a definite refusal does.
func broken(check, what string, err error) backends.Finding {
	if retryable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return backends.Failed(check, "%s: %s", what, why(err))
	}
	return backends.NoErasure(check, "%s: %s", what, why(err))
}

func (e exam) versions(ctx context.Context) backends.Finding {
	const check = "versions"
	n := 0
	err := e.eachVersions(ctx, e.everywhere(), func(page []version) error { n += len(page); return nil })
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
	key := e.key + "-d"
	for _, body := range []string{"first", "second"} {
		_, err := e.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &e.bucket, Key: &key, Body: strings.NewReader(body)})
		if err != nil {
			return backends.Failed(check, "cannot put: %s", why(err))
		}
	}
	if _, err := e.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &e.bucket, Key: &key}); err != nil {
		return broken(check, "cannot delete", err)
	}
	erased, err := e.eraseUnits(ctx, []unit{e.everywhere()})
	if err != nil {
		return broken(check, "versions cannot be deleted", err)
	}
	if len(erased.Refused) > 0 {
		no := erased.Refused[0]
		until := "for as long as it is held"
		if !no.Until.IsZero() {
			until = "until " + no.Until.Format("2006-01-02 15:04 MST")
		}
		return backends.NoErasure(check, "the store locks new objects (%s) %s", no.Reason, until)
	}
	left, err := e.residue(ctx, []unit{e.everywhere()}, 1)
	switch {
	case err != nil:
		return broken(check, "what is left cannot be listed", err)
	case len(left) > 0:
		return backends.NoErasure(check, "a version is still listed after it was deleted")
	}
	if _, err := e.get(ctx, key); !errors.Is(err, blobd.ErrNotFound) {
		return backends.Failed(check, "a deleted object is not absent (%v)", err)
	}
	return backends.Passed(check, "every version and marker is deleted")
}

func (e exam) uploads(ctx context.Context) backends.Finding {
	const check = "uploads"
	key := e.key + "-u"
	id, err := e.createUpload(ctx, key)
	if err != nil {
		// No upload of our own to find; others may begin some.
		return backends.Warned(check, "no upload can be begun to try their end: %s", why(err))
	}
	found, err := e.listsUpload(ctx, key, id)
	if err != nil {
		return broken(check, "unfinished uploads cannot be listed", err)
	}
	if err := e.abort(ctx, version{key: key, id: id}); err != nil {
		return broken(check, "unfinished uploads cannot be aborted", err)
	}
	if !found {
		return backends.NoErasure(check, "an unfinished upload is not listed by its own name")
	}
	if left, err := e.listsUpload(ctx, key, id); err != nil || left {
		return backends.NoErasure(check, "an aborted upload is still listed")
	}
	byFolder, err := e.uploadsByFolder(ctx)
	switch {
	case err != nil:
		return broken(check, "unfinished uploads cannot be listed", err)
	case !byFolder:
		return backends.Warned(check, "unfinished uploads are listed by whole names only: of names that have no object, those may stay unseen (blobd begins none)")
	}
	return backends.Passed(check, "unfinished uploads are listed and aborted")
}

func (e exam) listsUpload(ctx context.Context, key, id string) (found bool, err error) {
	err = e.eachUploadsUnder(ctx, key, exactly(key), func(page []version) error {
		for _, u := range page {
			found = found || u.id == id
		}
		return nil
	})
	return found, err
}

func (e exam) versioning(ctx context.Context) backends.Finding {
	const check = "versioning"
	var out *s3.GetBucketVersioningOutput
	err := e.do(ctx, func(ctx context.Context) (err error) {
		out, err = e.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &e.bucket})
		return err
	})
	switch {
	case err != nil:
		return backends.Warned(check, "cannot tell, so versions are looked for always: %s", why(err))
	case out.MFADelete == types.MFADeleteStatusEnabled:
		return backends.NoErasure(check, "deleting a version needs a second factor (MFA delete)")
	case out.Status == "":
		return backends.Passed(check, "off")
	}
	return backends.Passed(check, "%s", strings.ToLower(string(out.Status)))
}

func (e exam) lock(ctx context.Context) backends.Finding {
	const check = "lock"
	var out *s3.GetObjectLockConfigurationOutput
	err := e.do(ctx, func(ctx context.Context) (err error) {
		out, err = e.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &e.bucket})
		return err
	})
	switch {
	case isUnset(err):
		return backends.Passed(check, "off")
	case err != nil:
		return backends.Warned(check, "cannot tell: %s", why(err))
	case out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.ObjectLockEnabled != types.ObjectLockEnabledEnabled:
		return backends.Passed(check, "off")
	}
	if d := defaultRetention(out.ObjectLockConfiguration.Rule); d != "" {
		return backends.NoErasure(check, "every new object is locked (%s)", d)
	}
	return backends.Warned(check, "objects can be locked, none is by default: an erasure waits for whoever locks one")
}

func defaultRetention(rule *types.ObjectLockRule) string {
	if rule == nil || rule.DefaultRetention == nil {
		return ""
	}
	d := rule.DefaultRetention
	switch {
	case aws.ToInt32(d.Days) > 0:
		return fmt.Sprintf("%s, %d days", d.Mode, *d.Days)
	case aws.ToInt32(d.Years) > 0:
		return fmt.Sprintf("%s, %d years", d.Mode, *d.Years)
	}
	return ""
}

// isUnset reports that a bucket has no configuration of a kind, or that the
// server knows no such kind.
func isUnset(err error) bool {
	switch codeOf(err) {
	case "ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration", "NoSuchLifecycleConfiguration",
		"ReplicationConfigurationNotFoundError":
		return true
	}
	return isUnknown(err)
}
