package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// livez says that the process serves.
func (a *API) livez(c *call) error {
	c.write(http.StatusOK, a.shared.text, []byte("ok\n"))
	return nil
}

// readyz says whether every dependency answers. Probes that come at the same
// time share one look.
func (a *API) readyz(c *call) error {
	checks := a.checks(context.WithoutCancel(c.r.Context()))
	ready := true
	for _, ch := range checks {
		ready = ready && ch.OK
	}
	if !c.r.URL.Query().Has("verbose") {
		checks = nil
	}
	if ready {
		return c.reply(http.StatusOK, &wire.Ready{Status: "ready", Checks: checks, Warnings: clockWarnings(a.Store)})
	}
	p := &problem{wire.CodeUnavailable, "not ready; ask with ?verbose for the reasons"}
	a.writeProblemChecks(c, a.errors.kinds[p.code], p, nil, checks)
	return nil
}

// probe is what the dependencies said, and when.
type probe struct {
	at     time.Time
	checks []wire.Check
}

// probeLife is how long an answer of the dependencies is given again: asking
// them costs a write, and anyone may ask.
const probeLife = 500 * time.Millisecond

func (a *API) checks(ctx context.Context) []wire.Check {
	shared, _, _ := a.probing.Do("", func() (any, error) {
		if p := a.probed.Load(); p != nil && a.Now().Sub(p.at) < probeLife && a.Now().After(p.at) {
			return p.checks, nil
		}
		var checks []wire.Check
		for _, d := range a.Store.Ready(ctx) {
			check := wire.Check{Name: d.Name, OK: d.Err == nil}
			if d.Err != nil {
				check.Error = string(a.errors.classify(d.Err).code)
			}
			checks = append(checks, check)
		}
		a.probed.Store(&probe{a.Now(), checks})
		return checks, nil
	})
	checks, _ := shared.([]wire.Check)
	if a.draining.Load() {
		checks = append(checks[:len(checks):len(checks)], wire.Check{Name: "serving", Error: "draining"})
	}
	return checks
}

func (a *API) serveMetrics(c *call) error {
	c.status = http.StatusOK
	a.metrics.handler.ServeHTTP(c.w, c.r)
	return nil
}

func (a *API) openAPI(c *call) error {
	doc, err := a.document()
	if err != nil {
		return fmt.Errorf("openapi: %w: %w", blobd.ErrUnavailable, err)
	}
	c.write(http.StatusOK, a.shared.json, doc)
	return nil
}

func (a *API) serveDocs(c *call) error {
	c.w.Header()["Content-Security-Policy"] = a.docs.policy
	c.write(http.StatusOK, a.docs.contentType, a.docs.body)
	return nil
}
