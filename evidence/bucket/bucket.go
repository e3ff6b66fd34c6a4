// Package bucket keeps an exported evidence log in a bucket of an object store that
// speaks S3. Its objects have the names that the files of an exported folder have, so
// that a bucket served over HTTP is a tiled log.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" // the checksum that every S3 server knows
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/internal/endpoint"
)

// Scheme begins the URL of a place in a bucket: s3://BUCKET or s3://BUCKET/PREFIX.
const Scheme = "s3://"

// awsEndpoint is where a bucket is when nobody says where.
const awsEndpoint = "https://s3.amazonaws.com"

// maxObject is what an object of a log has at most, in bytes.
const maxObject = 16 << 20

// Options say where the bucket is. URL must be set.
type Options struct {
	URL      string // s3://BUCKET[/PREFIX]
	Endpoint string // URL, http or https, without a path; "": AWS
	Region   string // "": us-east-1
	// AccessKey and SecretKey go together; without them credentials come from the
	// environment's variables of AWS, its file of credentials, or the machine's role.
	AccessKey string
	SecretKey blobd.Text
	PathStyle bool   // the bucket in the path and not in the host's name
	RootCAs   []byte // PEM, instead of the system's; nil: the system's
}

// Place is a place in a bucket, which must be there. Close it.
type Place struct {
	client    *minio.Core
	transport *http.Transport
	bucket    string
	root      string // "" or ends in a slash
}

var (
	_ evidence.Place = (*Place)(nil)
	_ io.Closer      = (*Place)(nil)
)

// Open returns the place that a URL names. It sends nothing to the server. Options
// that cannot be right are ErrInvalid.
func Open(o Options) (*Place, error) {
	p, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("export bucket: %w", err)
	}
	return p, nil
}

func open(o Options) (*Place, error) {
	p := new(Place)
	var err error
	if p.bucket, p.root, err = parse(o.URL); err != nil {
		return nil, err
	}
	if err := endpoint.Keys(o.AccessKey, o.SecretKey); err != nil {
		return nil, err
	}
	u, err := endpoint.ParseBare(cmp.Or(o.Endpoint, awsEndpoint))
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "https"
	if !secure && o.RootCAs != nil {
		return nil, fmt.Errorf("root CAs: want an https endpoint: %w", blobd.ErrInvalid)
	}
	if p.transport, err = endpoint.Transport(o.RootCAs); err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	p.client, err = minio.NewCore(u.Host, &minio.Options{
		Creds: credentialsOf(o), Secure: secure, Transport: p.transport,
		Region: cmp.Or(o.Region, endpoint.DefaultRegion), BucketLookup: lookup,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", blobd.ErrInvalid, err)
	}
	return p, nil
}

// parse reads s3://BUCKET[/PREFIX]; see endpoint.Root for what a prefix is.
func parse(place string) (bucket, root string, err error) {
	rest, ours := strings.CutPrefix(place, Scheme)
	bucket, prefix, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	if !ours || bucket == "" {
		return "", "", fmt.Errorf("want s3://BUCKET or s3://BUCKET/PREFIX: %w", blobd.ErrInvalid)
	}
	root, err = endpoint.Root(prefix)
	return bucket, root, err
}

func credentialsOf(o Options) *credentials.Credentials {
	if o.AccessKey != "" {
		return credentials.NewStaticV4(o.AccessKey, string(o.SecretKey.Bytes()), "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
}

// Close ends the connections that wait for use.
func (p *Place) Close() error {
	p.transport.CloseIdleConnections()
	return nil
}

// Read implements evidence.Place.
func (p *Place) Read(ctx context.Context, name string) ([]byte, error) {
	b, err := p.read(ctx, name)
	if absent(err) {
		return nil, fmt.Errorf("export bucket: read %s: %w: %w", name, blobd.ErrNotFound, err)
	}
	return b, classify("read "+name, err)
}

func (p *Place) read(ctx context.Context, name string) (_ []byte, err error) {
	body, _, _, err := p.client.GetObject(ctx, p.bucket, p.root+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	b, err := io.ReadAll(io.LimitReader(body, maxObject+1))
	if err == nil && len(b) > maxObject {
		err = fmt.Errorf("more than %d bytes: %w", maxObject, blobd.ErrCorrupt)
	}
	return b, err
}

// Write implements evidence.Place. An answer that does not prove what is stored, by an
// ETag that is the MD5 of the bytes, is one only after the bytes were read back.
func (p *Place) Write(ctx context.Context, name string, b []byte) error {
	return classify("write "+name, p.write(ctx, name, b))
}

func (p *Place) write(ctx context.Context, name string, b []byte) error {
	if len(b) > maxObject {
		return fmt.Errorf("%d bytes: %w", len(b), blobd.ErrTooLarge)
	}
	md5Sum, sha := md5.Sum(b), sha256.Sum256(b)
	info, err := p.client.PutObject(ctx, p.bucket, p.root+name, bytes.NewReader(b), int64(len(b)),
		base64.StdEncoding.EncodeToString(md5Sum[:]), hex.EncodeToString(sha[:]),
		minio.PutObjectOptions{ContentType: contentType(name), DisableContentSha256: true, DisableMultipart: true})
	if err != nil || info.ETag == hex.EncodeToString(md5Sum[:]) {
		return err
	}
	there, err := p.read(ctx, name)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(there, b) {
		return fmt.Errorf("other bytes were read back: %w", blobd.ErrUnavailable)
	}
	return nil
}

// contentType is what the tiled log is served with: text but for its tiles.
func contentType(name string) string {
	if strings.HasPrefix(name, "tile/") {
		return "application/octet-stream"
	}
	return "text/plain; charset=utf-8"
}

// Remove implements evidence.Place. In a versioned bucket it leaves a marker.
func (p *Place) Remove(ctx context.Context, name string) error {
	err := p.client.RemoveObject(ctx, p.bucket, p.root+name, minio.RemoveObjectOptions{})
	if absent(err) {
		return nil
	}
	return classify("remove "+name, err)
}
