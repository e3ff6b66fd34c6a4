package cluster

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// callers is how many ask at the same time.
const callers = 12

// linearizable: what callers of all nodes see, while nodes are killed, paused
// and restarted, is what callers of one blobd that does one thing after the
// other would see. After an erasure was answered no node has the text; what was
// acknowledged resolves until it is erased; what was not may have landed, and
// then stays.
func linearizable(t *testing.T, w *world) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := w.newDeployment(t)
	d.start()
	h := newHistory(t)
	n := &nemesis{t: t, nodes: d.nodes, random: rand.New(rand.NewPCG(seed, 0)), done: make(map[string]int)}

	ctx, cancel := context.WithTimeout(t.Context(), workTime)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { n.run(ctx) })
	for who := range callers {
		work.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(who)+1))
			urls := []string{d.balancer.url(), d.balancer.url(), d.nodes[who%nodeCount].url()}
			c := d.client(urls[who%len(urls)])
			for ctx.Err() == nil {
				if v := h.act(t.Context(), who, random, c); v == unknown || v == unsent {
					wait(ctx, random, 10, 50) // as a caller does
				}
			}
		})
	}
	work.Wait()
	for _, node := range d.nodes {
		node.awaitReady()
	}
	for i, node := range d.nodes {
		h.readAll(t.Context(), callers+i, d.client(node.url()))
	}
	t.Logf("harm done: %v", n.done)
	h.wantWork()
	h.judge()
	d.verified()
}

// verified ends the nodes and has the program check that every live row opens.
func (d *deployment) verified() {
	d.t.Helper()
	for _, n := range d.nodes {
		n.kill()
	}
	cmd := exec.Command(program, "verify", "--data-dir", d.nodes[0].dir)
	cmd.Env = environ(d.settings)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Errorf("verify: %v\n%s", err, out)
	}
}
