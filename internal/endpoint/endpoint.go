// Package endpoint says where a bucket of an object store is and how it is reached. It
// holds what every client of such a store needs and no SDK has: the checks of what a
// person configured, the root of all keys, and a transport that waits for nobody for
// ever. It sends nothing.
package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/blobd/blobd"
)

// Options say where the bucket of a store is. Bucket and Random must be set.
type Options struct {
	Endpoint string // URL, http or https; "": as the driver says
	Bucket   string
	Region   string // "": us-east-1, unless the driver's environment says another
	// AccessKey and SecretKey go together; without them credentials come from the
	// environment, from files, or from the machine's role, as the driver says.
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

// Defaults of Options.
const (
	DefaultRegion    = "us-east-1"
	DefaultMaxObject = 1 << 30 // bytes
	DefaultRetryFor  = 10 * time.Second
	DefaultTryFor    = time.Minute
)

// Check refuses what cannot be right of a store, but for its endpoint and prefix, as
// ErrInvalid.
func (o *Options) Check() error {
	switch {
	case o.Bucket == "" || strings.Contains(o.Bucket, "/"):
		return fmt.Errorf("want the name of a bucket: %w", blobd.ErrInvalid)
	case o.Random == nil:
		return fmt.Errorf("want a source of randomness: %w", blobd.ErrInvalid)
	}
	return Keys(o.AccessKey, o.SecretKey)
}

// Keys refuses one of two keys without the other, as ErrInvalid.
func Keys(access string, secret blobd.Text) error {
	if (access == "") != (secret.Len() == 0) {
		return fmt.Errorf("access key and secret key go together: %w", blobd.ErrInvalid)
	}
	return nil
}

// Parse accepts a URL of scheme http or https with a host, without a user; anything else
// is ErrInvalid.
func Parse(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("endpoint: want a URL like https://minio.example: %w", blobd.ErrInvalid)
	}
	return u, nil
}

// ParseBare is Parse of a URL that has no path either.
func ParseBare(endpoint string) (*url.URL, error) {
	u, err := Parse(endpoint)
	if err == nil && strings.Trim(u.Path, "/") != "" {
		err = fmt.Errorf("endpoint: want a URL without a path: %w", blobd.ErrInvalid)
	}
	return u, err
}

// maxPrefix is how long a prefix may be, in bytes.
const maxPrefix = 255

// Root returns what all keys below a prefix begin with: "" for "", else the prefix and a
// slash. It accepts segments of letters, digits, "-", "_" and ".", joined by "/", none of
// them "." or "..", at most 255 bytes; anything else is ErrInvalid.
func Root(prefix string) (string, error) {
	if prefix == "" {
		return "", nil
	}
	wrong := fmt.Errorf("prefix: want letters, digits, \"-\", \"_\", \".\" and single slashes between them: %w", blobd.ErrInvalid)
	if len(prefix) > maxPrefix {
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

// Transport bounds every wait for a server that says nothing; a body that drips is for
// the caller's deadline. rootCAs are PEM, instead of the system's; nil: the system's.
func Transport(rootCAs []byte) (*http.Transport, error) {
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
	if rootCAs == nil {
		return t, nil
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(rootCAs) {
		return nil, fmt.Errorf("no PEM certificate among the root CAs: %w", blobd.ErrInvalid)
	}
	return t, nil
}
