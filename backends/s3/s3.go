package s3

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/endpoint"
)

// Options say where the bucket is. Without an endpoint it is AWS's own for the region,
// and without keys the SDK's own chain of credentials is used.
type Options = endpoint.Options

// Store is a store in a bucket.
type Store struct {
	client    *s3.Client
	transport *http.Transport
	bucket    string
	root      string // "" or ends in a slash
	maxObject int64
	retryFor  time.Duration
	tryFor    time.Duration
	random    io.Reader

	unconditional atomic.Bool  // the server does not know If-None-Match
	single        atomic.Bool  // the server does not know DeleteObjects
	writeOnce     atomic.Bool  // what Check writes cannot be deleted here
	byFolder      atomic.Int32 // whether unfinished uploads are listed by folder
}

var (
	_ backends.Store    = (*Store)(nil)
	_ backends.Examiner = (*Store)(nil)
	_ io.Closer         = (*Store)(nil)
)

// Open returns the store of a bucket. It sends nothing to the server: that the
// bucket is there and ours is for Check, Examine and the caller's identity
// object to say. Options that cannot be right are ErrInvalid.
func Open(ctx context.Context, o Options) (*Store, error) {
	root, err := checkOptions(o)
	if err != nil {
		return nil, fmt.Errorf("s3: open: %w", err)
	}
	transport, err := endpoint.Transport(o.RootCAs)
	if err != nil {
		return nil, fmt.Errorf("s3: open: %w", err)
	}
	s := &Store{
		transport: transport, bucket: o.Bucket, root: root, random: o.Random,
		maxObject: cmp.Or(o.MaxObject, endpoint.DefaultMaxObject),
		retryFor:  cmp.Or(o.RetryFor, endpoint.DefaultRetryFor), tryFor: cmp.Or(o.TryFor, endpoint.DefaultTryFor),
	}
	s.client, err = s.newClient(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("s3: open: %w", err)
	}
	return s, nil
}

// Close ends the connections that wait for use.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// checkOptions returns the root of all keys.
func checkOptions(o Options) (root string, err error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	if o.Endpoint != "" {
		if _, err := endpoint.Parse(o.Endpoint); err != nil {
			return "", err
		}
	}
	return endpoint.Root(o.Prefix)
}

// newClient makes the SDK's client. It never repeats a request by itself: do is
// the one place that does, because it also sees bodies and results.
func (s *Store) newClient(ctx context.Context, o Options) (*s3.Client, error) {
	so := s3.Options{
		Region: o.Region, UsePathStyle: o.PathStyle, Retryer: aws.NopRetryer{},
		HTTPClient: &http.Client{
			Transport:     s.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
	if o.Endpoint != "" {
		so.BaseEndpoint = &o.Endpoint
	}
	if o.AccessKey != "" {
		so.Credentials = credentials.NewStaticCredentialsProvider(o.AccessKey, string(o.SecretKey.Bytes()), "")
	} else {
		chain, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		so.Credentials = chain.Credentials
		so.Region = cmp.Or(so.Region, chain.Region)
	}
	so.Region = cmp.Or(so.Region, endpoint.DefaultRegion)
	return s3.New(so), nil
}

// scratch is the folder of what Check and Examine write. No name of the contract
// has a dot.
const scratch = ".blobd-check/"

// key returns the bucket's key of a name.
func (s *Store) key(name string) string { return s.root + name }

// scratchKey returns a key that nobody else uses.
func (s *Store) scratchKey() (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(s.random, id[:]); err != nil {
		return "", fmt.Errorf("random name: %w", err)
	}
	return s.key(scratch) + hex.EncodeToString(id[:]), nil
}

// Check implements backends.Store: the bucket takes an object, gives it back,
// and says of another that it is absent.
func (s *Store) Check(ctx context.Context) error {
	return classify("check", s.check(ctx))
}

func (s *Store) check(ctx context.Context) error {
	key, err := s.scratchKey()
	if err != nil {
		return err
	}
	if _, err := s.get(ctx, key); !errors.Is(err, blobd.ErrNotFound) {
		return notAbsent(err)
	}
	if s.writeOnce.Load() {
		return nil // every write would stay: the last one proved that writes pass
	}
	want := []byte("check")
	if err := s.put(ctx, key, want); err != nil {
		return err
	}
	if got, err := s.get(ctx, key); err != nil || string(got) != string(want) {
		return fmt.Errorf("what was just written does not come back (%w): %w", asCause(err), blobd.ErrUnavailable)
	}
	w := s.work(exactly(key))
	err = w.passes(ctx, w.versionPass)
	if err == nil && len(w.refused) > 0 {
		s.writeOnce.Store(true)
	}
	return err
}

var errOtherBytes = errors.New("other bytes")

// asCause is an error that is no absence any more.
func asCause(err error) error {
	switch {
	case err == nil:
		return errOtherBytes
	case errors.Is(err, blobd.ErrNotFound):
		return errors.New("it is absent")
	}
	return err
}

// notAbsent is the error of a store that does not say of a name that nobody used
// that it is absent.
func notAbsent(err error) error {
	if err == nil {
		return fmt.Errorf("an object under a name that nobody used: %w", blobd.ErrUnavailable)
	}
	return err
}
