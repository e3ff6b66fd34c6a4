package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/blobd/blobd"
)

// bucketConfig says where the object store of the drivers s3 and minio is.
type bucketConfig struct {
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

// decodeBucket reads the keys of an object store. Given to a driver that has no
// bucket they are errors: the objects would silently go elsewhere.
func (c *config) decodeBucket() []error {
	var errs []error
	text := func(key string) string { return c.values.String("backend." + key) }
	wrong := func(key, problem string) { errs = append(errs, c.wrong("backend."+key, problem)) }
	b := bucketConfig{
		Endpoint: text("endpoint"), Name: text("bucket"), Region: text("region"), AccessKey: text("accessKey"),
		SecretKey: blobd.TextOf([]byte(text("secretKey"))), Prefix: strings.Trim(text("prefix"), "/"), TLSCA: text("tlsCA"),
	}
	b.PathStyle = b.Endpoint != ""
	flag := func(key string, into *bool) {
		if text(key) == "" {
			return
		}
		on, err := strconv.ParseBool(text(key))
		if err != nil {
			wrong(key, "wants true or false")
		}
		*into = on
	}
	flag("pathStyle", &b.PathStyle)
	flag("allowResidue", &b.AllowResidue)
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
	if (b.AccessKey == "") != (b.SecretKey.Len() == 0) {
		wrong("accessKey", "and backend.secretKey go together")
	}
	if u, err := url.Parse(b.Endpoint); b.Endpoint != "" &&
		(err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
		wrong("endpoint", "wants a URL like https://minio.example")
	}
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
		return nil, fmt.Errorf("backend.tlsCA: %w", err)
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
