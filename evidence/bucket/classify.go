package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd"
)

// absent reports whether the store itself said, in its own XML, that the object is not
// there. minio-go also makes up a NoSuchKey from a 404 that says nothing.
func absent(err error) bool {
	var a minio.ErrorResponse
	return errors.As(err, &a) && a.Code == minio.NoSuchKey && a.StatusCode == http.StatusNotFound && a.XMLName.Local == "Error"
}

// classify names the operation. What a store at work does not answer is ErrUnavailable:
// outages, refusals, and what is no answer of an object store.
func classify(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blobd.ErrCorrupt), errors.Is(err, blobd.ErrTooLarge), errors.Is(err, blobd.ErrUnavailable):
		return fmt.Errorf("export bucket: %s: %w", op, err)
	case outage(err):
		return fmt.Errorf("export bucket: %s: %w: %w", op, blobd.ErrUnavailable, err)
	}
	return fmt.Errorf("export bucket: %s: %w", op, err)
}

func outage(err error) bool {
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
			return true
		}
		return answer.StatusCode >= 500 || answer.StatusCode < 400 || answer.XMLName.Local != "Error"
	}
	var request *url.Error
	var network net.Error
	return errors.As(err, &request) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
