package minio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Options say where the bucket is. Endpoint, Bucket and Random must be set.
type Options struct {
	Endpoint string // URL, http or https, without a path
	Bucket   string
	Region   string // "": us-east-1
	// AccessKey and SecretKey go together; without them credentials come from
	// the environment, or from the machine's role.
	AccessKey string
	SecretKey blobd.Text
	PathStyle bool   // the bucket in the path and not in the host's name
	Prefix    string // folder of this deployment, without a slash at its end; "": the whole bucket
	RootCAs   []byte // PEM, instead of the system's; nil: the system's
	// MaxObject bounds what Put and Get hold, in bytes; 0: 1 GiB.
	MaxObject int64
	// RetryFor bounds how long one request is repeated, also where the caller
	// gave no deadline; 0: 10 s.
	RetryFor time.Duration
	// TryFor bounds one try of a request, its body included; 0: 60 s.
	TryFor time.Duration
	Random io.Reader // a cryptographic source, for names in the scratch folder
}

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
	root, endpoint, err := checkOptions(o)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(o.RootCAs)
	if err != nil {
		return nil, err
	}
	s := &Store{
		transport: transport, bucket: o.Bucket, root: root, random: o.Random,
		maxObject: or(o.MaxObject, 1<<30), retryFor: or(o.RetryFor, 10*time.Second), tryFor: or(o.TryFor, time.Minute),
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	s.client, err = minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentialsOf(o), Secure: endpoint.Scheme == "https", Transport: shapes{transport},
		Region: or(o.Region, "us-east-1"), BucketLookup: lookup,
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

func or[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
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
func checkOptions(o Options) (root string, endpoint *url.URL, err error) {
	switch {
	case o.Bucket == "" || strings.Contains(o.Bucket, "/"):
		return "", nil, fmt.Errorf("want the name of a bucket: %w", blobd.ErrInvalid)
	case o.Random == nil:
		return "", nil, fmt.Errorf("want a source of randomness: %w", blobd.ErrInvalid)
	case (o.AccessKey == "") != (o.SecretKey.Len() == 0):
		return "", nil, fmt.Errorf("access key and secret key go together: %w", blobd.ErrInvalid)
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("endpoint: want a URL like https://minio.example: %w", blobd.ErrInvalid)
	}
	root, err = rootOf(o.Prefix)
	return root, u, err
}

// rootOf accepts a prefix of segments of letters, digits, "-", "_" and ".",
// joined by "/", none of them "." or "..", at most 255 bytes.
func rootOf(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	wrong := fmt.Errorf("prefix: want letters, digits, \"-\", \"_\", \".\" and single slashes between them: %w", blobd.ErrInvalid)
	if len(prefix) > 255 {
		return "", wrong
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, notInPrefix) {
			return "", wrong
		}
	}
	return prefix + "/", nil
}

func notInPrefix(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}

// newTransport bounds every wait for a server that says nothing; a body that
// drips is bounded by the try.
func newTransport(rootCAs []byte) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 20 * time.Second,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // bodies are handed on as they came, and their length with them
	}
	if rootCAs == nil {
		return t, nil
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(rootCAs) {
		return nil, fmt.Errorf("no PEM certificate among the root CAs: %w", blobd.ErrInvalid)
	}
	return t, nil
}

// key is the bucket's key of a name; nameOf turns it back.
func (s *Store) key(name string) string { return s.root + name }

// nameOf returns a key's name, or false where the key is none of this store:
// not under its root, or no name of the contract, as a probe's.
func (s *Store) nameOf(key string) (string, bool) {
	name, under := strings.CutPrefix(key, s.root)
	return name, under && backends.CheckName(name) == nil
}
