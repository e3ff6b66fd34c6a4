package s3

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// rejection is a version that the store would not delete.
type rejection struct {
	version
	code string
}

// err is the rejection as an error with the store's code.
func (r rejection) err() error {
	return &smithy.GenericAPIError{Code: r.code, Message: "the store would not delete a version"}
}

// deleted is what became of a batch.
type deleted struct {
	deleted  []version
	rejected []rejection
}

// deleteBatch deletes at most pageMost versions. Those that the answer neither
// confirms nor rejects, or rejects for a while, are asked for again; if some
// stay so, that is the error.
func (s *Store) deleteBatch(ctx context.Context, batch []version) (deleted, error) {
	if len(batch) == 0 {
		return deleted{}, nil
	}
	if s.single.Load() {
		return s.deleteSingly(ctx, batch)
	}
	var result deleted
	open := make(map[version]version, len(batch))
	for _, v := range batch {
		open[v.named()] = v
	}
	err := s.do(ctx, func(ctx context.Context) error {
		out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.bucket, Delete: &types.Delete{Objects: identifiers(open), Quiet: aws.Bool(false)},
		}, withContentMD5)
		if err != nil {
			return err
		}
		return result.settle(out, open)
	})
	if isUnknown(err) {
		s.single.Store(true)
		return s.deleteSingly(ctx, batch)
	}
	return result, err
}

func identifiers(open map[version]version) []types.ObjectIdentifier {
	var all []types.ObjectIdentifier
	for v := range maps.Keys(open) {
		all = append(all, types.ObjectIdentifier{Key: aws.String(v.key), VersionId: aws.String(v.id)})
	}
	return all
}

// settle moves what an answer speaks of out of open.
func (d *deleted) settle(out *s3.DeleteObjectsOutput, open map[version]version) error {
	for _, o := range out.Deleted {
		d.confirm(open, version{key: aws.ToString(o.Key), id: orNull(o.VersionId)})
	}
	code := ""
	for _, e := range out.Errors {
		named := version{key: aws.ToString(e.Key), id: orNull(e.VersionId)}
		v, ours := open[named]
		switch code = aws.ToString(e.Code); {
		case !ours:
		case code == "NoSuchVersion", code == "NoSuchKey":
			delete(open, named) // another deleted it; the next listing is the proof
		case !transientCode(code):
			delete(open, named)
			d.rejected = append(d.rejected, rejection{v, code})
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%w: %d of a batch were not deleted (%s)", errAgain, len(open), cmp.Or(code, "not mentioned"))
	}
	return nil
}

func (d *deleted) confirm(open map[version]version, named version) {
	if v, ours := open[named]; ours {
		delete(open, named)
		d.deleted = append(d.deleted, v)
	}
}

// deleteSingly is for servers that do not know how to delete many at once.
func (s *Store) deleteSingly(ctx context.Context, batch []version) (deleted, error) {
	var mu sync.Mutex
	var result deleted // guarded by mu
	err := each(ctx, len(batch), func(ctx context.Context, i int) error {
		v := batch[i]
		err := s.do(ctx, func(ctx context.Context) error {
			_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &v.key, VersionId: &v.id})
			return err
		})
		code := codeOf(err)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			result.deleted = append(result.deleted, v)
		case code == "NoSuchVersion", code == "NoSuchKey":
		case code == "" || retryable(err):
			return err
		default:
			result.rejected = append(result.rejected, rejection{v, code})
		}
		return nil
	})
	slices.SortFunc(result.deleted, func(a, b version) int {
		return slices.Compare([]string{a.key, a.id}, []string{b.key, b.id})
	})
	return result, err
}

// withContentMD5 proves a request's body by Content-MD5, which every server
// knows and some insist on, in place of the checksums that the SDK would add.
func withContentMD5(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		for _, remove := range []func() (any, error){
			func() (any, error) { return stack.Initialize.Remove("AWSChecksum:SetupInputContext") },
			func() (any, error) { return stack.Build.Remove("AWSChecksum:RequestMetricsTracking") },
			func() (any, error) { return stack.Finalize.Remove("AWSChecksum:ComputeInputPayloadChecksum") },
			func() (any, error) { return stack.Finalize.Remove("addInputChecksumTrailer") },
		} {
			_, _ = remove() // what is not there need not be removed
		}
		return smithyhttp.AddContentChecksumMiddleware(stack)
	})
}
