package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd/backends"
)

// exam is one examination.
type exam struct {
	*Store
	now  func() time.Time
	name string // in the scratch folder, of this examination alone
}

// Examine implements backends.Examiner. The checks, in order: reachable, clock,
// write, absence, list, conditional, identity, versions, delete, uploads,
// versioning, lock, lifecycle, replication. Those after reachable are left out
// where the bucket does not answer. It needs what blobd itself needs, and
// reports what else it may not ask as a warning.
func (s *Store) Examine(ctx context.Context, now func() time.Time) ([]backends.Finding, error) {
	name, err := s.probeName()
	if err != nil {
		return nil, fmt.Errorf("minio: examine: %w", err)
	}
	e := exam{s, now, name}
	found, err := backends.Examined(ctx, e.reachable,
		e.clock, e.write, e.absence, e.list, e.conditional, e.identity, e.versions, e.delete, e.uploads,
		e.versioning, e.lock, e.lifecycle, e.replication)
	if err != nil {
		return nil, fmt.Errorf("minio: examine: %w", err)
	}
	return found, nil
}

// why says what a failure was: the store's code where it gave one, and what that
// usually means.
func why(err error) string {
	var a minio.ErrorResponse
	if !errors.As(err, &a) {
		return err.Error()
	}
	if bare(a) {
		return fmt.Sprintf("status %d and nothing that a store says", a.StatusCode)
	}
	switch a.Code {
	case "NoSuchBucket":
		return "the bucket is not there (NoSuchBucket)"
	case "RequestTimeTooSkewed", "RequestExpired":
		return "this machine's clock and the store's differ by more than the store takes (" + a.Code + ")"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return "the store does not know these keys (" + a.Code + ")"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "InvalidRegion":
		return "wrong region, endpoint or path style (" + a.Code + ")"
	case "AccessDenied", "AllAccessDisabled":
		return "the keys lack the permission (" + a.Code + ")"
	}
	return a.Code
}

// denied reports a permission that is missing.
func denied(err error) bool {
	var a minio.ErrorResponse
	return errors.As(err, &a) && (a.StatusCode == http.StatusForbidden || a.StatusCode == http.StatusUnauthorized)
}

// reachable asks for an object that is not there: an answer to that has a body.
func (e exam) reachable(ctx context.Context) backends.Finding {
	const check = "reachable"
	_, err := e.fetch(ctx, e.name)
	var a minio.ErrorResponse
	switch {
	case err == nil, absent(err):
		return backends.Passed(check, "bucket %s answers", e.bucket)
	case !errors.As(err, &a):
		return backends.Failed(check, "no answer: %v", err)
	case a.Code != "AccessDenied" && outage(a.Code), a.StatusCode >= 500, a.StatusCode >= 300 && a.StatusCode < 400:
		return backends.Failed(check, "%s", why(err))
	}
	return backends.Passed(check, "bucket %s answers", e.bucket) // what it answers is for the other checks
}

// fetch is a Get of a name in the scratch folder.
func (e exam) fetch(ctx context.Context, name string) ([]byte, error) {
	return try(ctx, e.Store, "get", func(ctx context.Context) ([]byte, error) { return e.get(ctx, name) })
}

// send is a Put of a name in the scratch folder.
func (e exam) send(ctx context.Context, name string, data []byte) error {
	_, err := try(ctx, e.Store, "put", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.replace(ctx, newUpload(name, data))
	})
	return err
}

// skewMost is how far the store's clock may be off; stores refuse 15 minutes.
const skewMost = time.Minute

// clock compares the store's clock, which tells whole seconds, with ours.
func (e exam) clock(ctx context.Context) backends.Finding {
	const check = "clock"
	var seen witness
	before := e.now()
	_, err := e.Store.list(seen.in(ctx), probePrefix, "", 1)
	theirs, dateErr := http.ParseTime(seen.date)
	switch skew := theirs.Sub(before.Add(e.now().Sub(before) / 2)); {
	case err != nil:
		return backends.Warned(check, "cannot tell: %s", why(err))
	case dateErr != nil:
		return backends.Warned(check, "cannot tell: the store tells no time")
	case skew.Abs() > skewMost:
		return backends.Failed(check, "the store's clock is %s from ours", skew.Round(time.Second))
	default:
		return backends.Passed(check, "within %s", max(skew.Abs().Round(time.Second), time.Second))
	}
}

// write stores bytes that a proxy or a framing would change, and reads them back.
func (e exam) write(ctx context.Context) backends.Finding {
	const check = "write"
	want := bytes.Repeat([]byte("blobd\r\n\x00\xff"), 1000)
	err := e.send(ctx, e.name+"-w", want)
	switch {
	case errors.Is(err, errUnproved):
		return backends.Failed(check, "the store keeps other bytes than it was sent")
	case err != nil:
		return backends.Failed(check, "cannot put: %s", why(err))
	}
	got, err := e.fetch(ctx, e.name+"-w")
	switch {
	case err != nil:
		return backends.Failed(check, "cannot get: %s", why(err))
	case !bytes.Equal(got, want):
		return backends.Failed(check, "the store keeps other bytes than it was sent")
	}
	return backends.Passed(check, "put and get back")
}

func (e exam) absence(ctx context.Context) backends.Finding {
	const check = "absence"
	_, err := e.fetch(ctx, e.name+"-absent")
	switch {
	case absent(err):
		return backends.Passed(check, "an absent object is NoSuchKey")
	case err == nil:
		return backends.Failed(check, "the store has an object under a name that nobody used")
	case denied(err):
		return backends.Failed(check, "an absent object is refused and not NoSuchKey: the permission s3:ListBucket or s3:GetObject is missing (%s)", code(err))
	}
	return backends.Failed(check, "an absent object is not NoSuchKey but: %s", why(err))
}

func (e exam) list(ctx context.Context) backends.Finding {
	const check = "list"
	if _, err := e.List(ctx, "", "", 1); err != nil {
		return backends.Failed(check, "cannot list: %s", why(err))
	}
	if err := e.visible(ctx, []part{{e.root, false}}); err != nil {
		return broken(check, "objects below the prefix may be hidden", err)
	}
	return backends.Passed(check, "objects are listed")
}

// conditional asks the server to refuse a name that write used.
func (e exam) conditional(ctx context.Context) backends.Finding {
	const check = "conditional"
	err := e.Store.send(ctx, newUpload(e.name+"-w", []byte("other")), true)
	switch {
	case code(err) == "PreconditionFailed":
		return backends.Passed(check, "a used name is refused")
	case err == nil:
		return backends.Warned(check, "the store ignores If-None-Match: bytes under a used name are not noticed when they are written, only when they are read")
	}
	return backends.Warned(check, "the store does not take If-None-Match: %s", why(err))
}

// identity looks whether the store was ever ours; whose it is only the ledger
// can say.
func (e exam) identity(ctx context.Context) backends.Finding {
	const check = "identity"
	id, err := e.fetch(ctx, backends.IdentityName)
	switch {
	case absent(err):
		return backends.Warned(check, "no identity object: a new store, or not the one that was meant")
	case err != nil:
		return backends.Failed(check, "cannot tell: %s", why(err))
	case len(id) > 64 || bytes.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }):
		return backends.Failed(check, "the identity object is none of blobd's")
	}
	return backends.Passed(check, "deployment %s", id)
}
