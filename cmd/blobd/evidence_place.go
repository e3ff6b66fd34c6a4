package main

import (
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/evidence/bucket"
)

// exportFlags say where a bucket of an exported log is. They are settings too, and
// others than those of the store: an export may go to another account.
type exportFlags struct {
	Endpoint string `help:"With s3://: URL of the object store (default: export.endpoint; else AWS)." placeholder:"URL"`
	Region   string `help:"With s3://: its region (default: export.region; else us-east-1)." placeholder:"NAME"`
}

// open opens a folder, or the bucket that s3://BUCKET/PREFIX names. The place is the
// caller's to close.
func (f exportFlags) open(a *app, place string) (evidence.Place, io.Closer, error) {
	if !strings.HasPrefix(place, bucket.Scheme) {
		return evidence.Folder(kong.ExpandPath(place)), io.NopCloser(nil), nil
	}
	cfg, err := a.config(map[string]string{"export.endpoint": f.Endpoint, "export.region": f.Region})
	if err != nil {
		return nil, nil, err
	}
	o, err := cfg.exportBucket(place)
	if err != nil {
		return nil, nil, err
	}
	b, err := bucket.Open(o)
	if err != nil {
		return nil, nil, err
	}
	return b, b, nil
}

// exportBucket is the bucket of an export by the settings export.*.
func (c *config) exportBucket(place string) (bucket.Options, error) {
	b := c.Export
	rootCAs, err := b.rootCAs()
	if err != nil {
		return bucket.Options{}, err
	}
	return bucket.Options{
		URL: place, Endpoint: b.Endpoint, Region: b.Region, AccessKey: b.AccessKey, SecretKey: b.SecretKey,
		PathStyle: b.PathStyle, RootCAs: rootCAs,
	}, nil
}

// keptKey is where an export keeps the key that it first met, beside the log.
const keptKey = "key"

// readKey reads a file with the log's public key.
func readKey(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}
