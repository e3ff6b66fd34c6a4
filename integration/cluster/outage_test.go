package cluster

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// lostServersComeBack: a node that lost the database, the store or Vault says
// that it is not ready, answers 503 with Retry-After and never a null, and comes
// back by itself.
func lostServersComeBack(t *testing.T, w *world) {
	// Nothing in memory, so that a resolve needs all three.
	d := w.newDeployment(t, "BLOBD_BACKEND_CACHE=0", "BLOBD_KEYS_CACHE_TTL=1s")
	d.start()
	ref := mustPut(t, d.client(d.nodes[0].url()), "run", "a text")
	for _, c := range []struct {
		name       string
		kill, back func()
	}{
		{"PostgreSQL", w.postgres.Kill, w.postgres.Start},
		{"MinIO", w.minio.Kill, w.minio.Start},
		{"Vault", w.vault.Kill, w.vault.Restart},
	} {
		c.kill()
		d.onAll(func(i int, who string) {
			n := d.nodes[i]
			n.awaitUnready()
			var a answer
			eventually(t, readyTime, who+" to use no key from memory any more", func() bool {
				a = d.ask(n, http.MethodGet, "run", ref, "")
				return a.status != http.StatusOK
			})
			d.wantUnavailable(c.name+" is down: a resolve by "+who, a)
			d.wantUnavailable(c.name+" is down: a put by "+who, d.ask(n, http.MethodPost, "new "+who, "", "text"))
			d.wantUnavailable(c.name+" is down: readiness of "+who, d.askPath(n, http.MethodGet, "/readyz", ""))
			if a := d.askPath(n, http.MethodGet, "/livez", ""); a.status != http.StatusOK {
				t.Errorf("%s is down: livez of %s is %d", c.name, who, a.status)
			}
		})
		c.back()
		for _, n := range d.nodes {
			n.awaitReady()
			wantText(t, c.name+" is back: "+n.name, d.patient(n.url()), "run", ref, "a text")
			mustPut(t, d.patient(n.url()), "after "+c.name, n.name)
		}
	}
}

// answer is an answer as it came over the wire.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// ask puts a text into an execution, or resolves a ref of it, and asks once.
func (d *deployment) ask(n *node, method, execution, ref, text string) answer {
	d.t.Helper()
	path := "/v1/executions/" + url.PathEscape(execution) + "/blobs"
	if ref != "" {
		path += "/" + ref
	} else {
		path += "?stepId=step"
	}
	return d.askPath(n, method, path, text)
}

func (d *deployment) askPath(n *node, method, path, text string) answer {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url()+path, strings.NewReader(text))
	must(d.t, err)
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

func (d *deployment) wantUnavailable(what string, a answer) {
	d.t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.header.Get("Blobd-Resolution") != "" {
		d.t.Errorf("%s: %d %s, %v, Retry-After %q; want 503 with Retry-After", what, a.status, a.body, a.err, a.header.Get("Retry-After"))
	}
}
