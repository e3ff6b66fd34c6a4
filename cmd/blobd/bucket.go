package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/internal/endpoint"
)

// bucketConfig says where the object store of the drivers s3 and minio is, or that of
// an exported log.
type bucketConfig struct {
	below        string // of its keys: backend or export
	Endpoint     string // URL; "": AWS
	Name         string
	Region       string
	AccessKey    string
	SecretKey    blobd.Text
	PathStyle    bool
	Prefix       string // without slashes around it
	TLSCA        string // PEM file
	AllowResidue bool   // serve though not everything can be deleted there
}

// readBucket reads the keys of a bucket below a name: backend or export.
func (c *config) readBucket(below string) (bucketConfig, []error) {
	var errs []error
	text := func(key string) string { return c.values.String(below + "." + key) }
	b := bucketConfig{
		below: below, Endpoint: text("endpoint"), Name: text("bucket"), Region: text("region"), AccessKey: text("accessKey"),
		SecretKey: blobd.TextOf([]byte(text("secretKey"))), Prefix: strings.Trim(text("prefix"), "/"), TLSCA: text("tlsCA"),
	}
	b.PathStyle = b.Endpoint != ""
	flag := func(key string, into *bool) {
		if text(key) == "" {
			return
		}
		on, err := strconv.ParseBool(text(key))
		if err != nil {
			errs = append(errs, c.wrong(below+"."+key, "wants true or false"))
		}
		*into = on
	}
	flag("pathStyle", &b.PathStyle)
	flag("allowResidue", &b.AllowResidue)
	return b, errs
}

// checkBucket finds what cannot be right of a bucket wherever it is.
func (c *config) checkBucket(b bucketConfig) (errs []error) {
	if endpoint.Keys(b.AccessKey, b.SecretKey) != nil {
		errs = append(errs, c.wrong(b.below+".accessKey", "and "+b.below+".secretKey go together"))
	}
	if _, err := endpoint.Parse(b.Endpoint); b.Endpoint != "" && err != nil {
		errs = append(errs, c.wrong(b.below+".endpoint", "wants a URL like https://minio.example"))
	}
	return errs
}

// decodeExport reads the keys of the bucket of an exported log. Which one it is, the
// command says.
func (c *config) decodeExport() []error {
	b, errs := c.readBucket("export")
	c.Export = b
	return append(errs, c.checkBucket(b)...)
}

// decodeBucket reads the keys of an object store. Given to a driver that has no
// bucket they are errors: the objects would silently go elsewhere.
func (c *config) decodeBucket() []error {
	b, errs := c.readBucket("backend")
	text := func(key string) string { return c.values.String("backend." + key) }
	wrong := func(key, problem string) { errs = append(errs, c.wrong("backend."+key, problem)) }
	c.Bucket = b
	if c.Backend != "s3" && c.Backend != "minio" {
		for _, key := range []string{"endpoint", "bucket", "region", "accessKey", "secretKey", "pathStyle", "prefix", "tlsCA"} {
			if text(key) != "" && c.Backend != "" {
				wrong(key, "is of the drivers s3 and minio, and backend.driver is neither")
			}
		}
		return errs
	}
	if b.Name == "" {
		wrong("bucket", "names no bucket")
	}
	errs = append(errs, c.checkBucket(b)...)
	if b.Endpoint == "" && c.Backend == "minio" {
		wrong("endpoint", "wants a URL like https://minio.example")
	}
	return errs
}

// rootCAs returns the PEM certificates that vouch for the store, or nil for the
// system's.
func (b bucketConfig) rootCAs() ([]byte, error) {
	if b.TLSCA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(b.TLSCA)
	if err != nil {
		return nil, fmt.Errorf("%s.tlsCA: %w", b.below, err)
	}
	return pem, nil
}

// place names the store for people, without secrets.
func (c *config) place() string {
	switch c.Backend {
	case "fs":
		return objectsFolder(*c)
	case "mem":
		return "memory"
	}
	endpoint := c.Bucket.Endpoint
	if endpoint == "" {
		endpoint = "AWS"
	}
	return strings.TrimSuffix(endpoint, "/") + " bucket " + c.Bucket.Name + " prefix " + strconv.Quote(c.Bucket.Prefix)
}
