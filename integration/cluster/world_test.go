package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd/client"
	"github.com/blobd/blobd/internal/servers"
)

// nodeCount is how many nodes a deployment has.
const nodeCount = 3

// margin is the put margin of the nodes here.
const margin = time.Second

// world is the servers that all deployments share.
type world struct {
	postgres *servers.Postgres
	minio    *servers.S3
	vault    *servers.VaultServer
	made     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		postgres: servers.NewPostgres(t, servers.PostgresOptions{InMemory: true}),
		minio:    servers.MinIO(t, servers.MinIOOptions{}),
		vault:    servers.Vault(t, servers.VaultOptions{}),
	}
}

// deployment is equal nodes over one database, one bucket and one Transit mount.
type deployment struct {
	t        *testing.T
	world    *world
	database string
	settings []string // of every node
	nodes    []*node
	balancer *balancer
	token    string
}

// newDeployment makes a deployment whose nodes do not run yet.
func (w *world) newDeployment(t *testing.T, more ...string) *deployment {
	t.Helper()
	w.made++
	name := fmt.Sprintf("cluster%d", w.made)
	d := &deployment{t: t, world: w, database: w.postgres.Database(t)}
	w.minio.Bucket(t, name, servers.Bucket{})
	d.settings = append([]string{
		"BLOBD_LEDGER_DSN=" + w.postgres.URL(d.database),
		"BLOBD_BACKEND=minio",
		"BLOBD_BACKEND_ENDPOINT=" + w.minio.Endpoint,
		"BLOBD_BACKEND_BUCKET=" + name,
		"BLOBD_BACKEND_REGION=" + w.minio.Region,
		"BLOBD_BACKEND_ACCESS_KEY=" + w.minio.AccessKey,
		"BLOBD_BACKEND_SECRET_KEY=" + w.minio.SecretKey,
		"BLOBD_KEYS=transit",
		"BLOBD_VAULT_ADDR=" + w.vault.Address,
		"BLOBD_VAULT_MOUNT=" + name,
		"BLOBD_VAULT_TOKEN=" + w.transit(t, name),
		"BLOBD_PUT_MARGIN=" + margin.String(),
		"BLOBD_TOKEN_CACHE=500ms",
	}, more...)
	for i := range nodeCount {
		d.nodes = append(d.nodes, newNode(t, i+1, filepath.Join(t.TempDir(), "data"), d.settings))
	}
	d.balancer = newBalancer(t, d.nodes)
	return d
}

// transit mounts a Transit engine, and returns a token that may do there what
// operators allow blobd.
func (w *world) transit(t *testing.T, mount string) string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "vault", "blobd-policy.hcl"))
	must(t, err)
	w.vault.FreshTransit(mount)
	w.vault.Policy("blobd-"+mount, strings.ReplaceAll(string(rules), `"transit/`, `"`+mount+`/`))
	return w.vault.NewToken("blobd-"+mount, "1h")
}

// start starts all nodes at once, waits until each is ready, and reads the token
// that one of them wrote.
func (d *deployment) start() {
	d.t.Helper()
	var all sync.WaitGroup
	for _, n := range d.nodes {
		all.Go(n.launch)
	}
	all.Wait()
	for _, n := range d.nodes {
		n.awaitReady()
	}
	d.token = d.onlyToken()
}

// onlyToken returns the admin token, which exactly one node wrote.
func (d *deployment) onlyToken() (token string) {
	d.t.Helper()
	for _, n := range d.nodes {
		b, err := os.ReadFile(filepath.Join(n.dir, "admin.token"))
		if os.IsNotExist(err) {
			continue
		}
		must(d.t, err)
		if token != "" {
			d.t.Fatal("two nodes wrote an admin token")
		}
		token = strings.TrimSpace(string(b))
	}
	if token == "" {
		d.t.Fatal("no node wrote an admin token")
	}
	return token
}

// client is a client of one URL that asks once.
func (d *deployment) client(url string) *client.Client {
	d.t.Helper()
	return newClient(d.t, client.Options{Server: url, Token: d.token, RetryFor: -1})
}

// patient is a client of one URL that repeats what is safe.
func (d *deployment) patient(url string) *client.Client {
	d.t.Helper()
	return newClient(d.t, client.Options{Server: url, Token: d.token, RetryFor: 40 * time.Second})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
