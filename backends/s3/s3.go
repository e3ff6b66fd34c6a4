package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// Options say where the bucket is. Bucket and Random must be set.
type Options struct {
	Endpoint string // URL, http or https; "": AWS's own for the region
	Bucket   string
	Region   string // "": the environment's, else us-east-1
	// AccessKey and SecretKey go together; without them the SDK's own chain of
	// credentials is used (environment, files, roles).
	AccessKey string
	SecretKey blobd.Text
	PathStyle bool   // the bucket in the path and not in the host's name
	Prefix    string // folder of this deployment, without a slash at its end; "": the whole bucket
	RootCAs   []byte // PEM, instead of the system's; nil: the system's
	// MaxObject bounds what Get reads, in bytes; 0: 1 GiB.
	MaxObject int64
	// RetryFor bounds how long one request is repeated, also where the caller
	// gave no deadline; 0: 10 s.
	RetryFor time.Duration
	// TryFor bounds one try of a request, its body included; 0: 60 s.
	TryFor time.Duration
	Random io.Reader // a cryptographic source, for names in the scratch folder
}

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
	transport, err := newTransport(o.RootCAs)
	if err != nil {
		return nil, fmt.Errorf("s3: open: %w", err)
	}
	s := &Store{
		transport: transport, bucket: o.Bucket, root: root, random: o.Random,
		maxObject: or(o.MaxObject, 1<<30), retryFor: or(o.RetryFor, 10*time.Second), tryFor: or(o.TryFor, time.Minute),
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

func or[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
}

// checkOptions returns the root of all keys.
func checkOptions(o Options) (root string, err error) {
	switch {
	case o.Bucket == "" || strings.Contains(o.Bucket, "/"):
		return "", fmt.Errorf("want the name of a bucket: %w", blobd.ErrInvalid)
	case o.Random == nil:
		return "", fmt.Errorf("want a source of randomness: %w", blobd.ErrInvalid)
	case (o.AccessKey == "") != (o.SecretKey.Len() == 0):
		return "", fmt.Errorf("access key and secret key go together: %w", blobd.ErrInvalid)
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("endpoint: want a URL like https://minio.example: %w", blobd.ErrInvalid)
		}
	}
	return rootOf(o.Prefix)
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
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // sealed bytes do not shrink, and lengths must be told
	}
	if rootCAs != nil {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(rootCAs) {
			return nil, fmt.Errorf("no PEM certificate among the root CAs: %w", blobd.ErrInvalid)
		}
	}
	return t, nil
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
		so.Region = or(so.Region, chain.Region)
	}
	so.Region = or(so.Region, "us-east-1")
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
