package ledgertest

import (
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

const (
	deployment = "00112233445566778899aabbccddeeff"
	other      = "ffeeddccbbaa99887766554433221100"
)

func deploymentSentences() []sentence {
	return []sentence{
		{"the first call inserts the identity, later ones return it", func(e *env) {
			i, err := e.Identity(e.ctx, deployment)
			e.must(err)
			e.equal("identity", i, ledger.Identity{ID: deployment, New: true})
			i, err = e.Identity(e.ctx, other)
			e.must(err)
			e.equal("identity", i, ledger.Identity{ID: deployment})
		}},
		{"an id of another spelling is invalid", func(e *env) {
			for _, id := range []string{"", "00", deployment + "0", "00112233445566778899AABBCCDDEEFF"} {
				_, err := e.Identity(e.ctx, id)
				e.refused(err, blobd.ErrInvalid)
			}
		}},
		{"the identity is confirmed", func(e *env) {
			e.refused(e.ConfirmIdentity(e.ctx), blobd.ErrNotFound)
			_, err := e.Identity(e.ctx, deployment)
			e.must(err)
			e.must(e.ConfirmIdentity(e.ctx))
			e.must(e.ConfirmIdentity(e.ctx))
			i, err := e.Identity(e.ctx, other)
			e.must(err)
			e.equal("identity", i, ledger.Identity{ID: deployment, Confirmed: true})
		}},
		{"the recovery state moves with its evidence", func(e *env) {
			for _, s := range []ledger.RecoveryState{ledger.RecoveryReplay, ledger.RecoveryReplayGap, ledger.RecoveryGap, ledger.RecoveryNone} {
				before := len(e.entries())
				e.must(e.SetRecovery(e.ctx, s, entry(ledger.EntryRecovery)))
				e.equal("entries", len(e.entries()), before+1)
				e.equal("seen by reads", e.lookup(1, refOf(1)).Recovery, s)
				i, err := e.Identity(e.ctx, deployment)
				e.must(err)
				e.equal("identity", i.Recovery, s)
			}
			e.refused(e.SetRecovery(e.ctx, ledger.RecoveryReplayGap+1, entry(ledger.EntryRecovery)), blobd.ErrInvalid)
		}},
		{"a ledger that can write says so", func(e *env) {
			e.must(e.Check(e.ctx))
			e.equal("mark", e.mark(1).Seq, int64(1))
			e.must(e.Check(e.ctx))
			e.equal("a check is no write to be marked", e.mark(2), ledger.Record{})
		}},
	}
}

func request(n int) ledger.Request {
	return ledger.Request{Tenant: tenant, Route: "POST /v1/erasures", Key: hash("idempotency", n), Body: hash("body", n), At: at(n)}
}

// begin claims a key and reports what was there.
func (e *env) begin(r ledger.Request, notBefore int) (ledger.Request, bool) {
	e.Helper()
	existing, found, err := e.Begin(e.ctx, r, at(notBefore))
	e.must(err)
	return existing, found
}

func requestSentences() []sentence {
	return []sentence{
		{"a new key is claimed", func(e *env) {
			existing, found := e.begin(request(1), 0)
			e.equal("found", found, false)
			e.equal("existing", existing, ledger.Request{})
		}},
		{"a claimed key returns what is there, still running", func(e *env) {
			e.begin(request(1), 0)
			r := request(1)
			r.Body, r.At = hash("body", 2), at(5)
			existing, found := e.begin(r, 0)
			e.equal("found", found, true)
			e.equal("existing", existing, request(1))
		}},
		{"a completed key returns its answer", func(e *env) {
			r := request(1)
			e.begin(r, 0)
			r.Status, r.Answer = 202, []byte("sealed")
			e.must(e.Complete(e.ctx, r))
			existing, found := e.begin(request(1), 0)
			e.equal("found", found, true)
			e.equal("existing", existing, r)
		}},
		{"an abandoned key is free again", func(e *env) {
			e.begin(request(1), 0)
			e.must(e.Abandon(e.ctx, request(1)))
			_, found := e.begin(request(1), 0)
			e.equal("found", found, false)
		}},
		{"a key is one tenant's and one route's", func(e *env) {
			e.begin(request(1), 0)
			r := request(1)
			r.Tenant = "beta"
			_, found := e.begin(r, 0)
			e.equal("found", found, false)
			r = request(1)
			r.Route = "POST /v1/tokens"
			_, found = e.begin(r, 0)
			e.equal("found", found, false)
		}},
		{"entries older than the bound are as if absent", func(e *env) {
			r := request(1)
			e.begin(r, 0)
			r.Status = 202
			e.must(e.Complete(e.ctx, r))
			_, found := e.begin(r, 1)
			e.equal("found at the bound", found, true)
			later := request(1)
			later.At = at(9)
			_, found = e.begin(later, 2)
			e.equal("found", found, false)
			existing, found := e.begin(later, 2)
			e.equal("found", found, true)
			e.equal("existing", existing, later)
		}},
		{"completing or abandoning what is not running is a conflict", func(e *env) {
			r := request(1)
			r.Status = 200
			e.refused(e.Complete(e.ctx, r), blobd.ErrConflict)
			e.refused(e.Abandon(e.ctx, r), blobd.ErrConflict)
			e.begin(request(1), 0)
			stranger := r
			stranger.Body = hash("body", 2)
			e.refused(e.Complete(e.ctx, stranger), blobd.ErrConflict)
			e.refused(e.Abandon(e.ctx, stranger), blobd.ErrConflict)
			e.must(e.Complete(e.ctx, r))
			r.Status = 500
			e.refused(e.Complete(e.ctx, r), blobd.ErrConflict)
			e.refused(e.Abandon(e.ctx, r), blobd.ErrConflict)
			existing, _ := e.begin(request(1), 0)
			e.equal("status", existing.Status, 200)
		}},
		{"an answer without a status is invalid", func(e *env) {
			e.begin(request(1), 0)
			e.refused(e.Complete(e.ctx, request(1)), blobd.ErrInvalid)
		}},
	}
}

func auditSentences() []sentence {
	return []sentence{
		{"an entry reads back as it was appended, its free text too", func(e *env) {
			want := ledger.Entry{
				Tenant: "beta", Kind: ledger.EntryRead, At: at(3), Body: []byte(`{"who":"x"}`),
				FreeText: "why – because", Salt: []byte{1, 2, 3},
			}
			e.must(e.Append(e.ctx, want))
			es := e.entries()
			e.equal("entry", es[len(es)-1].Entry, want)
		}},
		{"entries come oldest first after an id, up to a limit", func(e *env) {
			for i := range 5 {
				x := entry(ledger.EntryRead)
				x.Body = fmt.Appendf(nil, `{"n":%d}`, i)
				e.must(e.Append(e.ctx, x))
			}
			all := e.entries()
			e.equal("entries", len(all), 6) // and the tenant's
			for i := range all[1:] {
				if all[i+1].ID <= all[i].ID {
					e.Fatalf("ids %d, %d", all[i].ID, all[i+1].ID)
				}
			}
			page, err := e.Entries(e.ctx, all[1].ID, 3)
			e.must(err)
			e.equal("page", page, all[2:5])
			page, err = e.Entries(e.ctx, all[5].ID, 3)
			e.must(err)
			e.equal("page after the last", len(page), 0)
			_, err = e.Entries(e.ctx, 0, 0)
			e.refused(err, blobd.ErrInvalid)
		}},
		{"a move that is refused leaves no evidence", func(e *env) {
			before := e.entries()
			_, _, err := e.LiftOrder(e.ctx, liftOf(1, ledger.OrderHold), entry(ledger.EntryOrder))
			e.refused(err, blobd.ErrNotFound)
			e.refused(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(1), entry(ledger.EntryRecovery)), blobd.ErrNotFound)
			e.equal("entries", e.entries(), before)
		}},
	}
}
