package scale

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/ledger"
)

// options are the flags of BenchmarkScale, behind "-args --".
type options struct {
	engines, blobs, settings string
	bounds                   Bounds
}

func parse(t testing.TB) (o options) {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.StringVar(&o.engines, "engines", "sqlite,postgres", "engines, separated by commas")
	f.StringVar(&o.blobs, "blobs", "10000", "numbers of blobs, separated by commas; a multiple of 100")
	f.StringVar(&o.settings, "settings", defaultSettings, "more of the URL of PostgreSQL; each of those between commas is measured")
	f.IntVar(&o.bounds.Clients, "clients", 16, "acts at a time")
	f.DurationVar(&o.bounds.Time, "time", 5*time.Second, "time of one operation")
	f.IntVar(&o.bounds.Acts, "acts", 2000, "executions to erase, at most")
	if err := f.Parse(flag.Args()); err != nil {
		t.Fatal(err)
	}
	return o
}

// defaultSettings are PostgreSQL as blobd opens it by itself, with statements
// that stay prepared, and with plans that do so too.
const defaultSettings = "pool_max_conns=16," +
	"pool_max_conns=16&default_query_exec_mode=cache_statement," +
	"pool_max_conns=16&default_query_exec_mode=cache_statement&plan_cache_mode=force_generic_plan"

// newEngine makes an empty engine that goes with the test.
func newEngine(t testing.TB, name string, settings ...string) Engine {
	t.Helper()
	switch name {
	case "sqlite":
		dir := t.TempDir()
		if err := target.CheckDisk(dir); err != nil {
			t.Fatal(err)
		}
		return &SQLite{Dir: dir}
	case "postgres":
		s := servers.NewPostgres(t, servers.PostgresOptions{Settings: settings})
		return &Postgres{URL: s.URL(s.Database(t)), Data: s.Data()}
	}
	t.Fatalf("no engine is called %q", name)
	return nil
}

// serverSettings are what PostgreSQL runs with beside its defaults.
func serverSettings() []string {
	return []string{"shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min", "maintenance_work_mem=256MB"}
}

// BenchmarkScale fills ledgers and measures them; the tables come at the end.
//
//	go test -run '^$' -bench Scale -benchtime 1x -timeout 3h ./scale -args -- -blobs 10000,1000000
func BenchmarkScale(b *testing.B) {
	o := parse(b)
	var results []Result
	for name := range strings.SplitSeq(o.engines, ",") {
		for n := range strings.SplitSeq(o.blobs, ",") {
			blobs, err := strconv.Atoi(n)
			if err != nil || blobs < 100*BlobsPerExecution {
				b.Fatalf("blobs: %q: at least %d", n, 100*BlobsPerExecution)
			}
			b.Run(name+"/"+n, func(b *testing.B) {
				for range b.N {
					r := fillAndMeasure(b, newEngine(b, name, serverSettings()...), blobs/BlobsPerExecution, strings.Split(o.settings, ","), o.bounds)
					results = append(results, r)
				}
			})
		}
	}
	fmt.Printf("\n%+v\n", report.ThisMachine(time.Now()))
	Print(os.Stdout, results)
}

func fillAndMeasure(t testing.TB, e Engine, executions int, settings []string, bounds Bounds) (r Result) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	began := time.Now()
	r = Result{Engine: e.Name(), Executions: executions}
	must(Fill(ctx, e, executions, func(done int) {
		if (done-1)%10_000 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d of %d executions after %.0f s\n", e.Name(), done, executions, time.Since(began).Seconds())
		}
	}))
	r.Filled = time.Since(began)
	var err error
	r.Sizes, err = e.Sizes(ctx)
	must(err)
	if e.Name() != "postgres" {
		settings = []string{""}
	}
	r.Figures, err = Measure(ctx, e, executions, settings, bounds)
	must(err)
	r.Server, err = e.Memory()
	must(err)
	r.Own, err = memoryOf([]int{os.Getpid()})
	must(err)
	return r
}

// TestFillAndMeasure runs the whole way on a small ledger of each engine.
func TestFillAndMeasure(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			const executions = 240
			r := fillAndMeasure(t, newEngine(t, name), executions, []string{""}, Bounds{Clients: 4, Time: 200 * time.Millisecond, Acts: 20})
			if len(r.Figures) != 9 {
				t.Errorf("%d operations were measured", len(r.Figures))
			}
			for _, f := range r.Figures {
				if f.Acts == 0 || f.PerSecond <= 0 || f.P99 < f.P50 {
					t.Errorf("%+v", f)
				}
			}
			if got := r.Bytes(); got < executions*BlobsPerExecution*200 {
				t.Errorf("%d bytes in all", got)
			}
			Print(io.Discard, []Result{r})
		})
	}
}

// TestProbeFindsWhatIsMissing: a ledger with fewer executions than were asked
// for does not pass.
func TestProbeFindsWhatIsMissing(t *testing.T) {
	e := newEngine(t, "sqlite")
	if err := Fill(t.Context(), e, 110, func(int) {}); err != nil {
		t.Fatal(err)
	}
	l, err := e.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := Probe(t.Context(), l, 111); err == nil {
		t.Error("111 executions were found where there are 110")
	}
	if err := fence(t.Context(), l, 44); err != nil {
		t.Fatal(err)
	}
	if err := probeExecution(t.Context(), l, 44); err == nil {
		t.Error("an erased execution was taken for a living one")
	}
}

// TestCopiesAreWhatCommitMakes: an execution that was copied reads as one that
// was committed.
func TestCopiesAreWhatCommitMakes(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, name)
			if err := Fill(t.Context(), e, 30, func(int) {}); err != nil {
				t.Fatal(err)
			}
			l, err := e.Open(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			for n := range BlobsPerExecution { // the next one, through the ledger
				if err := put(t.Context(), l, 30, n); err != nil {
					t.Fatal(err)
				}
			}
			copied, committed := pictureOf(t, l, 20), pictureOf(t, l, 30)
			for n := range copied {
				if copied[n] != committed[n] {
					t.Fatalf("copied:    %s\ncommitted: %s", copied[n], committed[n])
				}
			}
		})
	}
}

// pictureOf is all that the ledger tells of an execution's rows but times and
// what differs from execution to execution.
func pictureOf(t *testing.T, l ledger.Ledger, i int) (lines []string) {
	t.Helper()
	records, err := l.Records(t.Context(), ledger.RecordQuery{Tag: Tag(i), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for n, r := range records {
		if r.Blob.Ref != Ref(i, n) || r.Ref != Ref(i, n) || r.Blob.Repeat != repeat(i, n) {
			t.Fatalf("record %d of execution %d is %+v of %+v", n, i, r, r.Blob)
		}
		b := *r.Blob
		b.Ref, b.Repeat, b.CreatedAt, b.ExpiresAt = [32]byte{}, [32]byte{}, time.Time{}, time.Time{}
		r.Blob, r.Ref, r.Seq, r.At = nil, [32]byte{}, 0, time.Time{}
		lines = append(lines, fmt.Sprintf("%+v of %+v", r, b))
	}
	return lines
}
