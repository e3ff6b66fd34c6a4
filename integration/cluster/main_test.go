package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the path of the program under test, built once as users build it.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "blobd-cluster")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "blobd")
	build := exec.Command("go", "build", "-o", program, "github.com/blobd/blobd/cmd/blobd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestCluster runs everything over one set of servers, one test after the other:
// some of them stop a server that the others need.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"NodesStartAtOnce", nodesStartAtOnce},
		{"ErasureIsNullOnAllAtOnce", erasureIsNullOnAllAtOnce},
		{"Linearizable", linearizable},
		{"JobsOfADeadNodeMove", jobsOfADeadNodeMove},
		{"AJobOfAPausedNodeRunsOnce", aJobOfAPausedNodeRunsOnce},
		{"EpochsOncePerTick", epochsOncePerTick},
		{"AHoldOnOneNodeIsHonouredByAll", holdsAreHonouredByAll},
		{"RollingRestart", rollingRestart},
		{"LostServersComeBack", lostServersComeBack},
		{"FailoverToAStandbyThatLostCommits", failover},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}
