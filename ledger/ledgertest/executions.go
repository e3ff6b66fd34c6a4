package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func executionSentences() []sentence {
	return []sentence{
		{"an execution tells what only a count can tell", func(e *env) {
			e.maximum("reasoning", time.Hour)
			e.maximum("short", time.Minute)
			short := newBlob(3)
			short.Class = "short"
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			c := capture(1, at(30), short)
			c.StepID = "another step"
			e.commit(c)
			s := e.summary(1)
			e.equal("classes", s.Classes, map[string]int64{"reasoning": 2, "short": 1})
			e.equal("steps", s.Steps, int64(2))
			e.equal("next due", s.NextDue, at(90))
			e.equal("execution", &s.Execution, e.lookup(1, refOf(1)).Execution)
		}},
		{"an unknown execution or another tenant's is not found", func(e *env) {
			e.tenant("beta", 0)
			e.put(1, 1)
			_, err := e.Execution(e.ctx, tenant, tagOf(2))
			e.refused(err, blobd.ErrNotFound)
			_, err = e.Execution(e.ctx, "beta", tagOf(1))
			e.refused(err, blobd.ErrNotFound)
		}},
		{"an erased execution has no live blobs", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			s := e.summary(1)
			e.equal("classes", s.Classes, map[string]int64{})
			e.equal("counts", []int64{s.Blobs, s.Bytes}, []int64{0, 0})
			e.equal("erased at", s.ErasedAt, at(10))
		}},
		{"a tenant's executions are listed newest first, then by tag downwards", listExecutions},
		{"a listing is filtered by state", func(e *env) {
			for x := range 3 {
				e.put(x, x)
			}
			e.restrict(1)
			e.fence(fenceOf(1, 2))
			for x, s := range []ledger.ExecutionState{ledger.ExecutionOpen, ledger.ExecutionClosed, ledger.ExecutionErased} {
				es, err := e.ListExecutions(e.ctx, ledger.ExecutionQuery{Tenant: tenant, State: s, Limit: 10})
				e.must(err)
				e.equal("executions", len(es), 1)
				e.equal("tag", es[0].Tag, tagOf(x))
			}
		}},
		{"a listing by class has what holds a live blob of it", func(e *env) {
			other := newBlob(1)
			other.Class = "other"
			e.commit(capture(1, start, other))
			e.put(2, 2)
			c := newBlob(3)
			c.Class = "other"
			e.commit(capture(3, start, c))
			e.fence(fenceOf(1, 3))
			es, err := e.ListExecutions(e.ctx, ledger.ExecutionQuery{Tenant: tenant, Class: "other", Limit: 10})
			e.must(err)
			e.equal("executions", len(es), 1)
			e.equal("tag", es[0].Tag, tagOf(1))
			e.fence(fenceOf(2, 1, refOf(1)))
			es, err = e.ListExecutions(e.ctx, ledger.ExecutionQuery{Tenant: tenant, Class: "other", Limit: 10})
			e.must(err)
			e.equal("executions", len(es), 0)
		}},
		{"a listing without a limit is invalid", func(e *env) {
			_, err := e.ListExecutions(e.ctx, ledger.ExecutionQuery{Tenant: tenant})
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Records(e.ctx, ledger.RecordQuery{Tag: tagOf(1)})
			e.refused(err, blobd.ErrInvalid)
		}},
	}
}

func listExecutions(e *env) {
	e.tenant("beta", 0)
	foreign := capture(90, at(1), newBlob(90))
	foreign.Tenant = "beta"
	e.commit(foreign)
	var want []blobd.ExecutionTag
	for group := range 3 { // three executions of one time, three times
		var tags []blobd.ExecutionTag
		for i := range 3 {
			x := 10*group + i
			e.commit(capture(x, at(group), newBlob(x)))
			tags = append(tags, tagOf(x))
		}
		slices.SortFunc(tags, func(a, b blobd.ExecutionTag) int { return slices.Compare(a[:], b[:]) })
		want = append(want, tags...)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 2, 4, 100} {
		var got []blobd.ExecutionTag
		q := ledger.ExecutionQuery{Tenant: tenant, Limit: limit}
		for {
			page, err := e.ListExecutions(e.ctx, q)
			e.must(err)
			if len(page) > limit {
				e.Fatalf("a page of %d", len(page))
			}
			for _, x := range page {
				got = append(got, x.Tag)
				q.Before = ledger.ExecutionCursor{CreatedAt: x.CreatedAt, Tag: x.Tag}
			}
			if len(page) < limit {
				break
			}
		}
		e.equal(fmt.Sprintf("order in pages of %d", limit), got, want)
	}
}

func recordSentences() []sentence {
	return []sentence{
		{"records come in log order with the rows that they name", func(e *env) {
			c := capture(1, at(3), newBlob(1))
			c.Parts = append(c.Parts, ledger.Part{Index: 1, Kind: blobd.KindRedacted, Status: ledger.PartRedacted, Blob: -1},
				ledger.Part{Index: 2, Kind: blobd.KindText, Status: ledger.PartOmitted, Blob: -1})
			e.commit(c)
			e.put(2, 9)
			e.commit(capture(1, at(4), newBlob(2)))
			rs := e.records(1)
			e.equal("records", len(rs), 4)
			for i := range rs[1:] {
				if rs[i+1].Seq <= rs[i].Seq {
					e.Fatalf("sequence numbers %d, %d", rs[i].Seq, rs[i+1].Seq)
				}
			}
			first, second := rs[0], rs[1]
			first.Seq, second.Seq = 0, 0
			e.equal("kept", first, ledger.RecordedPart{
				StepID: "step", Attempt: 1, Kind: blobd.KindText, Status: ledger.PartKept, Provider: "provider",
				Model: "model", At: at(3), Ref: refOf(1), Blob: e.blob(1, 1),
			})
			e.equal("redacted", second, ledger.RecordedPart{
				StepID: "step", Attempt: 1, Index: 1, Kind: blobd.KindRedacted, Status: ledger.PartRedacted,
				Provider: "provider", Model: "model", At: at(3),
			})
		}},
		{"a part is recorded once per step, attempt, index and ref", func(e *env) {
			e.put(1, 1)
			e.commit(retained(1, at(1), refOf(1)))
			e.equal("records", len(e.records(1)), 1)
			for _, change := range []func(*ledger.Capture){
				func(c *ledger.Capture) { c.StepID = "other" },
				func(c *ledger.Capture) { c.Attempt = 2 },
				func(c *ledger.Capture) { c.Parts[0].Index = 1 },
				func(c *ledger.Capture) { *c = capture(1, at(1), newBlob(2)) },
			} {
				before := len(e.records(1))
				for range 2 {
					c := retained(1, at(2), refOf(1))
					change(&c)
					e.commit(c)
				}
				e.equal("records", len(e.records(1)), before+1)
			}
		}},
		{"a part that was not kept is recorded once too", func(e *env) {
			e.commit(capture(1, at(1)))
			e.commit(capture(1, at(2)))
			e.equal("records", len(e.records(1)), 1)
		}},
		{"records are selected by step, by prefix and after a number", func(e *env) {
			for i, step := range []string{"turn:1:model", "turn:1:tool", "turn:10:model", "tur%"} {
				c := capture(1, at(i), newBlob(i))
				c.StepID = step
				e.commit(c)
			}
			all := e.records(1)
			for _, c := range []struct {
				q    ledger.RecordQuery
				want []int
			}{
				{ledger.RecordQuery{StepID: "turn:1:tool"}, []int{1}},
				{ledger.RecordQuery{StepPrefix: "turn:1:"}, []int{0, 1}},
				{ledger.RecordQuery{StepPrefix: "turn:1"}, []int{0, 1, 2}},
				{ledger.RecordQuery{StepPrefix: "tur%"}, []int{3}},
				{ledger.RecordQuery{StepPrefix: "turn", StepID: "turn:10:model"}, []int{2}},
				{ledger.RecordQuery{After: all[1].Seq}, []int{2, 3}},
				{ledger.RecordQuery{After: all[0].Seq, Limit: 2}, []int{1, 2}},
			} {
				c.q.Tag = tagOf(1)
				if c.q.Limit == 0 {
					c.q.Limit = 100
				}
				got, err := e.Records(e.ctx, c.q)
				e.must(err)
				var want []ledger.RecordedPart
				for _, i := range c.want {
					want = append(want, all[i])
				}
				e.equal("records", got, want)
			}
		}},
		{"a record outlives the content that it names", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1, refOf(1)))
			rs := e.records(1)
			e.equal("records", len(rs), 1)
			e.equal("state", rs[0].Blob.State, ledger.BlobErased)
		}},
		{"an unknown execution has no records", func(e *env) {
			e.equal("records", len(e.records(9)), 0)
		}},
	}
}
