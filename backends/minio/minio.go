package minio

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/internal/endpoint"
)

// Options say where the bucket is. Endpoint, without a path, must be set too.
type Options = endpoint.Options

// Store is a store in a bucket. Close it.
type Store struct {
	client    *minio.Core
	transport *http.Transport
	bucket    string
	root      string // "" or ends in a slash
	maxObject int64
	retryFor  time.Duration
	tryFor    time.Duration
	random    io.Reader

	writeOnce atomic.Bool  // what Check writes cannot be deleted here
	byFolder  atomic.Int32 // how unfinished uploads are listed
}

var (
	_ backends.Store    = (*Store)(nil)
	_ backends.Examiner = (*Store)(nil)
	_ io.Closer         = (*Store)(nil)
)

// Open returns the store of a bucket. It sends nothing to the server: that the
// bucket is there and ours is for Check, Examine and the caller's identity
// object to say. Options that cannot be right are ErrInvalid.
func Open(_ context.Context, o Options) (*Store, error) {
	s, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("minio: open: %w", err)
	}
	return s, nil
}

func open(o Options) (*Store, error) {
	root, server, err := checkOptions(o)
	if err != nil {
		return nil, err
	}
	transport, err := endpoint.Transport(o.RootCAs)
	if err != nil {
		return nil, err
	}
	s := &Store{
		transport: transport, bucket: o.Bucket, root: root, random: o.Random,
		maxObject: cmp.Or(o.MaxObject, endpoint.DefaultMaxObject),
		retryFor:  cmp.Or(o.RetryFor, endpoint.DefaultRetryFor), tryFor: cmp.Or(o.TryFor, endpoint.DefaultTryFor),
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	s.client, err = minio.NewCore(server.Host, &minio.Options{
		Creds: credentialsOf(o), Secure: server.Scheme == "https", Transport: shapes{transport},
		Region: cmp.Or(o.Region, endpoint.DefaultRegion), BucketLookup: lookup,
		MaxRetries: 1, // try repeats, because it also sees bodies and results
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", blobd.ErrInvalid, err)
	}
	return s, nil
}

// Close ends the connections that wait for use.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

func credentialsOf(o Options) *credentials.Credentials {
	if o.AccessKey != "" {
		return credentials.NewStaticV4(o.AccessKey, string(o.SecretKey.Bytes()), "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
}

// checkOptions returns the root of all keys, and the endpoint.
func checkOptions(o Options) (root string, server *url.URL, err error) {
	if err := o.Check(); err != nil {
		return "", nil, err
	}
	if server, err = endpoint.ParseBare(o.Endpoint); err != nil {
		return "", nil, err
	}
	root, err = endpoint.Root(o.Prefix)
	return root, server, err
}

// key is the bucket's key of a name; nameOf turns it back.
func (s *Store) key(name string) string { return s.root + name }

// nameOf returns a key's name, or false where the key is none of this store:
// not under its root, or no name of the contract, as a probe's.
func (s *Store) nameOf(key string) (string, bool) {
	name, under := strings.CutPrefix(key, s.root)
	return name, under && backends.CheckName(name) == nil
}
