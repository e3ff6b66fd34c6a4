package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// exam is one examination.
type exam struct {
	*Store
	now func() time.Time
	key string // in the scratch folder, of this examination alone
}

// Examine implements backends.Examiner. The checks, in order: reachable, clock,
// write, absence, list, conditional, identity, versions, delete, uploads,
// versioning, lock, lifecycle, replication. Those after reachable are left out
// where the bucket does not answer. It needs what blobd itself needs, and
// reports what else it may not ask as a warning.
func (s *Store) Examine(ctx context.Context, now func() time.Time) ([]backends.Finding, error) {
	key, err := s.scratchKey()
	if err != nil {
		return nil, fmt.Errorf("s3: examine: %w", err)
	}
	e := exam{s, now, key}
	found, err := backends.Examined(ctx, e.reachable,
		e.clock, e.write, e.absence, e.list, e.conditional, e.identity, e.versions, e.delete, e.uploads,
		e.versioning, e.lock, e.lifecycle, e.replication)
	if err != nil {
		return nil, fmt.Errorf("s3: examine: %w", err)
	}
	return found, nil
}

// why says what a failure was: the store's code where there is one, and what it
// usually means.
func why(err error) string {
	code, means := codeOf(err), ""
	switch {
	case code == "NoSuchBucket":
		means = "the bucket is not there"
	case code == "RequestTimeTooSkewed" || code == "RequestExpired":
		means = "this machine's clock and the store's differ by more than the store takes"
	case code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch":
		means = "the store does not know these keys"
	case code == "AuthorizationHeaderMalformed", statusOf(err) >= 300 && statusOf(err) < 400:
		means = "wrong region, endpoint or path style"
	case isDenied(err):
		means = "the keys lack the permission"
	case code == "":
		return err.Error()
	}
	if means == "" {
		return code
	}
	return means + " (" + code + ")"
}

// reachable asks for the bucket by a request that has an answer with a body.
func (e exam) reachable(ctx context.Context) backends.Finding {
	const check = "reachable"
	err := e.do(ctx, func(ctx context.Context) error {
		_, err := e.getOnce(ctx, e.key, 1)
		return err
	})
	if err != nil && statusOf(err) == 0 && !errors.Is(err, blobd.ErrNotFound) {
		return backends.Failed(check, "no answer: %v", err)
	}
	switch code := codeOf(err); {
	case code == "NoSuchBucket", code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch", code == "RequestTimeTooSkewed",
		code == "AuthorizationHeaderMalformed", statusOf(err) >= 300 && statusOf(err) < 400, statusOf(err) >= 500:
		return backends.Failed(check, "%s", why(err))
	}
	return backends.Passed(check, "bucket %s answers", e.bucket)
}

// skewMost is how far the store's clock may be off; stores refuse 15 minutes.
const skewMost = time.Minute

// clock compares the store's clock, which tells whole seconds, with ours.
func (e exam) clock(ctx context.Context) backends.Finding {
	const check = "clock"
	var skew time.Duration
	err := e.do(ctx, func(ctx context.Context) error {
		before := e.now()
		out, err := e.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
			Bucket: &e.bucket, Prefix: aws.String(e.Store.key(scratch)), MaxKeys: aws.Int32(1),
		})
		if err != nil {
			return err
		}
		theirs, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
		if !ok {
			return errors.New("the store tells no time")
		}
		skew = theirs.Sub(before.Add(e.now().Sub(before) / 2))
		return nil
	})
	switch {
	case err != nil:
		return backends.Warned(check, "cannot tell: %s", why(err))
	case skew.Abs() > skewMost:
		return backends.Failed(check, "the store's clock is %s from ours", skew.Round(time.Second))
	}
	return backends.Passed(check, "within %s", max(skew.Abs().Round(time.Second), time.Second))
}

// write stores bytes that a proxy or a framing would change, and reads them back.
func (e exam) write(ctx context.Context) backends.Finding {
	const check = "write"
	want := bytes.Repeat([]byte("blobd\r\n\x00\xff"), 1000)
	if err := e.put(ctx, e.key+"-w", want); err != nil {
		if errors.Is(err, blobd.ErrCorrupt) {
			return backends.Failed(check, "the store keeps other bytes than it was sent")
		}
		return backends.Failed(check, "cannot put: %s", why(err))
	}
	got, err := e.get(ctx, e.key+"-w")
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
	_, err := e.get(ctx, e.key+"-absent")
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return backends.Passed(check, "an absent object is NoSuchKey")
	case isDenied(err):
		return backends.Failed(check, "an absent object is refused and not NoSuchKey: the permission s3:ListBucket or s3:GetObject is missing (%s)", codeOf(err))
	case err == nil:
		return backends.Failed(check, "the store has an object under a name that nobody used")
	}
	return backends.Failed(check, "an absent object is not NoSuchKey but: %s", why(err))
}

func (e exam) list(ctx context.Context) backends.Finding {
	const check = "list"
	if _, _, err := e.listPage(ctx, "", "", 1); err != nil {
		return backends.Failed(check, "cannot list: %s", why(err))
	}
	if err := e.visible(ctx, []unit{{prefix: e.root}}); err != nil {
		return broken(check, "objects below the prefix may be hidden", err)
	}
	return backends.Passed(check, "objects are listed")
}

// conditional asks the server to refuse a name that write used.
func (e exam) conditional(ctx context.Context) backends.Finding {
	const check = "conditional"
	_, err := e.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &e.bucket, Key: aws.String(e.key + "-w"), Body: strings.NewReader("other"), IfNoneMatch: aws.String("*"),
	})
	switch {
	case isOccupied(err):
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
	id, err := e.get(ctx, e.Store.key(backends.IdentityName))
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return backends.Warned(check, "no identity object: a new store, or not the one that was meant")
	case err != nil:
		return backends.Failed(check, "cannot tell: %s", why(err))
	case len(id) > 64 || bytes.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }):
		return backends.Failed(check, "the identity object is none of blobd's")
	}
	return backends.Passed(check, "deployment %s", id)
}
