package faults

import (
	"context"
	"sync"
	"testing"

	"github.com/blobd/blobd/internal/servers"
)

// The server dies in mid-load, twice, and comes back on the same port and folder.
func TestAServerThatIsKilledAndComesBackLosesNothing(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			server := servers.MinIO(t, servers.MinIOOptions{})
			w := newWorld(t, d, server)
			l := newLoad(w, patience, 50<<10)
			l.run(patience, 0, 2)
			var killing sync.WaitGroup
			killing.Go(func() {
				for number := range 2 {
					l.awaitAcked(3 * (number + 1) * writers)
					server.Kill()
					// Nobody is connected to a server that is dead, and somebody tries.
					l.awaitAttempt()
					server.Start()
				}
			})
			l.run(patience, 100, 20)
			killing.Wait()
			l.judge()
			w.close()
		})
	}
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// awaitAcked returns once so many puts were acknowledged.
func (l *load) awaitAcked(n int) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*patience)
	defer cancel()
	if err := l.progress.await(ctx, func() bool { return l.acknowledged() >= n }); err != nil {
		l.t.Errorf("%d acknowledged puts: %v", n, err)
	}
}

// awaitAttempt returns once somebody asked the server anew.
func (l *load) awaitAttempt() {
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	_, before := l.relay.counts()
	if err := l.relay.await(ctx, func(_, total int) bool { return total > before }); err != nil {
		l.t.Errorf("a try while the server is down: %v", err)
	}
}
