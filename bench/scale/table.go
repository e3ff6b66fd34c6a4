package scale

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// Result is what was found on one engine with one number of blobs.
type Result struct {
	Engine     string
	Executions int
	Filled     time.Duration
	Figures    []Figures // with their settings
	Sizes      []Size
	// Resident memory in bytes after the measurement.
	Own, Server int64
}

// Blobs is how many blobs were stored when the measurement began.
func (r Result) Blobs() int { return r.Executions * BlobsPerExecution }

// Bytes is what all tables and indexes take.
func (r Result) Bytes() (sum int64) {
	for _, s := range r.Sizes {
		sum += s.Bytes
	}
	return sum
}

// Print writes results as tables of Markdown.
func Print(w io.Writer, results []Result) {
	settings := ""
	for _, r := range results {
		for i, f := range r.Figures {
			if i == 0 || f.Settings != settings {
				settings = f.Settings
				fmt.Fprintf(w, "\n%s, %s blobs, %q:\n\n| operation | clients | acts | per second | p50 ms | p99 ms | own CPU µs | server CPU µs |\n|---|---|---|---|---|---|---|---|\n",
					r.Engine, count(r.Blobs()), settings)
			}
			fmt.Fprintf(w, "| %s | %d | %d | %.0f | %.2f | %.2f | %.0f | %.0f |\n", f.Op, f.Clients, f.Acts,
				f.PerSecond, ms(f.P50), ms(f.P99), us(f.Own), us(f.Server))
		}
	}
	fmt.Fprint(w, "\n| engine | blobs | filled in s | MiB in all | bytes per blob | own resident MiB | server resident MiB |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n", r.Engine, count(r.Blobs()), r.Filled.Seconds(), mib(r.Bytes()),
			float64(r.Bytes())/float64(r.Blobs()), mib(r.Own), mib(r.Server))
	}
	for _, r := range results {
		printSizes(w, r)
	}
}

// printSizes leaves out what takes less than a byte per blob.
func printSizes(w io.Writer, r Result) {
	fmt.Fprintf(w, "\n%s, %s blobs:\n\n| table or index | MiB | bytes per blob |\n|---|---|---|\n", r.Engine, count(r.Blobs()))
	sizes := slices.Clone(r.Sizes)
	slices.SortStableFunc(sizes, func(a, b Size) int { return cmp.Compare(a.Table, b.Table) })
	for _, s := range sizes {
		name := s.Name
		if s.Index {
			name = "— " + name
		}
		if each := float64(s.Bytes) / float64(r.Blobs()); each >= 1 {
			fmt.Fprintf(w, "| %s | %.1f | %.1f |\n", name, mib(s.Bytes), each)
		}
	}
}

func count(n int) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n%1_000 == 0:
		return fmt.Sprintf("%d k", n/1_000)
	}
	return fmt.Sprint(n)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func mib(n int64) float64        { return float64(n) / (1 << 20) }
