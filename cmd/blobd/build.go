package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api"
	"github.com/blobd/blobd/backends"
	backendfs "github.com/blobd/blobd/backends/fs"
	backendmem "github.com/blobd/blobd/backends/mem"
	backendminio "github.com/blobd/blobd/backends/minio"
	backends3 "github.com/blobd/blobd/backends/s3"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/local"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/ledger/postgres"
	"github.com/blobd/blobd/ledger/sqlite"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/store"
)

// Names in the data folder.
const (
	ledgerFile  = "ledger.db"
	keyringFile = "keyring.json"
	objectsDir  = "blobs"
	// journalSuffix follows the data folder's name: the journal's second place.
	journalSuffix = ".journal"
	tokenFile     = "admin.token"
)

// core is everything that works on one data folder, wired and not started. This
// file is the only place that names drivers.
type core struct {
	config   config
	identity ledger.Identity // as it was found
	ledger   ledger.Ledger
	keys     *keys.Core
	store    *store.Store
	journal  *evidence.Journal
	objects  backends.Store
	closers  []io.Closer
	workers  []func(context.Context) error // run while it serves
}

// ends of a failed build are closed in the reverse order of their making.
func (c *core) Close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i].Close())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// buildCore opens the data folder. A folder in use by another process is
// ErrConflict.
func buildCore(ctx context.Context, cfg config, now func() time.Time, log *slog.Logger) (_ *core, err error) {
	c := &core{config: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := makeFolder(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := c.openLedger(ctx, now); err != nil {
		return nil, err
	}
	if err := c.openKeys(now, log); err != nil {
		return nil, err
	}
	places, err := c.openPlaces(ctx, now, log)
	if err != nil {
		return nil, err
	}
	c.objects = places[0]
	c.journal = evidence.NewJournal(c.ledger, places...)
	if cfg.JournalDir == "" {
		c.journal.Lenient()
	}
	if cfg.LeaveJournal {
		if err := c.journal.Leave(ctx); err != nil {
			return nil, err
		}
	}
	// The ledger tells its time as it is; all else goes by the steady one.
	watch := clockWatch(cfg, now)
	now = watch.Steady(now)
	c.store = store.New(store.Config{
		Ledger: c.ledger, Objects: places[0], Keys: c.keys, Journal: c.journal,
		Now: now, Random: rand.Reader, PutMargin: cfg.PutMargin, CacheBytes: cfg.CacheBytes, Log: log, Calendars: cfg.Calendars,
		ClockWatch: watch,
	})
	return c, nil
}

// chooseLedger opens the shared ledger, which goes by its server's clock, or the
// data folder's own.
func chooseLedger(ctx context.Context, cfg config, now func() time.Time) (ledger.Ledger, error) {
	if cfg.LedgerURL != "" {
		return postgres.Open(ctx, postgres.Options{URL: cfg.LedgerURL})
	}
	l, err := sqlite.Open(filepath.Join(cfg.DataDir, ledgerFile), sqlite.Options{Now: now})
	if errors.Is(err, blobd.ErrConflict) {
		return nil, fmt.Errorf("data folder %s: %w", cfg.DataDir, err)
	}
	return l, err
}

func (c *core) openLedger(ctx context.Context, now func() time.Time) error {
	l, err := chooseLedger(ctx, c.config, now)
	if err != nil {
		return err
	}
	c.ledger = l
	c.closers = append(c.closers, l)
	var id [16]byte
	if _, err := io.ReadFull(rand.Reader, id[:]); err != nil {
		return err
	}
	c.identity, err = l.Identity(ctx, hex.EncodeToString(id[:]))
	return err
}

func (c *core) openKeys(now func() time.Time, log *slog.Logger) error {
	ring, err := c.openRing(now, log)
	if err != nil {
		return err
	}
	c.keys = keys.NewCore(ring, keys.Options{CacheTTL: c.config.KeysTTL, Now: now, Random: rand.Reader})
	c.workers = append(c.workers, c.keys.Run)
	return nil
}

// openRing opens the configured key service. It makes a local keyring only where
// the ledger never had one: to a ledger in use, an absent keyring is lost.
func (c *core) openRing(now func() time.Time, log *slog.Logger) (keys.Keyring, error) {
	if c.config.Keys == "transit" {
		ring, err := openTransit(c.config.Vault, now, log)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, ring)
		c.workers = append(c.workers, ring.Run)
		return ring, nil
	}
	ring, err := local.Open(filepath.Join(c.config.DataDir, keyringFile), local.Options{
		Create: !c.identity.Confirmed, Random: rand.Reader, Now: now,
	})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, ring)
	return ring, nil
}

// openPlaces opens the object store and, after it, the journal's second place.
func (c *core) openPlaces(ctx context.Context, now func() time.Time, log *slog.Logger) ([]backends.Store, error) {
	objects, err := openObjects(ctx, c.config, now)
	if err != nil {
		return nil, err
	}
	if closer, ok := objects.(io.Closer); ok {
		c.closers = append(c.closers, closer)
	}
	return c.withSecond([]backends.Store{objects}, now, log)
}

// openObjects opens the configured object store; one that is an io.Closer is the
// caller's to close.
func openObjects(ctx context.Context, cfg config, now func() time.Time) (backends.Store, error) {
	switch cfg.Backend {
	case "mem":
		return backendmem.New(now), nil
	case "s3":
		b := cfg.Bucket
		rootCAs, err := b.rootCAs()
		if err != nil {
			return nil, err
		}
		return closable(backends3.Open(ctx, backends3.Options{
			Endpoint: b.Endpoint, Bucket: b.Name, Region: b.Region, PathStyle: b.PathStyle, Prefix: b.Prefix,
			AccessKey: b.AccessKey, SecretKey: b.SecretKey, RootCAs: rootCAs, Random: rand.Reader,
		}))
	case "minio":
		b := cfg.Bucket
		rootCAs, err := b.rootCAs()
		if err != nil {
			return nil, err
		}
		return closable(backendminio.Open(ctx, backendminio.Options{
			Endpoint: b.Endpoint, Bucket: b.Name, Region: b.Region, PathStyle: b.PathStyle, Prefix: b.Prefix,
			AccessKey: b.AccessKey, SecretKey: b.SecretKey, RootCAs: rootCAs, Random: rand.Reader,
		}))
	}
	return closable(backendfs.Open(objectsFolder(cfg), backendfs.Options{Now: now}))
}

// objectsFolder is where the driver fs keeps objects.
func objectsFolder(cfg config) string { return filepath.Join(cfg.DataDir, objectsDir) }

// closable keeps a driver that did not open from becoming a store that is not
// nil.
func closable[S backends.Store](s S, err error) (backends.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// withSecond adds the second place of the journal: the one that was asked for,
// or a folder beside the data folder, so that an older copy of the whole data
// folder is known when it comes back. That one is no condition: where it cannot
// be made, the service does without.
func (c *core) withSecond(places []backends.Store, now func() time.Time, log *slog.Logger) ([]backends.Store, error) {
	switch {
	case c.config.LeaveJournal, c.config.JournalDir == "" && c.config.Backend == "mem":
		return places, nil
	case c.config.JournalDir == "":
		beside, err := c.openFolder(filepath.Clean(c.config.DataDir)+journalSuffix, now)
		if err != nil {
			log.Warn("no second place of the journal beside the data folder", "error", err)
			return places, nil
		}
		return append(places, beside), nil
	}
	second, err := c.openFolder(c.config.JournalDir, now)
	if err != nil {
		return nil, fmt.Errorf("second place of the journal: %w", err)
	}
	return append(places, second), nil
}

func (c *core) openFolder(dir string, now func() time.Time) (backends.Store, error) {
	s, err := backendfs.Open(dir, backendfs.Options{Now: now})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, s)
	return s, nil
}

// service is a core with what serves it.
type service struct {
	*core
	api      *api.API
	erasures *retention.Erasures
	marks    *retention.Marks
	epochs   *retention.Epochs
	sweeps   *retention.Sweeps
}

// buildService wires what serves a core, by the core's clock.
func buildService(c *core, log *slog.Logger) (*service, error) {
	now := c.store.Now
	owner := make([]byte, 8)
	if _, err := io.ReadFull(rand.Reader, owner); err != nil {
		return nil, err
	}
	s := &service{
		core:     c,
		erasures: retention.NewErasures(c.store, c.ledger, hex.EncodeToString(owner), now, log),
		marks:    retention.NewMarks(c.store, c.journal, now, log),
		epochs:   retention.NewEpochs(c.store, c.ledger, hex.EncodeToString(owner), c.config.Epochs, now, log),
		sweeps:   retention.NewSweeps(c.store, c.ledger, hex.EncodeToString(owner), c.config.Sweeps, now, log),
	}
	s.workers = append(s.workers, retention.NewBeats(c.store, log).Run)
	census := api.NewCensus(c.ledger, api.CensusEvery, now, log)
	s.workers = append(s.workers, census.Run)
	evidenceLog := s.keepLog(hex.EncodeToString(owner), now, log)
	hooks := s.tellWebhooks(hex.EncodeToString(owner), now, log)
	var err error
	s.api, err = api.New(api.Config{
		Evidence:  evidenceLog,
		Certifier: evidence.Certifier{Log: evidenceLog, Erasures: c.ledger, Horizons: c.horizons(), Version: version()},
		Store:     waking{c.store, s.erasures, s.sweeps},
		NextSweep: s.sweeps.Next, Retention: retentionStats(s.sweeps), Census: census.Stats,
		Webhooks: hooks, WebhookStats: webhookStats(hooks),
		Resolver: resolver.New(c.store, c.ledger, resolver.Options{
			MaxBytes: c.config.MaxBatch, Now: now, Random: rand.Reader, Log: log,
		}),
		Ledger: c.ledger, Keys: c.keys.Stats, Now: now, Random: rand.Reader, Log: log,
		TokenCache: c.config.TokenCache, MaxBlob: c.config.MaxBlob, MaxBatch: c.config.MaxBatch,
		MaxJSON: c.config.MaxBody, MaxInFlight: c.config.MaxInFlight,
		HideMetrics: c.config.MetricsListen != "", Version: version(),
	})
	return s, err
}

// waking is the store, whose erasures and sweeps begin their work at once: also
// those that a decision or the end of a protection lets go on.
type waking struct {
	*store.Store
	erasures *retention.Erasures
	sweeps   *retention.Sweeps
}

// Erase erases, and wakes the runner.
func (w waking) Erase(ctx context.Context, r store.EraseRequest) (ledger.Erasure, error) {
	e, err := w.Store.Erase(ctx, r)
	w.erasures.Wake()
	return e, err
}

// Approve approves, and wakes the runner.
func (w waking) Approve(ctx context.Context, tenant, id, actor string, planDigest [32]byte) (ledger.Erasure, error) {
	e, err := w.Store.Approve(ctx, tenant, id, actor, planDigest)
	w.erasures.Wake()
	return e, err
}

// LiftOrder lifts, and wakes the runner for what a hold deferred.
func (w waking) LiftOrder(ctx context.Context, tenant string, kind ledger.OrderKind, id, actor, reason string) (ledger.Order, error) {
	o, err := w.Store.LiftOrder(ctx, tenant, kind, id, actor, reason)
	w.erasures.Wake()
	return o, err
}

// SetPolicy sets a policy, and wakes the runner for what a floor deferred.
func (w waking) SetPolicy(ctx context.Context, p ledger.Policy) (store.PolicyEffect, error) {
	effect, err := w.Store.SetPolicy(ctx, p)
	w.erasures.Wake()
	return effect, err
}
