package ledgertest

import (
	"errors"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

func lookupSentences() []sentence {
	return []sentence{
		{"a blob reads back as it was committed", func(e *env) {
			b := newBlob(1)
			b.Audience = [][32]byte{hash("audience", 1), hash("audience", 2)}
			e.commit(capture(1, at(3), b))
			e.equal("blob", e.blob(1, 1), &ledger.Blob{
				Ref: b.Ref, State: ledger.BlobLive, Class: b.Class, Kind: b.Kind, ContentType: b.ContentType,
				Size: b.Size, SealedSize: b.SealedSize, StepID: "step", CreatedAt: at(3), Repeat: b.Repeat,
				WrappedKey: b.WrappedKey, Audience: b.Audience, ExpiresAt: at(3).AddDate(1, 0, 0),
			})
		}},
		{"the execution reads back as it was committed", func(e *env) {
			e.commit(capture(1, at(3), newBlob(1), newBlob(2)))
			key := keyOf(1)
			e.equal("execution", e.lookup(1, refOf(1)).Execution, &ledger.Execution{
				Tag: tagOf(1), Tenant: tenant, ID: idOf(1), State: ledger.ExecutionOpen, Key: &key,
				CreatedAt: at(3), Blobs: 2, Bytes: size(1) + size(2),
			})
		}},
		{"an execution without a row is nil", func(e *env) {
			v := e.lookup(1, refOf(1))
			if v.Execution != nil || len(v.Blobs) != 1 || v.Blobs[0] != nil {
				e.Fatalf("view %+v", v)
			}
		}},
		{"blobs come in the order asked for, nil where there is no row", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2), newBlob(3)))
			v := e.lookup(1, refOf(3), refOf(9), refOf(1), refOf(3), refOf(2))
			if v.Blobs[1] != nil {
				e.Fatal("a row for a ref that was never stored")
			}
			for i, n := range map[int]int{0: 3, 2: 1, 3: 3, 4: 2} {
				e.equal("ref", v.Blobs[i].Ref, refOf(n))
			}
		}},
		{"a blob of another execution is nil", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			e.equal("state", e.state(2, 1), ledger.BlobState(0))
		}},
		{"256 refs are answered, none and 257 are invalid", func(e *env) {
			var blobs []ledger.NewBlob
			var refs []blobd.Ref
			for n := range 256 {
				blobs, refs = append(blobs, newBlob(n)), append(refs, refOf(n))
			}
			e.commit(capture(1, start, blobs...))
			for i, b := range e.lookup(1, refs...).Blobs {
				if b == nil || b.Ref != refOf(i) {
					e.Fatalf("blob %d is %v", i, b)
				}
			}
			_, err := e.Lookup(e.ctx, tagOf(1), nil)
			e.refused(err, blobd.ErrInvalid)
			_, err = e.Lookup(e.ctx, tagOf(1), append(refs, refOf(256)))
			e.refused(err, blobd.ErrInvalid)
			_, err = e.LookupRepeats(e.ctx, tagOf(1), make([][32]byte, 257))
			e.refused(err, blobd.ErrInvalid)
		}},
		{"the time is the ledger's clock in UTC", func(e *env) {
			e.clock.set(at(7).In(time.FixedZone("east", 3600)))
			now := e.lookup(1, refOf(1)).Now
			e.equal("now", now, at(7))
			e.equal("zone", now.Location() == time.UTC, true)
		}},
		{"the recovery state and the tenant's minimum wrap are told", func(e *env) {
			e.put(1, 1)
			v := e.lookup(1, refOf(1))
			e.equal("recovery", v.Recovery, ledger.RecoveryNone)
			e.equal("minimum", v.MinimumWrap, uint32(0))
			e.tenant("beta", 3)
			c := capture(2, start, newBlob(2))
			c.Tenant, c.Key.Version = "beta", 3
			e.commit(c)
			e.must(e.SetRecovery(e.ctx, ledger.RecoveryGap, entry(ledger.EntryRecovery)))
			v = e.lookup(2, refOf(2))
			e.equal("recovery", v.Recovery, ledger.RecoveryGap)
			e.equal("minimum", v.MinimumWrap, uint32(3))
			e.equal("minimum without a row", e.lookup(3, refOf(1)).MinimumWrap, uint32(0))
		}},
		{"repeats answer with the rows that have the tags, in order", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			v, err := e.LookupRepeats(e.ctx, tagOf(1), [][32]byte{repeatOf(2), repeatOf(9), repeatOf(1), repeatOf(2)})
			e.must(err)
			if v.Blobs[1] != nil {
				e.Fatal("a row for a tag that was never stored")
			}
			for i, n := range map[int]int{0: 2, 2: 1, 3: 2} {
				e.equal("ref", v.Blobs[i].Ref, refOf(n))
			}
		}},
		{"no repeats ask for the execution only", func(e *env) {
			e.put(1, 1)
			v, err := e.LookupRepeats(e.ctx, tagOf(1), nil)
			e.must(err)
			e.equal("id", v.Execution.ID, idOf(1))
			e.equal("blobs", len(v.Blobs), 0)
		}},
		{"a repeat tag of another execution is nil", func(e *env) {
			e.put(1, 1)
			e.put(2, 2)
			if e.repeat(2, 1) != nil {
				e.Fatal("equal text in two executions shares a row")
			}
		}},
	}
}

// refusedCommit checks a refusal, and that it inserted nothing.
func (e *env) refusedCommit(c ledger.Capture, want error) error {
	e.Helper()
	before := e.picture()
	_, err := e.Commit(e.ctx, c)
	e.refused(err, want)
	e.equal("the ledger after a refusal", e.picture(), before)
	return err
}

// picture is all that the contract shows of what commits change.
type picture struct {
	Stats      ledger.Stats
	Executions []ledger.Execution
	Records    map[int][]ledger.RecordedPart
	Blobs      []ledger.ScannedBlob
	Entries    []ledger.StoredEntry
}

func (e *env) picture() picture {
	e.Helper()
	p := picture{Stats: e.stats(), Entries: e.entries(), Records: map[int][]ledger.RecordedPart{}}
	p.Stats.WALBytes = 0
	var err error
	p.Executions, err = e.ListExecutions(e.ctx, ledger.ExecutionQuery{Tenant: tenant, Limit: 1000})
	e.must(err)
	p.Blobs, err = e.ScanBlobs(e.ctx, ledger.Position{}, 10_000)
	e.must(err)
	for x := range 4 {
		p.Records[x] = e.records(x)
	}
	return p
}

func commitSentences() []sentence {
	return []sentence{
		{"a commit answers with the rows that it made", func(e *env) {
			e.maximum("reasoning", time.Hour)
			done := e.commit(capture(1, at(3), newBlob(1), newBlob(2)))
			e.equal("created", done.Created, []bool{true, true})
			e.equal("first", done.Blobs[0], *e.blob(1, 1))
			e.equal("second", done.Blobs[1], *e.blob(1, 2))
			e.equal("expires", done.Blobs[0].ExpiresAt, at(3).Add(time.Hour))
		}},
		{"an erased execution is erased", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1))
			e.refusedCommit(capture(1, at(20), newBlob(2)), blobd.ErrErased)
		}},
		{"a closed execution is closed, a restricted one restricted", func(e *env) {
			e.put(1, 1)
			e.grace(1)
			if err := e.refusedCommit(capture(1, at(2), newBlob(2)), blobd.ErrClosed); errors.Is(err, blobd.ErrRestricted) {
				e.Fatalf("restricted: %v", err)
			}
			e.put(2, 1)
			e.restrict(2)
			e.refusedCommit(capture(2, at(2), newBlob(2)), blobd.ErrRestricted)
		}},
		{"a new execution's key older than the minimum wrap is a conflict", func(e *env) {
			e.tenant("beta", 3)
			c := capture(1, start, newBlob(1))
			c.Tenant, c.Key.Version = "beta", 2
			err := e.refusedCommit(c, blobd.ErrConflict)
			if other := new(ledger.KeyConflict); errors.As(err, &other) {
				e.Fatalf("a key conflict: %v", err)
			}
			c.Key.Version = 3
			e.commit(c)
			again := capture(1, at(1), newBlob(2))
			again.Tenant, again.Key.Version = "beta", 2 // the same key, as an older view has it
			e.commit(again)
			e.equal("version", e.lookup(1, refOf(2)).Execution.Key.Version, uint32(3))
		}},
		{"another key than the execution's is a key conflict with the winner", func(e *env) {
			e.put(1, 1)
			c := capture(1, at(1), newBlob(2))
			c.Key = keyOf(2)
			err := e.refusedCommit(c, blobd.ErrConflict)
			var other *ledger.KeyConflict
			if !errors.As(err, &other) {
				e.Fatalf("not a key conflict: %v", err)
			}
			e.equal("winner", other.Winner, keyOf(1))
		}},
		{"the checks come in the order of the contract", checkOrder},
		{"a repeat tag of an erased row is blob_erased with the ref", func(e *env) {
			e.put(1, 1)
			e.fence(fenceOf(1, 1, refOf(1)))
			b := newBlob(2)
			b.Repeat = repeatOf(1)
			err := e.refusedCommit(capture(1, at(20), newBlob(3), b), blobd.ErrBlobErased)
			var refs *blobd.RefsError
			if !errors.As(err, &refs) {
				e.Fatalf("no refs: %v", err)
			}
			e.equal("refs", refs.Refs, []blobd.Ref{refOf(1)})
		}},
		{"a ref in use is a conflict", func(e *env) {
			e.put(1, 1)
			b := newBlob(2)
			b.Ref = refOf(1)
			e.refusedCommit(capture(1, at(1), newBlob(3), b), blobd.ErrConflict)
			e.refusedCommit(capture(1, at(1), b), blobd.ErrConflict)
		}},
		{"a ref in use refuses a new execution whole", func(e *env) {
			e.must(e.Collect(e.ctx, position(1, 1), start))
			e.refusedCommit(capture(1, at(1), newBlob(1)), blobd.ErrConflict)
			if e.lookup(1, refOf(1)).Execution != nil {
				e.Fatal("the execution was inserted")
			}
		}},
		{"the same ref in two executions is two blobs", func(e *env) {
			e.put(1, 1)
			e.put(2, 1)
			e.equal("states", []ledger.BlobState{e.state(1, 1), e.state(2, 1)}, []ledger.BlobState{ledger.BlobLive, ledger.BlobLive})
		}},
		{"an id that has another tag is a conflict", func(e *env) {
			e.put(1, 1)
			c := capture(2, start, newBlob(2))
			c.ExecutionID = idOf(1)
			e.refusedCommit(c, blobd.ErrConflict)
		}},
		{"an unknown tenant is not found", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Tenant = "nobody"
			e.refusedCommit(c, blobd.ErrNotFound)
		}},
		{"a capture without parts, with 257 blobs or a part of no blob is invalid", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Parts = nil
			e.refusedCommit(c, blobd.ErrInvalid)
			var many []ledger.NewBlob
			for n := range 257 {
				many = append(many, newBlob(n))
			}
			c = capture(1, start, many...)
			c.Parts = c.Parts[:256]
			e.refusedCommit(c, blobd.ErrInvalid)
			c = capture(1, start, newBlob(1))
			c.Parts[0].Blob = 1
			e.refusedCommit(c, blobd.ErrInvalid)
			b := newBlob(1)
			b.Class = ""
			e.refusedCommit(capture(1, start, b), blobd.ErrInvalid)
		}},
		{"a capture without blobs makes the execution and its attempt record", func(e *env) {
			e.commit(capture(1, start))
			e.equal("id", e.summary(1).ID, idOf(1))
			e.equal("records", len(e.records(1)), 1)
		}},
		{"a retained repeat must still be live", func(e *env) {
			e.put(1, 1)
			e.commit(retained(1, at(1), refOf(1)))
			e.refusedCommit(retained(1, at(1), refOf(9)), blobd.ErrConflict)
			e.must(e.AcceptLoss(e.ctx, tagOf(1), refOf(1), at(2), entry(ledger.EntryRecovery)))
			mixed := retained(1, at(3), refOf(1))
			mixed.Blobs = []ledger.NewBlob{newBlob(2)}
			e.refusedCommit(mixed, blobd.ErrConflict)
			e.fence(fenceOf(1, 1, refOf(1)))
			e.refusedCommit(mixed, blobd.ErrConflict)
			e.refusedCommit(retained(1, at(3), refOf(1)), blobd.ErrConflict)
		}},
		{"the evidence of a put is inserted with it", func(e *env) {
			c := capture(1, start, newBlob(1))
			c.Entry = ledger.Entry{Tenant: tenant, Kind: ledger.EntryPut, At: at(4), Body: []byte(`{"put":1}`)}
			e.commit(c)
			es := e.entries()
			last := es[len(es)-1]
			e.equal("entry", last.Entry, ledger.Entry{
				Tenant: tenant, Kind: ledger.EntryPut, At: at(4), Body: []byte(`{"puts":[{"put":1}]}`),
			})
		}},
		{"live blobs and bytes are counted", func(e *env) {
			e.commit(capture(1, start, newBlob(1), newBlob(2)))
			e.put(1, 3)
			e.put(2, 4)
			s := e.summary(1)
			e.equal("blobs", s.Blobs, int64(3))
			e.equal("bytes", s.Bytes, size(1)+size(2)+size(3))
			st := e.stats()
			e.equal("stats", []int64{st.Blobs, st.Bytes, st.Executions}, []int64{4, size(1) + size(2) + size(3) + size(4), 2})
		}},
	}
}

// checkOrder makes a capture that is wrong in every way, and rights it from the
// first check to the last.
func checkOrder(e *env) {
	e.tenant("beta", 2)
	key := keyOf(1)
	key.Version = 2
	good := func(blobs ...ledger.NewBlob) ledger.Capture {
		c := capture(1, start, blobs...)
		c.Tenant, c.Key = "beta", key
		return c
	}
	e.commit(good(newBlob(1), newBlob(2)))
	f := fenceOf(1, 1, refOf(1))
	f.Scope.Tenant = "beta"
	e.fence(f)
	closed := executionScope(1)
	closed.Tenant = "beta"
	e.place(orderOf(1, ledger.OrderRestriction, closed))

	erased, used := newBlob(3), newBlob(4)
	erased.Repeat, used.Ref = repeatOf(1), refOf(2)
	bad := good(used, erased)
	bad.Key = keyOf(2)

	_, err := e.Commit(e.ctx, bad)
	e.refused(err, blobd.ErrClosed)
	lift := liftOf(1, ledger.OrderRestriction)
	lift.Tenant = "beta"
	_, _, err = e.LiftOrder(e.ctx, lift, entry(ledger.EntryOrder))
	e.must(err)

	// An execution that is there keeps its key below the minimum until it is
	// wrapped again, so only another key conflicts.
	var other *ledger.KeyConflict
	if _, err = e.Commit(e.ctx, bad); !errors.As(err, &other) {
		e.Fatalf("not a key conflict: %v", err)
	}
	bad.Key = key
	_, err = e.Commit(e.ctx, bad)
	e.refused(err, blobd.ErrBlobErased)
	bad.Blobs[1] = newBlob(5)
	_, err = e.Commit(e.ctx, bad)
	e.refused(err, blobd.ErrConflict)
	bad.Blobs[0] = newBlob(6)
	e.commit(bad)

	whole := fenceOf(2, 1)
	whole.Scope.Tenant = "beta"
	e.fence(whole)
	bad.Key = keyOf(2)
	_, err = e.Commit(e.ctx, bad)
	e.refused(err, blobd.ErrErased)
}
