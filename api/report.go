package api

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/blobd/blobd/api/wire"
)

const (
	// reportTime bounds a whole report; each page of it waits no longer than any
	// other request.
	reportTime = 2 * time.Minute
	// reportPage is how many rows a report has in memory, reportRoom about what they
	// take.
	reportPage = 500
	reportRoom = 1 << 20
	// reportPiece is how much of a report is sent at a time.
	reportPiece = 32 << 10
)

func reportRoutes() []route {
	span := []param{{"from", "RFC 3339, or a date: its midnight in UTC"}, {"to", "likewise; not included"}}
	report := func(name, about string, body any, act func(*API, *call) error) route {
		return route{
			method: "GET", path: "/v1/reports/" + name, id: name + "Report", about: about, roles: dpoRole, query: span,
			ownDeadline: true, act: act, answers: []reply{{200, orCSV{body}, nil}},
		}
	}
	return []route{
		report("erasures", "the erasures received in a span, with what became of them", wire.ErasuresReport{}, (*API).reportErasures),
		report("retention", "the retention rules of all classes", wire.RetentionReport{}, (*API).reportRetention),
		report("holds", "the register of the holds that were open in a span", wire.HoldsReport{}, (*API).reportHolds),
		report("sweeps", "the sweeps that started in a span", wire.SweepsReport{}, (*API).reportSweeps),
	}
}

// lines is what a report is made of: it calls yield for each line, in order, and
// ends with the first error.
type lines[L any] func(ctx context.Context, yield func(*L) error) error

// report is one report in the making.
type report[L any] struct {
	name    string
	columns []column[L]
	lines   lines[L]
	// summary is asked for after the last line; nil: there is none.
	summary func() any
}

// span reads from and to.
func (c *call) span() (from, to time.Time, err error) {
	if from, err = c.timeParam("from"); err != nil {
		return from, to, err
	}
	if to, err = c.timeParam("to"); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return from, to, refuse(wire.CodeInvalid, "to: is before from")
	}
	return from, to, nil
}

// sendReport writes a report as it is read, as JSON or as CSV. What fails before
// the first piece was sent is a problem; after that the answer breaks off, so that
// a report that is cut short never looks whole.
func sendReport[L any](c *call, head wire.Report, r report[L]) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), reportTime)
	defer cancel()
	if err := c.hold(ctx, reportRoom); err != nil {
		return err
	}
	out := bufio.NewWriterSize(&reportBody{c: c, csv: c.wantsCSV(), name: r.name}, reportPiece)
	write := writeJSON[L]
	if c.wantsCSV() {
		write = writeCSV[L]
	}
	if err := write(ctx, out, head, r); err != nil {
		return err
	}
	_ = out.Flush() // a failed write means that the caller went away
	return nil
}

// reportBody sends the head of the answer before the first piece.
type reportBody struct {
	c    *call
	csv  bool
	name string
	sent bool
}

// Write implements io.Writer.
func (b *reportBody) Write(p []byte) (int, error) {
	c := b.c
	if !b.sent {
		b.sent = true
		h := c.w.Header()
		h[headerContentType] = c.rt.api.shared.json
		if b.csv {
			h[headerContentType] = []string{typeCSV}
			h["Content-Disposition"] = []string{`attachment; filename="` + b.name + `.csv"`}
		}
		c.status = http.StatusOK
		c.w.WriteHeader(http.StatusOK)
	}
	c.allowWrite(int64(len(p)))
	if c.r.Method == http.MethodHead {
		return len(p), nil
	}
	return c.w.Write(p)
}

func writeCSV[L any](ctx context.Context, out io.Writer, _ wire.Report, r report[L]) error {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	row := make([]string, len(r.columns))
	for i, column := range r.columns {
		row[i] = column.name
	}
	if err := w.Write(row); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	err := r.lines(ctx, func(line *L) error {
		for i, column := range r.columns {
			row[i] = safeCell(column.cell(line))
		}
		return w.Write(row)
	})
	if err != nil {
		return err // nothing is flushed: what was not sent yet can be a problem
	}
	w.Flush()
	return w.Error()
}

// writeJSON writes the members of head, then items, then summary.
func writeJSON[L any](ctx context.Context, out io.Writer, head wire.Report, r report[L]) error {
	b, err := json.Marshal(&head)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := out.Write(append(b[:len(b)-1], `,"items":[`...)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	separator := ""
	err = r.lines(ctx, func(line *L) error {
		b, err := json.Marshal(line)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		_, err = io.WriteString(out, separator+string(b))
		separator = ","
		return err
	})
	if err != nil {
		return err
	}
	tail := []byte("]")
	if r.summary != nil {
		if b, err = json.Marshal(r.summary()); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		tail = append(append(tail, `,"summary":`...), b...)
	}
	_, err = out.Write(append(tail, '}'))
	return err
}

// pages reads on, page by page, until there is no more or use says enough. Each
// page has its own time.
func pages[T any](ctx context.Context, read func(ctx context.Context, n int, after *T) ([]T, error), use func(*T) (more bool, err error)) error {
	for after := (*T)(nil); ; {
		page, err := inPageTime(ctx, func(ctx context.Context) ([]T, error) { return read(ctx, reportPage, after) })
		if err != nil {
			return err
		}
		for i := range page {
			if more, err := use(&page[i]); err != nil || !more {
				return err
			}
		}
		if len(page) < reportPage {
			return nil
		}
		after = &page[len(page)-1]
	}
}

func inPageTime[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return read(ctx)
}

// reportHead is what a report says about itself.
func (c *call) reportHead(name string, from, to time.Time) wire.Report {
	return wire.Report{
		Report: name, Tenant: c.who.tenant, At: c.rt.api.Now().UTC(), From: timeOrNull(from), To: timeOrNull(to),
	}
}
