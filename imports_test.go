package blobd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/blobd/blobd"

// place is what packages of one path may import, tests left out. Paths are
// relative to the module; "" is the module's root; one that ends in "/..."
// means a folder and all below it.
type place struct {
	path    string
	ours    []string // packages of this module
	outside []string // module paths of others; "*": any; none: the standard library only
}

// table is the import table of the design: cmd → api, retention → resolver →
// store → evidence → seal, keys, ledger, backends → blobd. Drivers see their own
// contract and SDK only. The first place that fits a package counts.
func table() []place {
	// What the layers from store upwards may see; none of them names a driver.
	contracts := []string{"", "seal", "keys", "ledger", "backends"}
	core := append(slices.Clone(contracts), "evidence", "store", "resolver")
	return []place{
		{"", nil, nil},
		{"seal", []string{""}, []string{"golang.org/x/crypto"}},
		{"internal/groupcommit", nil, nil},
		{"internal/endpoint", []string{""}, nil},
		{"internal/servers", nil, []string{"*"}}, // for tests alone

		{"backends", []string{""}, nil},
		{"backends/fs/...", driver("backends"), []string{"go.etcd.io/bbolt", "golang.org/x/sys", "github.com/gofrs/flock"}},
		{"backends/mem", driver("backends"), nil},
		{"backends/faulty", driver("backends"), nil},
		{"backends/s3", driver("backends", "internal/endpoint"), []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go", "github.com/cenkalti/backoff/v5"}},
		{"backends/minio", driver("backends", "internal/endpoint"), []string{"github.com/minio/minio-go/v7", "github.com/cenkalti/backoff/v5", "golang.org/x/sync"}},
		{"backends/backendtest", driver("backends"), []string{"*"}},

		{"keys", []string{""}, []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync"}},
		{"keys/internal/kek", driver("keys"), nil},
		{"keys/local", driver("keys", "keys/internal/kek"), []string{"github.com/gofrs/flock"}},
		{"keys/mem", driver("keys", "keys/internal/kek"), nil},
		{"keys/transit", driver("keys"), []string{"github.com/hashicorp/vault/api", "github.com/cenkalti/backoff/v5"}},
		{"keys/faulty", driver("keys"), nil},
		{"keys/keystest", driver("keys"), []string{"*"}},

		{"ledger", []string{""}, nil},
		{"ledger/sqlite/...", driver("ledger"), []string{"modernc.org/sqlite", "github.com/pressly/goose/v3", "github.com/hashicorp/golang-lru/v2"}},
		{"ledger/postgres/...", driver("ledger"), []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "github.com/cenkalti/backoff/v5"}},
		{"ledger/mem", driver("ledger"), nil},
		{"ledger/faulty", driver("ledger"), nil},
		{"ledger/ledgertest", driver("ledger", "ledger/mem"), []string{"*"}},

		{"evidence", contracts, []string{"*"}},
		{"evidence/bucket", []string{"", "evidence", "internal/endpoint"}, []string{"github.com/minio/minio-go/v7"}},
		{"retention/clock", []string{"", "ledger"}, nil},
		{"store", append(slices.Clone(contracts), "evidence", "retention/clock"), []string{"*"}},
		{"webhooks", append(slices.Clone(contracts), "evidence"), []string{"*"}},
		{"resolver", append(slices.Clone(contracts), "evidence", "store"), []string{"*"}},
		{"retention", core, []string{"*"}},
		{"api/wire", []string{""}, nil},
		{"api", append(slices.Clone(core), "api/wire", "retention/clock"), []string{"*"}},
		{"client", []string{"api/wire"}, []string{"*"}},

		{"cmd/blobd", []string{"..."}, []string{"*"}},
		{"deploy/ready", nil, nil},
		{"integration/...", []string{"..."}, []string{"*"}},
	}
}

// driver is what a driver of a contract may see: the words, its contract, the
// queue that shares a fsync, and what else is its own.
func driver(contract string, own ...string) []string {
	return append([]string{"", contract, "internal/groupcommit"}, own...)
}

// listed is a package as the Go command lists it.
type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, v := range violations(table(), list(t)) {
		t.Error(v)
	}
}

// The checker itself: each made-up package breaks one rule and must be found.
func TestImportTableRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		pkg  listed
		want int
	}{
		{"the words import a library", listed{module, []string{"fmt", "golang.org/x/sync/errgroup"}}, 1},
		{"seal reads the network", listed{module + "/seal", []string{module, "google.golang.org/grpc"}}, 1},
		{"seal uses x/crypto", listed{module + "/seal", []string{module, "golang.org/x/crypto/chacha20"}}, 0},
		{"a contract sees another", listed{module + "/backends", []string{module, module + "/ledger"}}, 1},
		{"a contract sees its driver", listed{module + "/keys", []string{module + "/keys/local"}}, 1},
		{"a driver sees another driver", listed{module + "/backends/fs", []string{module + "/backends/mem"}}, 1},
		{"a driver sees another contract", listed{module + "/ledger/sqlite", []string{module + "/keys"}}, 1},
		{"a driver takes another SDK", listed{module + "/ledger/sqlite", []string{"go.etcd.io/bbolt"}}, 1},
		{"a name that only begins like an SDK", listed{module + "/ledger/sqlite", []string{"modernc.org/sqlitefake"}}, 1},
		{"evidence sees the store", listed{module + "/evidence", []string{module + "/store"}}, 1},
		{"the store sees the resolver", listed{module + "/store", []string{module + "/resolver"}}, 1},
		{"the store names a driver", listed{module + "/store", []string{module + "/ledger/sqlite"}}, 1},
		{"the resolver sees the API", listed{module + "/resolver", []string{module + "/api"}}, 1},
		{"retention sees the API", listed{module + "/retention", []string{module + "/api"}}, 1},
		{"the API names two drivers", listed{module + "/api", []string{module + "/keys/local", module + "/backends/fs"}}, 2},
		{"a clock sees the store", listed{module + "/retention/clock", []string{module + "/ledger", module + "/store"}}, 1},
		{"webhooks see the store", listed{module + "/webhooks", []string{module + "/ledger", module + "/store"}}, 1},
		{"the API sees webhooks", listed{module + "/api", []string{module + "/webhooks"}}, 1},
		{"the API sees retention", listed{module + "/api", []string{module + "/retention"}}, 1},
		{"the wire sees the API", listed{module + "/api/wire", []string{module + "/api"}}, 1},
		{"the client sees the store", listed{module + "/client", []string{module + "/store"}}, 1},
		{"the client sees the wire", listed{module + "/client", []string{module + "/api/wire", "net/http"}}, 0},
		{"a package without a place", listed{module + "/elsewhere", nil}, 1},
		{"a package below one with a place", listed{module + "/store/elsewhere", nil}, 1},
		{"the command wires all", listed{module + "/cmd/blobd", []string{module + "/ledger/sqlite", module + "/api", "github.com/alecthomas/kong"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := violations(table(), []listed{c.pkg}); len(got) != c.want {
				t.Errorf("want %d violations, got %q", c.want, got)
			}
		})
	}
}

// list asks the Go command for every package of the module.
func list(t *testing.T) []listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

// violations lists what packages import and may not, and packages without a
// place.
func violations(table []place, pkgs []listed) []string {
	var found []string
	for _, p := range pkgs {
		path := relative(p.ImportPath)
		i := slices.IndexFunc(table, func(pl place) bool { return matches(pl.path, path) })
		if i < 0 {
			found = append(found, fmt.Sprintf("%s has no place in the import table", p.ImportPath))
			continue
		}
		for _, imported := range p.Imports {
			if !table[i].allows(imported) {
				found = append(found, fmt.Sprintf("%s may not import %s", p.ImportPath, imported))
			}
		}
	}
	return found
}

func (p place) allows(imported string) bool {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		return slices.ContainsFunc(p.ours, func(path string) bool { return matches(path, relative(imported)) })
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(p.outside, func(m string) bool { return m == "*" || m == imported || strings.HasPrefix(imported, m+"/") })
}

func relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func matches(pattern, path string) bool {
	folder, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == path
	}
	return strings.HasPrefix(path+"/", folder)
}
