package faults

import (
	"context"
	"testing"
	"time"

	"github.com/blobd/blobd/internal/servers"
)

// fault is a way in which the network is bad.
type fault struct {
	name   string
	toxics []toxic
	within time.Duration // the deadline of calls while it lasts
	size   int           // of texts, in bytes
	puts   int           // of each writer, while it lasts
	// heals: the network is well again in the middle of the load, once some
	// connections met the fault; calls that are then on their way go on.
	heals bool
	// bearable: nothing may fail.
	bearable bool
	// noPut, noRead: no put, or no resolve, can succeed, so some must have failed.
	noPut, noRead bool
}

func faults() []fault {
	long, short := 15*time.Second, 400*time.Millisecond
	return []fault{
		{name: "latency", within: long, size: 50 << 10, puts: 4, bearable: true, toxics: []toxic{
			upstream("latency", map[string]any{"latency": 30, "jitter": 20}),
			downstream("latency", map[string]any{"latency": 30, "jitter": 20}),
		}},
		{name: "a reset before the server acted", within: short, size: 50 << 10, puts: 3, noPut: true, noRead: true, toxics: []toxic{
			upstream("reset_peer", map[string]any{"timeout": 0}),
		}},
		{name: "a reset after the server acted", within: short, size: 50 << 10, puts: 3, noPut: true, noRead: true, toxics: []toxic{
			downstream("reset_peer", map[string]any{"timeout": 0}),
		}},
		{name: "a reset before the server acted, for a while", within: long, size: 50 << 10, puts: 4, heals: true, toxics: []toxic{
			upstream("reset_peer", map[string]any{"timeout": 0}),
		}},
		{name: "a reset after the server acted, for a while", within: long, size: 50 << 10, puts: 4, heals: true, toxics: []toxic{
			downstream("reset_peer", map[string]any{"timeout": 0}),
		}},
		{name: "truncated requests", within: short, size: 50 << 10, puts: 3, noPut: true, toxics: []toxic{
			upstream("limit_data", map[string]any{"bytes": 8000}),
		}},
		{name: "truncated bodies", within: short, size: 50 << 10, puts: 3, noRead: true, toxics: []toxic{
			downstream("limit_data", map[string]any{"bytes": 8000}),
		}},
		{name: "a black hole for requests", within: short, size: 50 << 10, puts: 2, noPut: true, noRead: true, toxics: []toxic{
			upstream("timeout", map[string]any{"timeout": 0}),
		}},
		{name: "a black hole for answers", within: short, size: 50 << 10, puts: 2, noPut: true, noRead: true, toxics: []toxic{
			downstream("timeout", map[string]any{"timeout": 0}),
		}},
		{name: "a slow drip", within: long, size: 8 << 10, puts: 3, bearable: true, toxics: []toxic{
			upstream("bandwidth", map[string]any{"rate": 100}),
			downstream("slicer", map[string]any{"average_size": 128, "size_variation": 64, "delay": 500}),
		}},
	}
}

func TestEveryFaultOfTheNetworkIsAnErrorAndNeverALoss(t *testing.T) {
	server := servers.MinIO(t, servers.MinIOOptions{})
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			for _, d := range drivers() {
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, d, server)
					l := newLoad(w, f.within, f.size)
					l.run(patience, 0, 2)
					if l.failed.Load()+l.refused.Load() > 0 {
						t.Fatal("calls fail though all is well")
					}
					l.suffer(f)
					w.proxy.set()
					l.judge()
					w.close()
				})
			}
		})
	}
}

// suffer runs the load while the fault lasts.
func (l *load) suffer(f fault) {
	l.t.Helper()
	_, before := l.relay.counts()
	l.proxy.set(f.toxics...)
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		if f.heals {
			l.heal(before + 3*writers)
		}
	}()
	l.run(f.within, 100, f.puts)
	<-healed
	bad := l.failed.Load()
	switch {
	case f.bearable && bad+l.refused.Load() > 0, f.heals && bad > 0:
		l.t.Errorf("%d puts and %d resolves failed, though they had the time", bad, l.refused.Load())
	case f.noPut && bad != int64(writers*f.puts):
		l.t.Errorf("of %d puts that cannot succeed %d failed", writers*f.puts, bad)
	case f.noRead && l.refused.Load() < readers:
		l.t.Errorf("%d resolves failed: there was no fault", l.refused.Load())
	}
}

// heal makes the network well once the server has seen so many connections.
func (l *load) heal(connections int) {
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := l.relay.await(ctx, func(_, total int) bool { return total >= connections }); err != nil {
		l.t.Errorf("%d connections met the fault: %v", connections, err)
	}
	l.proxy.set()
}
