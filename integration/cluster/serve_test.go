package cluster

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

var serve = flag.Bool("serve", false, "run the servers, the nodes and the balancer until interrupted")

// TestServe runs the topology for people, and only with -serve: see `make
// cluster`. It proves nothing that TestCluster does not.
func TestServe(t *testing.T) {
	if !*serve {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	d := newWorld(t).newDeployment(t)
	d.start()
	fmt.Printf("\nblobd is at %s, the balancer of\n", d.balancer.url())
	for _, n := range d.nodes {
		fmt.Printf("  %s  %s  data folder %s\n", n.name, n.url(), n.dir)
	}
	fmt.Printf("over PostgreSQL %s, MinIO %s and Vault %s. Each node has, beside its --data-dir and --listen:\n\n",
		d.world.postgres.Address(), d.world.minio.Endpoint, d.world.vault.Address)
	for _, s := range d.settings {
		name, value, _ := strings.Cut(s, "=")
		fmt.Printf("  %s=%s\n", name, value)
	}
	fmt.Printf("\nTry it: BLOBD_SERVER=%s BLOBD_TOKEN=%s bin/blobd put --help\nEnd it with Ctrl-C.\n", d.balancer.url(), d.token)
	<-ctx.Done()
}
