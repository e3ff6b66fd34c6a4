package minio

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/blobd/blobd"
)

// Answers that are no answers of a store at work. All are tried again.
var (
	// errShape: a success whose body is not what S3 answers to the request.
	errShape = errors.New("the answer is not that of an object store")
	// errShort: fewer bytes than were promised, or others.
	errShort = errors.New("the answer was cut short")
	// errUnproved: a put that was answered without proof and not found after.
	errUnproved = errors.New("stored, says the answer, and cannot be read back")
)

// classify names the operation and gives err its place in the closed set, by
// the store's code. It never says ErrNotFound: that is for absent alone.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("minio: %s: %w: %w", op, kind, err)
	}
	return fmt.Errorf("minio: %s: %w", op, err)
}

// kindOf returns nil for what it does not know and for what is classified.
func kindOf(err error) error {
	for _, known := range []error{
		blobd.ErrNotFound, blobd.ErrCorrupt, blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrUnavailable,
	} {
		if errors.Is(err, known) {
			return nil
		}
	}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		return kindOfAnswer(answer)
	}
	if passing(err) || errors.Is(err, context.Canceled) {
		return blobd.ErrUnavailable
	}
	return nil
}

// kindOfAnswer: credentials that are refused are ErrUnavailable, because whoever
// asked blobd did nothing wrong; so are the wrong place and a wrong clock.
func kindOfAnswer(a minio.ErrorResponse) error {
	switch {
	case a.Code == "EntityTooLarge":
		return blobd.ErrTooLarge
	case passing(a), outage(a.Code), bare(a), a.StatusCode >= 500, a.StatusCode >= 300 && a.StatusCode < 400,
		a.StatusCode == http.StatusUnauthorized, a.StatusCode == http.StatusForbidden:
		return blobd.ErrUnavailable
	}
	return nil
}

// outage reports codes of a store that will not serve us until somebody mends
// something.
func outage(code string) bool {
	switch code {
	case "NoSuchBucket", "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId",
		"SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthorizationHeaderMalformed",
		"RequestTimeTooSkewed", "RequestExpired", "InvalidRegion", "InvalidObjectState", "PermanentRedirect",
		"TemporaryRedirect", "XMinioStorageFull", "InsufficientStorage", "QuotaExceeded",
		"XMinioAdminBucketQuotaExceeded", "InsufficientCapacity":
		return true
	}
	return false
}

// absent reports whether the store itself said, in its own XML, that the object
// is not there. minio-go also makes up a NoSuchKey from a 404 that says nothing.
func absent(err error) bool {
	var a minio.ErrorResponse
	return errors.As(err, &a) && a.Code == "NoSuchKey" && a.StatusCode == http.StatusNotFound && !bare(a)
}

// bare reports an error whose code minio-go guessed from the status, because
// the answer had no S3 body.
func bare(a minio.ErrorResponse) bool { return a.StatusCode != 0 && a.XMLName.Local != "Error" }

// passing reports faults that another try may not meet.
func passing(err error) bool {
	var a minio.ErrorResponse
	if errors.As(err, &a) {
		return passingAnswer(a)
	}
	for _, e := range []error{
		errShape, errShort, errUnproved, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var request *url.Error // the request got no answer
	var network net.Error
	var syntax *xml.SyntaxError // a body that was cut
	return errors.As(err, &request) || errors.As(err, &network) || errors.As(err, &syntax)
}

func passingAnswer(a minio.ErrorResponse) bool {
	switch a.Code {
	case "InternalError", "ServiceUnavailable", "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestTimeout",
		"Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded", "RequestThrottled",
		"BandwidthLimitExceeded", "OperationAborted", "OperationTimedOut", "ConditionalRequestConflict", "BadDigest",
		"XAmzContentSHA256Mismatch", "IncompleteBody", "ServerBusy", "ClientDisconnected", "XMinioServerNotInitialized",
		"XMinioReadQuorum", "XMinioWriteQuorum", "ExistingObjectIsDirectory",
		"NoSuchVersion": // versitygw, to a read whose version is deleted meanwhile
		return true
	}
	if outage(a.Code) {
		return false
	}
	switch a.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// code is the store's code, or "".
func code(err error) string {
	var a minio.ErrorResponse
	_ = errors.As(err, &a)
	return a.Code
}

// unsupported reports a request that the server does not know, or a header that
// it does not: another way may do.
func unsupported(err error) bool {
	switch code(err) {
	case "NotImplemented", "APINotSupported", "MissingContentMD5", "UnsupportedArgument", "XNotImplemented":
		return true
	}
	var a minio.ErrorResponse
	return errors.As(err, &a) && (a.StatusCode == http.StatusNotImplemented || a.StatusCode == http.StatusMethodNotAllowed)
}
