package ledgertest

import (
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func suppressionSentences() []sentence {
	return []sentence{
		{"a capture with a suppressed subject is refused, until the suppression ends", func(e *env) {
			e.scene()
			e.place(orderOf(1, ledger.OrderSuppression, subjectScope(1, 5)))
			for _, c := range []ledger.Capture{
				sceneCapture(1, 20, "free", 1, at(9)), sceneCapture(4, 20, "free", 5, at(9)), sceneCapture(4, 20, "free", 1, at(9)),
			} {
				err := e.refusedCommit(c, blobd.ErrSuppressed)
				e.refused(err, blobd.ErrPolicy)
				c.Subjects = sortedHashes(append(c.Subjects, subjectOf(3))...)
				e.refusedCommit(c, blobd.ErrSuppressed)
			}
			tagged := retained(3, at(9), refOf(4))
			tagged.Subjects = [][32]byte{subjectOf(1)}
			e.refusedCommit(tagged, blobd.ErrSuppressed)
			e.commit(sceneCapture(1, 20, "free", 2, at(9)))
			e.lift(1, ledger.OrderSuppression)
			e.commit(sceneCapture(1, 21, "free", 1, at(9)))
		}},
		{"a suppression is one tenant's, and closes nothing", func(e *env) {
			e.scene()
			before := e.picture()
			e.place(orderOf(1, ledger.OrderSuppression, subjectScope(1)))
			after := e.picture()
			after.Entries, after.Stats.JournalUnpublished = before.Entries, before.Stats.JournalUnpublished
			e.equal("the ledger", after, before)
			c := sceneCapture(9, 22, "free", 1, at(7))
			c.Tenant = "beta"
			e.commit(c)
			e.equal("blobs", e.stats().Blobs, int64(6))
			e.commit(capture(1, at(9), again(1, 30))) // without the subject
		}},
		{"a suppression ends by itself at its microsecond", func(e *env) {
			o := orderOf(1, ledger.OrderSuppression, subjectScope(1))
			o.ExpiresAt = at(50)
			e.place(o)
			e.refusedCommit(sceneCapture(1, 1, "free", 1, at(50).Add(-time.Microsecond)), blobd.ErrSuppressed)
			early, late := sceneCapture(1, 1, "free", 1, at(60)), sceneCapture(1, 1, "free", 1, at(40))
			early.AsOf, late.AsOf = at(49), at(50)
			e.refusedCommit(early, blobd.ErrSuppressed)
			e.commit(late)
			e.commit(sceneCapture(1, 2, "free", 1, at(50)))
			e.equal("it is not lifted by that", e.order(orderID(1)).LiftedAt, time.Time{})
		}},
		{"an order of another kind comes before a suppression, and a suppression before the key", func(e *env) {
			e.scene()
			e.place(orderOf(1, ledger.OrderSuppression, subjectScope(1)))
			bad := sceneCapture(1, 20, "reasoning", 1, at(9))
			bad.Key = keyOf(7)
			e.place(orderOf(2, ledger.OrderRestriction, classScope("reasoning", time.Time{})))
			e.refusedCommit(bad, blobd.ErrRestricted)
			e.lift(2, ledger.OrderRestriction)
			e.refusedCommit(bad, blobd.ErrSuppressed)
			e.lift(1, ledger.OrderSuppression)
			e.refusedCommit(bad, blobd.ErrConflict)
			e.place(orderOf(3, ledger.OrderSuppression, subjectScope(1)))
			e.fence(fenceOf(1, 1))
			e.refusedCommit(bad, blobd.ErrErased)
		}},
	}
}
