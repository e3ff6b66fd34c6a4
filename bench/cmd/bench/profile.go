package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd/bench/load"
)

// profileCells repeats each of blobd's cells once more and keeps profiles of
// the server. These rounds do not count: being profiled costs time.
func (b *bench) profileCells(ctx context.Context) {
	if err := os.MkdirAll(b.cfg.profile, 0o755); err != nil {
		b.fail("profile", err)
		return
	}
	for _, cell := range b.cells {
		if cell.blobd == nil || cell.failed || ctx.Err() != nil {
			continue
		}
		if err := b.profileCell(ctx, cell); err != nil {
			b.fail("profile "+cell.name(), err)
		}
	}
}

func (b *bench) profileCell(ctx context.Context, cell *planned) error {
	prefix := filepath.Join(b.cfg.profile, fmt.Sprintf("%s-%s-%d.", cell.Server, cell.Op, cell.Clients))
	base := "http://" + cell.blobd.DebugAddr + "/debug/pprof/"
	seconds := int(max(b.cfg.duration.Seconds(), 1))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := load.Run(ctx, b.loadOf(cell))
		return err
	})
	// Each of these is what happened within the measured seconds.
	for _, kind := range []string{"profile", "allocs", "block", "mutex"} {
		group.Go(func() error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(b.cfg.warmup):
			}
			return fetch(ctx, fmt.Sprintf("%s%s?seconds=%d", base, kind, seconds), prefix+kind)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "profiles of %s in %s*\n", cell.name(), prefix)
	return nil
}

func fetch(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
