// Package matrix keeps the table of docs/backends.md true: what each driver's
// examination finds on each server that the tests know. With -update it writes
// the table.
package matrix

import (
	"context"
	"crypto/rand"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/minio"
	"github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/internal/servers"
)

var update = flag.Bool("update", false, "write the table into docs/backends.md")

const (
	document = "../../docs/backends.md"
	begin    = "<!-- the table below is written by go test ./integration/matrix -update -->\n"
	end      = "<!-- end of the table -->\n"
)

// driver opens a bucket of a server.
type driver struct {
	name string
	open func(ctx context.Context, s *servers.S3, bucket string) (store, error)
}

type store interface {
	backends.Examiner
	io.Closer
}

func drivers() []driver {
	return []driver{
		{"s3", func(ctx context.Context, s *servers.S3, bucket string) (store, error) {
			return s3.Open(ctx, s3.Options{
				Endpoint: s.Endpoint, Bucket: bucket, Region: s.Region, AccessKey: s.AccessKey,
				SecretKey: blobd.TextOf([]byte(s.SecretKey)), PathStyle: true, Random: rand.Reader,
			})
		}},
		{"minio", func(ctx context.Context, s *servers.S3, bucket string) (store, error) {
			return minio.Open(ctx, minio.Options{
				Endpoint: s.Endpoint, Bucket: bucket, Region: s.Region, AccessKey: s.AccessKey,
				SecretKey: blobd.TextOf([]byte(s.SecretKey)), PathStyle: true, Random: rand.Reader,
			})
		}},
	}
}

// kind is a kind of bucket.
type kind struct {
	name string
	servers.Bucket
}

func kinds() []kind {
	return []kind{
		{"plain", servers.Bucket{}},
		{"versioned", servers.Bucket{Versioned: true}},
		{"suspended", servers.Bucket{Suspended: true}},
		{"locked", servers.Bucket{ObjectLock: true}},
	}
}

// column is what one driver finds in one bucket.
type column struct {
	head  string
	found []backends.Finding
}

func TestTable(t *testing.T) {
	minIO, versity := servers.MinIO(t, servers.MinIOOptions{}), servers.VersityGW(t, servers.VersityGWOptions{})
	seaweed := servers.SeaweedFS(t, servers.SeaweedFSOptions{})
	var b strings.Builder
	fmt.Fprintf(&b, "Servers: MinIO `%s`, versitygw `%s`, SeaweedFS `%s`.\n\n", versionOf(t, minIO), versionOf(t, versity), versionOf(t, seaweed))
	for _, d := range drivers() {
		var columns []column
		for _, s := range []struct {
			name string
			*servers.S3
		}{{"MinIO", minIO}, {"versitygw", versity}, {"SeaweedFS", seaweed}} {
			for _, k := range kinds() {
				bucket := d.name + "-" + k.name
				s.Bucket(t, bucket, k.Bucket)
				columns = append(columns, column{s.name + ", " + k.name, examine(t, d, s.S3, bucket)})
			}
		}
		fmt.Fprintf(&b, "Driver `%s`:\n\n%s\n", d.name, table(columns))
	}
	compare(t, b.String())
}

func examine(t *testing.T, d driver, s *servers.S3, bucket string) []backends.Finding {
	t.Helper()
	opened, err := d.open(t.Context(), s, bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	found, err := opened.Examine(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func versionOf(t *testing.T, s *servers.S3) string {
	t.Helper()
	info, err := buildinfo.ReadFile(s.Program())
	if err != nil {
		t.Fatal(err)
	}
	return info.Main.Version
}

// table has a line for each check and a column for each bucket.
func table(columns []column) string {
	var b strings.Builder
	b.WriteString("| check |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.head)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for i, f := range columns[0].found {
		fmt.Fprintf(&b, "| %s |", f.Check)
		for _, c := range columns {
			cell := string(c.found[i].Status)
			if c.found[i].NoErasure {
				cell += ", no erasure"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func compare(t *testing.T, got string) {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", document)
	}
	if old == got {
		return
	}
	if !*update {
		t.Fatalf("%s is not what runs: go test ./integration/matrix -update writes\n%s", document, got)
	}
	if err := os.WriteFile(document, []byte(before+begin+got+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
