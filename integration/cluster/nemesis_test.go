package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// nemesis kills, pauses and restarts nodes. At least one is left alone at any
// time.
type nemesis struct {
	t      *testing.T
	nodes  []*node
	random *rand.Rand
	done   map[string]int
}

// run harms until ctx ends, and leaves every node running.
func (n *nemesis) run(ctx context.Context) {
	acts := []struct {
		name string
		act  func(context.Context, *node)
	}{
		{"kill", n.kill}, {"pause past the put margin", n.pauseLong}, {"pause", n.pauseShort}, {"restart", n.restart}, {"kill two", nil},
	}
	for ctx.Err() == nil {
		for _, i := range n.random.Perm(len(acts)) {
			if ctx.Err() != nil {
				return
			}
			nodes := slices.Clone(n.nodes)
			n.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			n.done[acts[i].name]++
			if acts[i].act == nil {
				n.killTwo(ctx, nodes[0], nodes[1])
			} else {
				acts[i].act(ctx, nodes[0])
			}
			wait(ctx, n.random, 100, 600)
		}
	}
}

// wait waits for a random while, in milliseconds.
func wait(ctx context.Context, random *rand.Rand, least, most int) {
	timer := time.NewTimer(time.Duration(least+random.IntN(most-least)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (n *nemesis) kill(ctx context.Context, node *node) {
	node.kill()
	wait(ctx, n.random, 50, 500)
	node.launch()
}

func (n *nemesis) killTwo(ctx context.Context, one, other *node) {
	one.kill()
	wait(ctx, n.random, 1, 100)
	other.kill()
	wait(ctx, n.random, 50, 300)
	other.launch()
	one.launch()
}

func (n *nemesis) restart(_ context.Context, node *node) {
	if code, _ := node.stop(); code != 0 && code != -1 { // -1: it was still starting
		n.t.Errorf("%s ended with %d", node.name, code)
	}
	node.launch()
}

func (n *nemesis) pauseShort(ctx context.Context, node *node) {
	node.pause()
	defer node.resume()
	wait(ctx, n.random, 50, 400)
}

func (n *nemesis) pauseLong(ctx context.Context, node *node) {
	node.pause()
	defer node.resume()
	wait(ctx, n.random, int(margin.Milliseconds())+300, int(margin.Milliseconds())+1200)
}
