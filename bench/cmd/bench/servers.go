package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/blobd/blobd/bench/target"
)

// floorCommand, as the only argument, makes this program the floor.
const floorCommand = "serve-floor"

// servers are the running servers; one that was not asked for is nil.
type servers struct {
	floor   *target.Floor
	blobd   *target.Blobd
	noCache *target.Blobd // the same with BLOBD_BACKEND_CACHE=0
	minio   *target.MinIO
	running []*target.Process // in order of their start
}

// startAll starts what cfg asks for. On an error the caller still stops what
// was started.
func startAll(ctx context.Context, cfg config, dir string, progress io.Writer) (s *servers, err error) {
	s = &servers{}
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
	if cfg.has(serverBlobd) {
		if err := s.startBlobd(ctx, cfg, dir, progress); err != nil {
			return s, err
		}
	}
	if cfg.has(serverMinIO) {
		binary := target.FindMinIO(cfg.minio)
		if binary == "" {
			fmt.Fprintln(progress, "no MinIO binary found: MinIO is left out")
			return s, nil
		}
		if s.minio, err = target.StartMinIO(ctx, binary, dir); err != nil {
			return s, err
		}
		s.running = append(s.running, s.minio.Process)
	}
	return s, nil
}

func (s *servers) startBlobd(ctx context.Context, cfg config, dir string, progress io.Writer) (err error) {
	binary := cfg.blobd
	if binary == "" {
		fmt.Fprintln(progress, "building blobd")
		if binary, err = target.BuildBlobd(ctx, cfg.root, dir); err != nil {
			return err
		}
	}
	s.blobd, err = target.StartBlobd(ctx, target.BlobdConfig{
		Name: "blobd", Binary: binary, Dir: dir, Profile: cfg.profile != "",
	})
	if err != nil {
		return err
	}
	s.running = append(s.running, s.blobd.Process)
	if !cfg.does(opGetNoCache) {
		return nil
	}
	s.noCache, err = target.StartBlobd(ctx, target.BlobdConfig{
		Name: "blobd-nocache", Binary: binary, Dir: dir, Profile: cfg.profile != "",
		Env: []string{"BLOBD_BACKEND_CACHE=0"},
	})
	if err != nil {
		return err
	}
	s.running = append(s.running, s.noCache.Process)
	return nil
}

func (s *servers) stop() error {
	var errs []error
	for _, p := range s.running {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
