package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

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
// missing. Start may be called again after an error.
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
	id, err := s.identify(ctx)
	if err != nil {
		return err
	}
	if err := s.Journal.Join(ctx, id.ID); err != nil {
		return err
	}
	if err := s.catchUp(ctx, id.Recovery); err != nil {
		return err
	}
	return s.Journal.Flush(ctx)
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
	return id, nil
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
			return err
		}
		if err := s.Objects.Put(ctx, backends.IdentityName, []byte(id.ID)); err != nil {
			return err
		}
	}
	return s.Ledger.ConfirmIdentity(ctx)
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
	if len(tenants) > 0 {
		return fmt.Errorf("the ledger is new and the key service holds keys of %d tenants: %w", len(tenants), blobd.ErrConflict)
	}
	return nil
}

// catchUp replays what the journal knows and the ledger forgot.
func (s *Store) catchUp(ctx context.Context, was ledger.RecoveryState) error {
	lost, err := s.Journal.Compare(ctx)
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	resumed := was == ledger.RecoveryReplay
	if len(lost.Records) == 0 && !resumed {
		return nil
	}
	// A replay that was cut short has made the comparison blind to a store that
	// was rolled back too: where there is a place that could have told, assume so.
	gap := lost.StoreBehind || was == ledger.RecoveryGap || resumed && s.Journal.Places() > 1
	s.Log.Error("the ledger is behind its journal: it was rolled back", "records", len(lost.Records), "storeBehind", lost.StoreBehind)
	if err := s.recoveryStep(ctx, ledger.RecoveryReplay, "rollback found", len(lost.Records), 0); err != nil {
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
	after := ledger.RecoveryNone
	if gap {
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
	err := s.eachPage(ctx, func(page []backends.Object) error {
		var rowless []ledger.Position
		for _, o := range page {
			if p, ok := backends.ParseBlobName(o.Name); ok {
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

// eachPage lists the whole store.
func (s *Store) eachPage(ctx context.Context, use func([]backends.Object) error) error {
	const page = 1000
	for after := ""; ; {
		objects, err := s.Objects.List(ctx, "", after, page)
		if err != nil {
			return err
		}
		if len(objects) > 0 {
			after = objects[len(objects)-1].Name
			if err := use(objects); err != nil {
				return err
			}
		}
		if len(objects) < page {
			return nil
		}
	}
}
