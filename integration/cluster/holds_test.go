package cluster

import (
	"fmt"
	"testing"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// holdsAreHonouredByAll: a hold that one node placed keeps its blobs from the sweeps
// and the erasures of the others from the moment that it was answered, and what it
// deferred goes on once a third node released it.
func holdsAreHonouredByAll(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	var clients []*client.Client
	for _, n := range d.nodes {
		clients = append(clients, d.client(n.url()))
	}
	existing := true
	_, err := clients[0].SetPolicy(t.Context(), "reasoning", wire.PolicyRequest{Period: "PT1S", Existing: &existing})
	must(t, err)
	const rounds = 6
	for round := range rounds {
		one, two, three := clients[round%nodeCount], clients[(round+1)%nodeCount], clients[(round+2)%nodeCount]
		held, free := fmt.Sprintf("held %d", round), fmt.Sprintf("free %d", round)
		kept, gone := mustPut(t, one, held, "kept"), mustPut(t, two, free, "gone")
		hold, err := one.PlaceHold(t.Context(), wire.HoldRequest{
			Scope: &wire.Scope{ExecutionID: &held}, Matter: "a case", Reason: "a test", Owner: "somebody",
		}, "")
		must(t, err)
		later := mustPut(t, three, held, "put under the hold")
		eventually(t, readyTime, "the texts to expire", func() bool {
			_, a := resolve(t.Context(), two, free, gone)
			_, b := resolve(t.Context(), two, held, later)
			return a != nil && b != nil
		})

		wantSwept(t, two, 1)
		wantReading(t, one, held, map[string]string{kept: "ok", later: "ok"})
		wantReading(t, three, free, map[string]string{gone: "expired"})

		e, err := three.Erase(t.Context(), wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &held}, Reason: "a test"}, "")
		must(t, err)
		if e.State != "deferred" {
			t.Errorf("an erasure of what is held is %s", e.State)
		}
		for i, c := range clients {
			wantNull(t, d.nodes[i].name, c, held, kept)
		}
		_, err = two.ReleaseHold(t.Context(), hold.ID, "settled")
		must(t, err)
		eventually(t, readyTime, "the deferred erasure to end", func() bool {
			e, err := one.Erasure(t.Context(), e.ID)
			return err == nil && e.State == "erased"
		})
	}
	d.verified()
}

// wantSwept sweeps through one node, whichever runs it, and wants so many blobs erased.
func wantSwept(t *testing.T, c *client.Client, erased int64) {
	t.Helper()
	s, err := c.StartSweep(t.Context(), wire.SweepRequest{})
	must(t, err)
	s, err = c.WaitSweep(t.Context(), s.ID, nil)
	must(t, err)
	if s.State != "done" || s.Erased != erased || s.Held != 2 || s.Due != erased+2 {
		t.Errorf("the sweep is %+v", s)
	}
}

// wantReading reads as a person: the status of each ref.
func wantReading(t *testing.T, c *client.Client, execution string, want map[string]string) {
	t.Helper()
	read, err := c.Read(t.Context(), execution, wire.ReadRequest{Purpose: "a test"})
	must(t, err)
	got := map[string]string{}
	for _, p := range read.Parts {
		got[p.Ref] = string(p.Status)
	}
	for ref, status := range want {
		if got[ref] != status {
			t.Errorf("%s: %s reads as %q, want %q", execution, ref, got[ref], status)
		}
	}
}
