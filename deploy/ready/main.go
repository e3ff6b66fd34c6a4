// Command ready asks a service whether it is ready: for health checks in an
// image that has no shell and no other program.
//
//	ready http://127.0.0.1:8080/readyz
//
// It exits 0 for the status 200 and 1 for anything else.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// patience is how long an answer may take.
const patience = 2 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ready URL")
		os.Exit(1)
	}
	if err := ask(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "ready:", err)
		os.Exit(1)
	}
}

func ask(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // a redirect is no readiness
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
