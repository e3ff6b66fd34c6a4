package report

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Print writes the report as text.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, %d cores, memory %s, Linux %s, %s\n", r.Machine.Date.Format(time.DateOnly),
		r.Machine.CPU, r.Machine.Cores, r.Machine.Memory, r.Machine.Kernel, r.Machine.GoVersion)
	fmt.Fprintf(w, "driver %s, bodies of %d bytes, batches of %d, %d rounds of %s after %s, medians\n\n", r.Settings.Driver, r.Settings.BodyBytes,
		r.Settings.BatchParts, r.Settings.Rounds, r.Settings.Duration, r.Settings.Warmup)
	if err := r.printCells(w); err != nil {
		return err
	}
	if err := r.printErasures(w); err != nil {
		return err
	}
	return r.printIdle(w)
}

func (r *Report) printCells(w io.Writer) error {
	t := columns(w)
	fmt.Fprintln(t, "operation\tserver\tclients\tops/s\tp50 ms\tp99 ms\tserver CPU µs/op\tload CPU µs/op\t/floor\t/peer\tp50/peer\t")
	for _, c := range r.Cells {
		if len(c.Rounds) == 0 {
			continue
		}
		m := c.Median
		fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.2f\t%.2f\t%.0f\t%.0f\t%s\t%s\t%s\t\n", c.Op, c.Server, c.Clients, m.OpsPerSec,
			ms(m.P50), ms(m.P99), us(m.ServerCPU), us(m.ClientCPU), times(c.PerFloor), times(c.PerPeer), times(c.P50PerPeer))
	}
	return t.Flush()
}

func (r *Report) printErasures(w io.Writer) error {
	if len(r.Erasures) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := columns(w)
	fmt.Fprintln(t, "server\terase an execution of\truns\tuntil 202, ms\tuntil all probes null, ms\tuntil erased, s\t")
	for _, e := range r.Erasures {
		erased := "-"
		if e.Erased > 0 {
			erased = fmt.Sprintf("%.2f", e.Erased.Seconds())
		}
		fmt.Fprintf(t, "%s\t%d blobs\t%d\t%.2f\t%.2f\t%s\t\n", e.Server, e.Blobs, len(e.Runs), ms(e.Accepted), ms(e.Null), erased)
	}
	return t.Flush()
}

func (r *Report) printIdle(w io.Writer) error {
	names := make([]string, 0, len(r.IdleRSS))
	for name := range r.IdleRSS {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintln(w)
	t := columns(w)
	fmt.Fprintln(t, "idle server\tresident MiB\t")
	for _, name := range names {
		fmt.Fprintf(t, "%s\t%.1f\t\n", name, float64(r.IdleRSS[name])/(1<<20))
	}
	return t.Flush()
}

func columns(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio)
}
