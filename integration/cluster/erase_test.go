package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/blobd/blobd/client"
)

// Any number of nodes starts at once over a ledger, a bucket and a Vault that
// nobody used before: one makes the tenant and the token, all serve. Later they
// start at once over what is in use.
func nodesStartAtOnce(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	c := d.client(d.nodes[0].url())
	ref := mustPut(t, c, "run", "a text")
	for _, n := range d.nodes {
		wantText(t, n.name, d.client(n.url()), "run", ref, "a text")
		if errors := strings.Count(n.stderr.String(), `"level":"ERROR"`); errors > 0 {
			t.Errorf("%s logged %d errors", n.name, errors)
		}
	}
	for _, n := range d.nodes {
		n.kill()
	}
	var all sync.WaitGroup
	for _, n := range d.nodes {
		all.Go(n.launch)
	}
	all.Wait()
	for _, n := range d.nodes {
		n.awaitReady()
		wantText(t, n.name+" again", d.client(n.url()), "run", ref, "a text")
	}

	// A node on a new folder joins; it makes no token.
	joining := newNode(t, nodeCount+1, filepath.Join(t.TempDir(), "data"), d.settings)
	joining.start()
	wantText(t, "a joining node", d.client(joining.url()), "run", ref, "a text")
	if _, err := os.Stat(filepath.Join(joining.dir, "admin.token")); !os.IsNotExist(err) {
		t.Errorf("a joining node's admin.token: %v", err)
	}
}

// erasureIsNullOnAllAtOnce: when an erasure is answered, no node has bytes any
// more, whatever it keeps in memory, and no node takes a put.
func erasureIsNullOnAllAtOnce(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	var clients []*client.Client
	for _, n := range d.nodes {
		clients = append(clients, d.client(n.url()))
	}
	const rounds = 40
	for round := range rounds {
		execution := fmt.Sprintf("run %d", round)
		kept := mustPut(t, clients[round%nodeCount], execution, "kept text")
		erased := mustPut(t, clients[(round+1)%nodeCount], execution, "erased text")
		for i, n := range d.nodes { // into every node's memory
			wantText(t, n.name, clients[i], execution, kept, "kept text")
			wantText(t, n.name, clients[i], execution, erased, "erased text")
		}
		if _, err := erase(t.Context(), clients[(round+2)%nodeCount], execution, erased); err != nil {
			t.Fatal(err)
		}
		d.onAll(func(i int, who string) {
			wantNull(t, who, clients[i], execution, erased)
			wantText(t, who, clients[i], execution, kept, "kept text")
		})
		if _, err := erase(t.Context(), clients[round%nodeCount], execution); err != nil {
			t.Fatal(err)
		}
		d.onAll(func(i int, who string) {
			wantNull(t, who, clients[i], execution, kept)
			wantNull(t, who, clients[i], execution, erased)
			if _, err := put(t.Context(), clients[i], execution, []byte("kept text")); verdictOf(t, err) != refused {
				t.Errorf("%s: a put into an erased execution: %v", who, err)
			}
		})
	}

	// A token that one node revoked is taken by none once the stated bound is over.
	made, err := clients[0].CreateToken(t.Context(), tokenFor("runtime"), "")
	must(t, err)
	of := func(n *node) *client.Client {
		return newClient(t, client.Options{Server: n.url(), Token: made.Secret, RetryFor: -1})
	}
	for _, n := range d.nodes {
		wantNull(t, n.name, of(n), "run 0", strangerRef)
	}
	must(t, clients[1].RevokeToken(t.Context(), made.ID))
	for _, n := range d.nodes {
		eventually(t, readyTime, n.name+" to refuse a revoked token", func() bool {
			_, err := resolve(t.Context(), of(n), "run 0", strangerRef)
			return statusOf(err) == http.StatusUnauthorized
		})
	}
}

// strangerRef is a ref that nobody was given.
var strangerRef = "sha256:" + strings.Repeat("0", 64)

// onAll does the same on all nodes at once.
func (d *deployment) onAll(f func(i int, who string)) {
	var all sync.WaitGroup
	for i, n := range d.nodes {
		all.Go(func() { f(i, n.name) })
	}
	all.Wait()
}
