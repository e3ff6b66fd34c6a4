package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/blobd/blobd/bench/target"
)

// floorCommand, as the only argument, makes this program the floor.
const floorCommand = "serve-floor"

// servers are the running servers; one that was not asked for is nil.
type servers struct {
	floor   *target.Floor
	peers   []*target.S3
	blobds  []instance
	running []*target.Process // in order of their start
}

// instance is a blobd and the S3 server that it is compared with, if any.
type instance struct {
	*target.Blobd
	noCache *target.Blobd // the same with BLOBD_BACKEND_CACHE=0; nil unless asked for
	peer    string
}

// startAll starts what cfg asks for. On an error the caller still stops what
// was started.
func startAll(ctx context.Context, cfg config, dir, s3Dir string, progress io.Writer) (*servers, error) {
	s := &servers{}
	if cfg.has(serverFloor) {
		self, err := os.Executable()
		if err != nil {
			return s, err
		}
		if s.floor, err = target.StartFloor(ctx, dir, self, floorCommand); err != nil {
			return s, err
		}
		s.running = append(s.running, s.floor.Process)
	}
	if err := s.startPeers(ctx, cfg, s3Dir, progress); err != nil {
		return s, err
	}
	return s, s.startBlobds(ctx, cfg, dir, progress)
}

func (s *servers) startPeers(ctx context.Context, cfg config, dir string, progress io.Writer) error {
	for _, p := range []struct {
		name, over, given string
		start             func(ctx context.Context, binary, dir string) (*target.S3, error)
	}{
		{serverMinIO, overMinIO, cfg.minio, target.StartMinIO},
		{serverVGW, overVGW, cfg.versitygw, target.StartVersityGW},
	} {
		if !cfg.has(p.name) && !cfg.has(p.over) {
			continue
		}
		binary := target.Find(p.name, p.given)
		if binary == "" {
			fmt.Fprintf(progress, "no binary of %s found: it is left out\n", p.name)
			continue
		}
		peer, err := p.start(ctx, binary, dir)
		if err != nil {
			return err
		}
		s.peers = append(s.peers, peer)
		s.running = append(s.running, peer.Process)
		if cfg.roundTrip > 0 {
			if err := peer.Away(cfg.roundTrip); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *servers) peer(name string) *target.S3 {
	i := slices.IndexFunc(s.peers, func(p *target.S3) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.peers[i]
}

func (s *servers) startBlobds(ctx context.Context, cfg config, dir string, progress io.Writer) (err error) {
	for _, b := range []struct{ name, driver, peer string }{
		{serverBlobd, "", serverMinIO}, {overMinIO, "minio", serverMinIO}, {overVGW, "s3", serverVGW},
	} {
		peer := s.peer(b.peer)
		if !cfg.has(b.name) || b.driver != "" && peer == nil {
			continue
		}
		if cfg.blobd == "" {
			fmt.Fprintln(progress, "building blobd")
			if cfg.blobd, err = target.BuildBlobd(ctx, cfg.root, dir); err != nil {
				return err
			}
		}
		i := instance{peer: b.peer}
		if i.Blobd, err = s.startBlobd(ctx, cfg, dir, b.name, b.driver, peer); err != nil {
			return err
		}
		if cfg.does(opGetNoCache) {
			if i.noCache, err = s.startBlobd(ctx, cfg, dir, b.name+"-nocache", b.driver, peer, "BLOBD_BACKEND_CACHE=0"); err != nil {
				return err
			}
		}
		s.blobds = append(s.blobds, i)
	}
	return nil
}

func (s *servers) startBlobd(ctx context.Context, cfg config, dir, name, driver string, peer *target.S3, env ...string,
) (*target.Blobd, error) {
	if driver != "" {
		env = append(env, peer.Backend(driver, name)...)
	}
	b, err := target.StartBlobd(ctx, target.BlobdConfig{
		Name: name, Binary: cfg.blobd, Dir: dir, Profile: cfg.profile != "", Env: env,
	})
	if err == nil {
		s.running = append(s.running, b.Process)
	}
	return b, err
}

func (s *servers) stop() error {
	var errs []error
	for _, p := range slices.Backward(s.running) { // blobd before what it stands on
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
