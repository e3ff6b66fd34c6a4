package cluster

import (
	"fmt"
	"sync"
	"testing"
)

// inHand stops all nodes but the first, starts erasures there, and calls stop in
// the midst of one: the node has its lease when stop returns. It returns who the
// lease's owner is.
func (d *deployment) inHand(p peek, stop func()) (owner string) {
	d.t.Helper()
	for _, n := range d.nodes[1:] {
		n.kill()
	}
	c := d.client(d.nodes[0].url())
	for round := range 20 {
		// Many objects, so that a job takes a while.
		execution := fmt.Sprintf("in hand %d", round)
		var puts sync.WaitGroup
		for blob := range 40 {
			puts.Go(func() {
				if _, err := put(d.t.Context(), c, execution, fmt.Appendf(nil, "text %d", blob)); err != nil {
					d.t.Errorf("put: %v", err)
				}
			})
		}
		puts.Wait()
		_, err := erase(d.t.Context(), c, execution)
		must(d.t, err)
		eventually(d.t, readyTime, "the node to work on an erasure", func() bool {
			return p.leases() > 0 || p.number("SELECT count(*) FROM erasures WHERE state = 'running' AND attempts = 0") == 0
		})
		stop()
		if p.leases() > 0 {
			return p.text("SELECT lease_owner FROM erasures WHERE lease_owner IS NOT NULL")
		}
		d.nodes[0].resume() // it was quicker
		d.nodes[0].kill()
		d.nodes[0].start()
	}
	d.t.Fatal("the node was never stopped in the midst of an erasure")
	return ""
}

// others starts the nodes that inHand stopped.
func (d *deployment) others() {
	d.t.Helper()
	for _, n := range d.nodes[1:] {
		n.launch()
	}
	for _, n := range d.nodes[1:] {
		n.awaitReady()
	}
}

const running = "SELECT count(*) FROM erasures WHERE state = 'running'"

// jobsOfADeadNodeMove: what a node had in hand when it died is left alone while
// its lease lasts, and then finished by another; what it had not begun needs no
// wait. Each is finished once.
func jobsOfADeadNodeMove(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	p := d.peek()
	owner := d.inHand(p, d.nodes[0].kill)
	d.others()
	c := d.client(d.nodes[1].url())
	for i := range 10 {
		execution := fmt.Sprintf("spread %d", i)
		mustPut(t, c, execution, "a text")
		_, err := erase(t.Context(), c, execution)
		must(t, err)
	}
	eventually(t, readyTime, "all erasures but the dead node's to finish", func() bool { return p.number(running) <= 1 })
	if p.leases() != 1 || p.text("SELECT lease_owner FROM erasures WHERE state = 'running'") != owner {
		t.Error("another node took a job before the dead node's lease was over")
	}
	p.endLeases()
	eventually(t, readyTime, "the dead node's erasure to finish", func() bool { return p.number(running) == 0 })
	d.nodes[0].start()
	p.wantErasedOnce()
}

// aJobOfAPausedNodeRunsOnce: a node that is paused past its lease loses the job;
// what it does when it goes on changes nothing.
func aJobOfAPausedNodeRunsOnce(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	p := d.peek()
	d.inHand(p, d.nodes[0].pause)
	d.others()
	p.endLeases()
	eventually(t, readyTime, "another node to finish", func() bool { return p.number(running) == 0 })
	p.wantErasedOnce()

	// It works on one job after the other: when it has finished a new one alone,
	// it is through with the one that it lost.
	for _, n := range d.nodes[1:] {
		n.kill()
	}
	d.nodes[0].resume()
	d.nodes[0].awaitReady()
	c := d.patient(d.nodes[0].url())
	mustPut(t, c, "after", "a text")
	_, err := erase(t.Context(), c, "after")
	must(t, err)
	eventually(t, readyTime, "the node that went on to finish", func() bool { return p.number(running) == 0 })
	p.wantErasedOnce()
}
