package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/blobd/blobd"
)

// classify names the operation and the error's place in the closed set. Nothing
// here makes ErrNotFound: only get does, of the store's own word. Credentials
// that are refused are ErrUnavailable: whoever asked blobd did nothing wrong.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if kind := kindOf(err); kind != nil {
		return fmt.Errorf("s3: %s: %w: %w", op, kind, err)
	}
	return fmt.Errorf("s3: %s: %w", op, err)
}

// kindOf returns nil for what it does not know and for what is classified.
func kindOf(err error) error {
	for _, known := range []error{
		blobd.ErrNotFound, blobd.ErrCorrupt, blobd.ErrInvalid, blobd.ErrTooLarge, blobd.ErrUnavailable, blobd.ErrConflict,
	} {
		if errors.Is(err, known) {
			return nil
		}
	}
	if retryable(err) || outage(codeOf(err)) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return blobd.ErrUnavailable
	}
	if codeOf(err) == "EntityTooLarge" {
		return blobd.ErrTooLarge
	}
	return nil
}

// codeOf returns the code of the store's answer, or "" if there is none. For an
// answer without a body the SDK makes one of the status.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// statusOf returns the answer's HTTP status, or 0 if there was no answer.
func statusOf(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.HTTPStatusCode()
	}
	return 0
}

// isAbsence reports the one answer that says of a GET that there is no object.
func isAbsence(err error) bool {
	return codeOf(err) == "NoSuchKey" && statusOf(err) == http.StatusNotFound
}

// isOccupied reports a refusal of a conditional write. It proves nothing about
// what is there.
func isOccupied(err error) bool {
	return codeOf(err) == "PreconditionFailed" || statusOf(err) == http.StatusPreconditionFailed ||
		statusOf(err) == http.StatusNotModified
}

// isUnknown reports a request that the server does not know how to do.
func isUnknown(err error) bool {
	return codeOf(err) == "NotImplemented" || statusOf(err) == http.StatusNotImplemented
}

// isDenied reports credentials that may not do this, or are none.
func isDenied(err error) bool {
	switch codeOf(err) {
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "Forbidden", "Unauthorized", "AuthorizationHeaderMalformed":
		return true
	}
	return statusOf(err) == http.StatusForbidden || statusOf(err) == http.StatusUnauthorized
}

// outage reports codes of a store that will not serve us until somebody mends
// something: repeating the request at once is of no use.
func outage(code string) bool {
	switch code {
	case "NoSuchBucket", "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId",
		"SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "Forbidden", "Unauthorized",
		"AuthorizationHeaderMalformed", "RequestTimeTooSkewed", "RequestExpired", "InvalidObjectState",
		"PermanentRedirect", "TemporaryRedirect", "MovedPermanently", "Found", "Redirect", "IllegalLocationConstraintException",
		"XMinioStorageFull", "InsufficientStorage", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "InsufficientCapacity":
		return true
	}
	return false
}

// isFluke reports answers to a put that some servers also give when the folder
// of the key is removed at that moment, because its last object was erased.
func isFluke(err error) bool {
	switch codeOf(err) {
	case "AccessDenied", // MinIO
		"ExistingObjectIsDirectory", "ObjectParentIsFile", "NoSuchKey": // versitygw
		return true
	}
	return false
}

// retryable reports what may pass when it is asked again soon.
func retryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, errAgain) || transientCode(codeOf(err)) {
		return true
	}
	if outage(codeOf(err)) {
		return false
	}
	status := statusOf(err)
	if status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented {
		return true
	}
	if status >= 300 && !isBodyError(err) {
		return false
	}
	return isBodyError(err) || isNetError(err)
}

// transientCode reports codes that ask to come again, also of one key in a 200
// answer.
func transientCode(code string) bool {
	switch code {
	case "InternalError", "ServiceUnavailable", "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestTimeout",
		"RequestTimeoutException", "Throttling", "ThrottlingException", "TooManyRequests", "TooManyRequestsException",
		"RequestLimitExceeded", "BandwidthLimitExceeded", "OperationAborted", "OperationTimedOut", "ConditionalRequestConflict",
		"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "ServerBusy", "Busy",
		"XMinioServerNotInitialized", "XMinioReadQuorum", "XMinioWriteQuorum",
		"NoSuchVersion": // versitygw, to a read whose version is deleted meanwhile
		return true
	}
	return false
}

// isBodyError reports an answer that broke off or is none of the protocol.
func isBodyError(err error) bool {
	var decode *smithy.DeserializationError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &decode)
}

func isNetError(err error) bool {
	var failed net.Error // timeouts of a try included
	var number syscall.Errno
	var sending *smithyhttp.RequestSendError
	return errors.As(err, &failed) || errors.As(err, &number) || errors.As(err, &sending) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// errAgain marks what do must repeat.
var errAgain = fmt.Errorf("not settled: %w", blobd.ErrUnavailable)
