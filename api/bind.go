package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/blobd/blobd/api/wire"
)

// boundRoute is a route that serves.
type boundRoute struct {
	route
	api            *API
	pattern        string // method and path, or a word for what is no route
	namesExecution bool
	figures        *figures
}

// bind makes the mux of a table: its routes, a 405 for other methods of its
// paths, and a 404 for every other path.
func (a *API) bind(table []route) *http.ServeMux {
	mux := http.NewServeMux()
	allowed := make(map[string][]string)
	for _, r := range table {
		if r.path == "/metrics" && a.HideMetrics {
			continue
		}
		rt := a.bound(r, r.method+" "+r.path)
		a.routes = append(a.routes, rt)
		allowed[r.path] = append(allowed[r.path], r.method)
		mux.HandleFunc(rt.pattern, rt.serve)
	}
	for path, methods := range allowed {
		mux.HandleFunc(path, a.wrongMethod(path, methods).serve)
		// The mux would redirect the stem of a pattern that takes any rest.
		if stem, _, ok := strings.Cut(path, "/{path...}"); ok {
			mux.HandleFunc(stem, a.noSuchRoute.serve)
		}
	}
	mux.HandleFunc("/", a.noSuchRoute.serve)
	return mux
}

func (a *API) bound(r route, pattern string) *boundRoute {
	return &boundRoute{
		route: r, api: a, pattern: pattern,
		namesExecution: strings.Contains(r.path, "{executionId}"),
		figures:        a.metrics.of(r.method, r.path),
	}
}

// wrongMethod is the 405 of a path.
func (a *API) wrongMethod(path string, methods []string) *boundRoute {
	if slices.Contains(methods, "GET") && !slices.Contains(methods, "HEAD") {
		methods = append(methods, "HEAD") // as the mux serves it
	}
	slices.Sort(methods)
	allow := []string{strings.Join(methods, ", ")}
	return a.bound(route{method: "other", path: path, act: func(_ *API, c *call) error {
		c.w.Header()[headerAllow] = allow
		return refuse(wire.CodeMethodNotAllowed, "this path takes %s", allow[0])
	}}, "other methods of "+path)
}

// nothing is the 404 of what is no route.
func (a *API) nothing() *boundRoute {
	return a.bound(route{method: "any", path: "none", act: func(*API, *call) error {
		return refuse(wire.CodeNoSuchRoute, "there is no such route; a path is never redirected")
	}}, "none")
}
