package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits of a server on the connections of slow or idle clients.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Server returns a server for an API with every timeout set. The caller owns it:
// it starts and shuts it down.
//
// Bodies get their own deadline by size; the server's are the backstop for
// clients that neither send nor read.
func Server(a *API) *http.Server {
	body := transferTime(max(a.MaxBlob, a.MaxJSON))
	return &http.Server{
		Handler:           a,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readHeaderTimeout + body,
		WriteTimeout:      readHeaderTimeout + 2*body + requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
}
