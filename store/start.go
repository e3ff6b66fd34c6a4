package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Start makes sure that ledger, store and journal belong together, and lets the
// store serve. Until it returned nil every read and write is ErrUnavailable.
//
// A store whose identity is absent or different is the wrong or an emptied one:
// ErrConflict, and nothing is served. An empty ledger that faces a store or a
// key service in use: likewise. A ledger behind its journal was rolled back: it
// is replayed first, and what the store holds without a row is entered as
// missing. Any number of nodes may start at once over one ledger. Start may be
// called again after an error, and is to be after Watch returned nil.
func (s *Store) Start(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		err = fmt.Errorf("start: %w", err)
		s.ready.Store(&notReady{fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)})
		return err
	}
	s.ready.Store(nil)
	return nil
}

func (s *Store) start(ctx context.Context) error {
	timeline, err := s.timeline(ctx) // before what is compared on it
	if err != nil {
		return err
	}
	id, err := s.identify(ctx)
	if err != nil {
		return err
	}
	if err := s.Journal.Join(ctx, id.ID); err != nil {
		return err
	}
	if err := s.catchUp(ctx, id); err != nil {
		return err
	}
	s.trust(timeline)
	if err := s.BeatClock(ctx); err != nil {
		return err
	}
	if err := s.keysAreOurs(ctx); err != nil {
		return err
	}
	if err := s.Journal.Flush(ctx); err != nil {
		return err
	}
	return s.markStart(ctx)
}

// keysAreOurs unwraps what the ledger holds of its tenants. A key service that
// cannot is another deployment's, or lost its keys: what it would wrap now could
// never be opened with the right one.
func (s *Store) keysAreOurs(ctx context.Context) error {
	probed := 0
	return s.eachTenant(ctx, func(t ledger.Tenant) error {
		if t.Fenced() || probed == keyProbes { // the ledger says that its KEK may be destroyed
			return nil
		}
		probed++
		index, err := s.indexKey(ctx, t)
		if err != nil {
			return fmt.Errorf("the key service does not have the keys of tenant %q (another deployment's, or this ledger is from before a trim): %w", t.ID, err)
		}
		index.Wipe()
		return nil
	})
}

// keyProbes bounds how many tenants a start asks the key service for.
const keyProbes = 100

// markStart journals that this run begins, before it takes a write: a ledger that
// was copied before then and comes back is known by it, however short the run.
func (s *Store) markStart(ctx context.Context) error {
	entry, err := evidence.Recovery(s.Now(), "started", 0, 0)
	if err != nil {
		return err
	}
	if err := s.Ledger.Append(ctx, entry); err != nil {
		return fmt.Errorf("journal the start: %w", err)
	}
	return s.Journal.Mark(ctx, s.Now().UTC())
}

// identify: the ledger commits an id, then the object is created; from then on
// the two must agree.
func (s *Store) identify(ctx context.Context) (ledger.Identity, error) {
	var random [16]byte
	if _, err := io.ReadFull(s.Random, random[:]); err != nil {
		return ledger.Identity{}, fmt.Errorf("identity: %w", err)
	}
	id, err := s.Ledger.Identity(ctx, hex.EncodeToString(random[:]))
	if err != nil {
		return id, fmt.Errorf("identity: %w", err)
	}
	if err := s.sameDeployment(ctx, id); err != nil {
		return id, fmt.Errorf("identity: %w", err)
	}
	s.identity.Store(&id.ID)
	return id, nil
}

// ours asks the store again whether it holds this deployment's identity. One
// that lost it is the wrong or an emptied one: no absence in it counts, and what
// it answered is ErrUnavailable until the right one is back.
func (s *Store) ours(ctx context.Context) error {
	id := s.identity.Load()
	if id == nil {
		return nil // not started: an offline look
	}
	object, err := s.Objects.Get(ctx, backends.IdentityName)
	if err != nil || string(object) != *id {
		s.oursAt.Store(0)
	}
	switch {
	case errors.Is(err, blobd.ErrNotFound):
		return fmt.Errorf("the store lost its identity object, so it is the wrong one or was emptied: %w", blobd.ErrUnavailable)
	case err != nil:
		return fmt.Errorf("identity: %w", err)
	case string(object) != *id:
		return fmt.Errorf("the store belongs to deployment %q, the ledger to %q: %w", object, *id, blobd.ErrUnavailable)
	}
	return nil
}

func (s *Store) sameDeployment(ctx context.Context, id ledger.Identity) error {
	object, err := s.Objects.Get(ctx, backends.IdentityName)
	absent := errors.Is(err, blobd.ErrNotFound)
	switch {
	case err != nil && !absent:
		return err
	case id.Confirmed && absent:
		return fmt.Errorf("the store holds no identity object, so it is the wrong one or was emptied: %w", blobd.ErrConflict)
	case !absent && string(object) != id.ID:
		return fmt.Errorf("the store belongs to deployment %q, the ledger to %q: %w", object, id.ID, blobd.ErrConflict)
	case id.Confirmed:
		return nil
	case absent:
		if err := s.nothingInUse(ctx); err != nil {
			return s.unlessJoined(ctx, id, err)
		}
		if err := s.Objects.Put(ctx, backends.IdentityName, []byte(id.ID)); err != nil {
			return err
		}
	}
	return s.Ledger.ConfirmIdentity(ctx)
}

// unlessJoined drops the finding that store or keys are in use where a node that
// started at the same moment began to use them: the identity object is the first
// that a deployment puts.
func (s *Store) unlessJoined(ctx context.Context, id ledger.Identity, inUse error) error {
	object, err := s.Objects.Get(ctx, backends.IdentityName)
	if err != nil || string(object) != id.ID {
		return inUse
	}
	return s.Ledger.ConfirmIdentity(ctx)
}

// oursAge bounds how old the knowledge that the store is ours may be when a put
// is acknowledged. Asking for each would be a request more for each.
const oursAge = time.Second

// stillOurs is ours, asked at most once in oursAge, by one for all who wait.
func (s *Store) stillOurs(ctx context.Context) error {
	fresh := func() bool {
		age := s.Now().UnixNano() - s.oursAt.Load()
		return age >= 0 && age < int64(oursAge)
	}
	if fresh() {
		return nil
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return fmt.Errorf("identity: %w: %w", blobd.ErrUnavailable, ctx.Err())
	}
	if fresh() {
		return nil
	}
	now := s.Now()
	if err := s.ours(ctx); err != nil {
		return err
	}
	s.oursAt.Store(now.UnixNano())
	return nil
}

// nothingInUse refuses to pair a new ledger with a store or keys that another
// ledger knows: everything in them would be a null.
func (s *Store) nothingInUse(ctx context.Context) error {
	objects, err := s.Objects.List(ctx, "", "", 1)
	if err != nil {
		return err
	}
	if len(objects) > 0 {
		return fmt.Errorf("the ledger is new and the store is not empty: %w", blobd.ErrConflict)
	}
	tenants, err := s.Keys.Ring().Tenants(ctx)
	if err != nil {
		return err
	}
	if len(tenants) > 0 { // the evidence log's own KEK is no tenant's, and as good a proof
		ids := slices.DeleteFunc(slices.Clone(tenants), func(id string) bool { return id == evidence.LogKEK })
		return fmt.Errorf("the ledger is new and the key service holds keys of %d tenants: %w", len(ids), blobd.ErrConflict)
	}
	return nil
}

// catchUp replays what the journal knows and the ledger forgot.
func (s *Store) catchUp(ctx context.Context, id ledger.Identity) error {
	lost, err := s.Journal.Compare(ctx)
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	was := id.Recovery
	behind := was == ledger.RecoveryReplay || was == ledger.RecoveryReplayGap
	if len(lost.Records) == 0 && !behind {
		return nil
	}
	// What is found now is kept: after a crash the comparison may see less.
	gap := lost.StoreBehind || was == ledger.RecoveryGap || was == ledger.RecoveryReplayGap
	during, after := ledger.RecoveryReplay, ledger.RecoveryNone
	if gap {
		during, after = ledger.RecoveryReplayGap, ledger.RecoveryGap
	}
	s.Log.Error("the ledger is behind its journal: it was rolled back", "records", len(lost.Records), "storeBehind", lost.StoreBehind)
	if err := s.recoveryStep(ctx, during, "rollback found", len(lost.Records), 0); err != nil {
		return err
	}
	if err := s.Ledger.Replay(ctx, lost.Records); err != nil {
		return fmt.Errorf("recovery: replay: %w", err)
	}
	for _, r := range lost.Records { // a place that was rolled back too learns them again
		if err := s.Journal.Publish(ctx, r); err != nil {
			return fmt.Errorf("recovery: %w", err)
		}
	}
	missing, err := s.enterRowless(ctx)
	if err != nil {
		return err
	}
	forgotten, err := s.forgottenTenants(ctx)
	if err != nil {
		return err
	}
	if forgotten { // its executions have tags that nobody can make again
		after = ledger.RecoveryGap
	}
	// Another node that recovers too may have seen a gap that this one cannot see.
	switch now, err := s.Ledger.Identity(ctx, id.ID); {
	case err != nil:
		return fmt.Errorf("recovery: %w", err)
	case now.Recovery == ledger.RecoveryGap, now.Recovery == ledger.RecoveryReplayGap:
		after = ledger.RecoveryGap
	}
	s.Log.Error("the journal was replayed", "missing", missing, "gap", after == ledger.RecoveryGap)
	return s.recoveryStep(ctx, after, "replayed", len(lost.Records), missing)
}

func (s *Store) recoveryStep(ctx context.Context, state ledger.RecoveryState, act string, records, missing int) error {
	entry, err := evidence.Recovery(s.Now(), act, records, missing)
	if err != nil {
		return err
	}
	if err := s.Ledger.SetRecovery(ctx, state, entry); err != nil {
		return fmt.Errorf("recovery: %s: %w", act, err)
	}
	return nil
}

// enterRowless lists the store and enters every sealed object without a row as
// missing: an error, not a null, until an operator accepts the loss.
func (s *Store) enterRowless(ctx context.Context) (int, error) {
	entered := 0
	tenants, err := s.tenantTags(ctx)
	if err != nil {
		return 0, err
	}
	err = s.eachPage(ctx, func(page []backends.Object) error {
		var rowless []ledger.Position
		for _, o := range page {
			p, ok := backends.ParseBlobName(o.Name)
			if ok && !tenants[p.TenantTag].Fenced() { // else its erasure deletes it
				rowless = append(rowless, ledger.Position{Tag: p.Execution, Ref: p.Ref})
			}
		}
		n, err := s.Ledger.EnterMissing(ctx, rowless, s.Now().UTC())
		entered += n
		return err
	})
	if err != nil {
		return entered, fmt.Errorf("recovery: list the store: %w", err)
	}
	return entered, nil
}

// forgottenTenants reports whether the store holds objects of a tenant that the
// ledger does not know. It asks for one name of each tenant.
func (s *Store) forgottenTenants(ctx context.Context) (bool, error) {
	known, err := s.tenantTags(ctx)
	if err != nil {
		return false, err
	}
	for after := ""; ; {
		first, err := s.Objects.List(ctx, "", after, 1)
		if err != nil {
			return false, fmt.Errorf("list the store: %w", err)
		}
		if len(first) == 0 {
			return false, nil
		}
		name := first[0].Name
		if p, ok := backends.ParseBlobName(name); ok && known[p.TenantTag].ID == "" {
			return true, nil
		}
		folder, _, _ := strings.Cut(name, "/")
		after = folder + "0" // "0" is the byte after "/"
	}
}

// listPage is how many names or rows one listing asks for.
const listPage = 1000

// eachPage lists the whole store.
func (s *Store) eachPage(ctx context.Context, use func([]backends.Object) error) error {
	for after := ""; ; {
		objects, err := s.Objects.List(ctx, "", after, listPage)
		if err != nil {
			return err
		}
		if len(objects) > 0 {
			after = objects[len(objects)-1].Name
			if err := use(objects); err != nil {
				return err
			}
		}
		if len(objects) < listPage {
			return nil
		}
	}
}
