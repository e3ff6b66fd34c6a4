package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd/api"
)

// Bounds of the end: requests drain, then workers stop; together they stay
// below the 15 s of the contract.
const (
	drainTime = 10 * time.Second
	stopTime  = 4 * time.Second
)

// startBackoff is the longest wait between two tries to become ready.
const startBackoff = 10 * time.Second

// startSoonTime is how long an ordinary start may take before the service
// listens all the same.
const startSoonTime = 5 * time.Second

type serveCmd struct {
	Listen       string `help:"HOST:PORT to serve on; port 0 takes a free one (default: 127.0.0.1:8080)." placeholder:"HOST:PORT"`
	LogLevel     string `help:"debug, info, warn or error (default: info)." placeholder:"LEVEL"`
	TLSCert      string `name:"tls-cert" help:"PEM file of the server's certificate." type:"path" placeholder:"FILE"`
	TLSKey       string `name:"tls-key" help:"PEM file of its private key." type:"path" placeholder:"FILE"`
	AllowResidue bool   `help:"Serve though the store cannot delete all that an erasure should."`
	DebugListen  string `help:"HOST:PORT for net/http/pprof; off unless given." placeholder:"HOST:PORT"`
}

// The live heap of a service at work is small beside what its requests allocate,
// so collecting at four times of it saves a tenth to a fifth of a request's
// processor time (docs/performance.md). Past the soft limit it is collected as
// often as it takes.
const (
	gcPercent   = 400
	memorySoftB = 1 << 30
)

// tuneGC sets the garbage collector, except where the environment does. held is
// what requests and the cache may hold, in bytes: the limit is never so near to it
// that collecting is all that the process does.
func tuneGC(environ []string, held int64) {
	given := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !given("GOGC") {
		debug.SetGCPercent(gcPercent)
	}
	if !given("GOMEMLIMIT") {
		debug.SetMemoryLimit(max(memorySoftB, held+held/2))
	}
}

// Run serves until the context ends.
func (s serveCmd) Run(a *app) error {
	flags := map[string]string{
		"listen": s.Listen, "logLevel": s.LogLevel, "debugListen": s.DebugListen,
		"tls.cert": s.TLSCert, "tls.key": s.TLSKey,
	}
	if s.AllowResidue {
		flags["backend.allowResidue"] = "true"
	}
	cfg, err := a.config(flags)
	if err != nil {
		return err
	}
	log := a.log(cfg.LogLevel)
	if slices.ContainsFunc(a.environ, func(v string) bool { return strings.HasPrefix(v, "OTEL_") }) {
		log.Warn("OTEL_ variables are ignored: no traces are exported in this version")
	}
	tuneGC(a.environ, cfg.MaxInFlight+cfg.CacheBytes)
	err = serve(a.ctx, cfg, log, func(url string) {
		fmt.Fprintf(a.stdout, "listening on %s\n", url)
	})
	if err == nil || a.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	log.Error("ended", "error", err)
	return status(exitError)
}

// serve runs the service until ctx ends, and ends it in order: refuse to be
// chosen, drain requests, stop workers, close files. announce is called once,
// with the URL, when the service answers. It returns nil after a clean end.
func serve(ctx context.Context, cfg config, log *slog.Logger, announce func(url string)) (err error) {
	c, err := buildCore(ctx, cfg, time.Now, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	started, err := c.start(ctx, log)
	if err != nil {
		return err
	}
	s, err := buildService(c, log)
	if err != nil {
		return err
	}
	sites, err := s.listen(ctx)
	if err != nil {
		return err
	}
	announce(sites[0].url())
	log.Info("serving", "url", sites[0].url(), "version", version(), "ready", started)
	return s.run(ctx, sites, started, log)
}

// start starts the store before anything listens. For a new folder a failure
// ends the process. A folder in use is ready at once after an ordinary stop;
// where it is not, or where it takes longer, started is false: the start goes on
// behind a listener, so that readiness can say what it waits for.
func (c *core) start(ctx context.Context, log *slog.Logger) (started bool, err error) {
	isNew, err := c.newFolder(ctx)
	if err != nil {
		return false, err
	}
	if !isNew {
		soon, cancel := context.WithTimeout(ctx, startSoonTime)
		defer cancel()
		err := c.startStore(soon, log)
		if errors.Is(err, errNoErasure) {
			return false, err
		}
		if err != nil {
			log.Error("not ready", "error", err)
			return false, nil
		}
		return true, nil
	}
	if err := c.startStore(ctx, log); err != nil {
		return false, err
	}
	return true, c.firstStart(ctx, log)
}

// startStore starts the store once its place has been examined.
func (c *core) startStore(ctx context.Context, log *slog.Logger) error {
	if err := c.admit(ctx, log); err != nil {
		return err
	}
	return c.store.Start(ctx)
}

// site is a listener and what serves on it.
type site struct {
	server   *http.Server
	listener net.Listener
}

func (s site) url() string {
	scheme := "http"
	if s.server.TLSConfig != nil {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String()
}

func (s site) serve() error {
	var err error
	if s.server.TLSConfig != nil {
		err = s.server.ServeTLS(s.listener, "", "")
	} else {
		err = s.server.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// listen opens the listeners, the API's first.
func (s *service) listen(ctx context.Context) (sites []site, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, open := range sites {
			err = errors.Join(err, open.listener.Close())
		}
	}()
	main := api.Server(s.api)
	if s.config.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(s.config.TLSCert, s.config.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		main.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	wanted := []struct {
		address string
		server  *http.Server
	}{
		{s.config.Listen, main},
		{s.config.MetricsListen, side("/metrics", s.api.Metrics())},
		{s.config.DebugListen, side("/debug/pprof/", profiles())},
	}
	for _, w := range wanted {
		if w.address == "" {
			continue
		}
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", w.address)
		if err != nil {
			return sites, err
		}
		sites = append(sites, site{w.server, l})
	}
	return sites, nil
}

// side is a small server beside the API.
func side(pattern string, h http.Handler) *http.Server {
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// run serves and works until ctx ends or a part fails, then ends all in order.
func (s *service) run(ctx context.Context, sites []site, started bool, log *slog.Logger) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, work := errgroup.WithContext(work)
	for _, part := range append([]func(context.Context) error{s.erasures.Run, s.marks.Run, s.epochs.Run, s.sweeps.Run}, s.workers...) {
		g.Go(func() error { return ended(work, part(work)) })
	}
	g.Go(func() error { return ended(work, s.stayReady(work, started, log)) })
	for _, open := range sites {
		g.Go(open.serve)
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			log.Info("ending")
		case <-work.Done(): // a part failed
		}
		s.api.Drain()
		err := drain(sites)
		stop()
		return err
	})
	return within(g.Wait, ctx, drainTime+stopTime)
}

// ended takes an error that the end itself caused as no error.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// stayReady starts the store if that is still to do, and again whenever the
// ledger's database has a new timeline.
func (s *service) stayReady(ctx context.Context, started bool, log *slog.Logger) error {
	start := s.startStore
	for {
		if !started {
			if err := s.becomeReady(ctx, start, log); err != nil {
				return err
			}
		}
		if err := s.store.Watch(ctx); err != nil {
			return err
		}
		log.Warn("not ready: the ledger's database was restarted, restored or failed over; the journal is compared")
		started = false
		start = func(ctx context.Context, _ *slog.Logger) error { return s.store.Start(ctx) }
	}
}

// becomeReady tries to start the store, for ever. A place that cannot keep the
// promise of an erasure ends the service.
func (s *service) becomeReady(ctx context.Context, start func(context.Context, *slog.Logger) error, log *slog.Logger) error {
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = startBackoff
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := start(ctx, log)
		if errors.Is(err, errNoErasure) {
			return struct{}{}, backoff.Permanent(err)
		}
		if err != nil {
			log.Error("not ready", "error", err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxElapsedTime(0))
	if err == nil {
		log.Info("ready")
	}
	return err
}

// drain waits for the requests of the API that run, and cuts off what is left.
func drain(sites []site) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	err := sites[0].server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = sites[0].server.Close()
	}
	for _, aside := range sites[1:] {
		err = errors.Join(err, aside.server.Close())
	}
	return err
}

// within waits for the end, which must come within limit after ctx ended.
func within(wait func() error, ctx context.Context, limit time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("still busy %v after the end was asked for", limit)
	}
}
