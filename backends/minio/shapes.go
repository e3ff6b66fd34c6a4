package minio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
)

// shapes lets through, of the successes of requests that are answered in XML,
// only those whose root is the one of S3. A reader of XML finds nothing in the
// page of a proxy, and would take that for an empty listing.
type shapes struct{ next http.RoundTripper }

// rootBytes is how far into a body its root must begin.
const rootBytes = 2 << 10

// RoundTrip implements http.RoundTripper.
func (s shapes) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if seen, ok := r.Context().Value(witness{}).(*witness); ok && err == nil {
		seen.date = response.Header.Get("Date")
	}
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	want := answerTo(r)
	if want == "" {
		return response, nil
	}
	body := bufio.NewReaderSize(response.Body, rootBytes)
	if got := root(body); got != want {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: the root is %q, want %q", errShape, got, want)
	}
	response.Body = readCloser{body, response.Body}
	return response, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// answerTo is the root of the answer to a request, "" where it has none or it
// does not matter.
func answerTo(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Has("list-type"):
		return "ListBucketResult"
	case r.Method == http.MethodGet && query.Has("versions"):
		return "ListVersionsResult"
	case r.Method == http.MethodGet && query.Has("uploads"):
		return "ListMultipartUploadsResult"
	case r.Method == http.MethodPost && query.Has("delete"):
		return "DeleteResult"
	case r.Method == http.MethodGet && query.Has("versioning"):
		return "VersioningConfiguration"
	}
	return ""
}

// root returns the name of a body's root without consuming it, "" if it has
// none.
func root(body *bufio.Reader) string {
	start, _ := body.Peek(rootBytes) // a shorter body is whole, or cut and has an error later
	d := xml.NewDecoder(bytes.NewReader(start))
	for {
		token, err := d.RawToken()
		if err != nil {
			return ""
		}
		if e, ok := token.(xml.StartElement); ok {
			return e.Name.Local
		}
	}
}

// witness is told what minio-go does not hand on.
type witness struct{ date string }

// in returns a context whose requests the witness sees, one after the other.
func (w *witness) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, witness{}, w)
}
