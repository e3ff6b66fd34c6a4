package transit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"

	"github.com/hashicorp/vault/api"

	"github.com/blobd/blobd"
)

// vaultError is a failed request. Its text names the request, the status and
// nothing that Vault or something before it wrote: a page of a proxy may repeat
// the whole request, keys and token included. The SDK's error stays reachable by
// errors.As for who knows what is in it.
type vaultError struct {
	verb, path string
	status     int   // 0: no answer
	class      error // of the closed set, or nil: not classified
	cause      error
}

func (e *vaultError) Error() string {
	text := fmt.Sprintf("vault: %s %s: no answer", e.verb, e.path)
	if e.status != 0 {
		text = fmt.Sprintf("vault: %s %s: status %d", e.verb, e.path, e.status)
	}
	if why := harmless(e.cause); why != "" {
		text += " (" + why + ")"
	}
	if e.class != nil {
		text += ": " + e.class.Error()
	}
	return text
}

// harmless is the text of a cause that this machine made and not the other side:
// a connection that failed, a certificate that does not fit, a file that cannot
// be read, a context that ended.
func harmless(err error) string {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var file *fs.PathError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "given up, or too late"
	case errors.As(err, &network):
		return network.Error()
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.As(err, &file):
		return file.Error()
	case errors.Is(err, errNoToken):
		return errNoToken.Error()
	}
	return ""
}

// Format prints the text for every verb, so that none follows the cause.
func (e *vaultError) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(e.Error())) }

// Unwrap returns the class and the cause.
func (e *vaultError) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}

// classify turns an error of the SDK into one of the closed set, by status:
//
//	no answer, 429, 5xx, 412, 472…474  ErrUnavailable: sealed, standby, a quota,
//	                                   a fault, a timeout, a connection cut
//	403, 401                           ErrDenied: blobd's token or its policy
//	404 with an empty list of errors   errAbsent: no such key, for lookup to judge
//	404 otherwise                      ErrUnavailable: no such mount, or no Vault
//	400 and what is left               not classified
func classify(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	e := &vaultError{verb: verb, path: path, cause: err}
	var refused *api.ResponseError
	if !errors.As(err, &refused) {
		e.class = blobd.ErrUnavailable
		return e
	}
	e.status = refused.StatusCode
	switch s := refused.StatusCode; {
	case s == http.StatusNotFound && absent(refused):
		e.class = errAbsent
	case s == http.StatusNotFound, s == http.StatusTooManyRequests, s == http.StatusPreconditionFailed,
		s == http.StatusRequestTimeout, s >= 472 && s <= 474, s >= 500:
		e.class = blobd.ErrUnavailable
	case s == http.StatusForbidden, s == http.StatusUnauthorized:
		e.class = blobd.ErrDenied
	}
	return e
}

// errAbsent is Vault's 404 without a complaint. It is of no closed set: only
// lookup turns it into one, once it has proved that a Transit engine said it.
var errAbsent = errors.New("absent")

// absent is Vault's way to say so: {"errors":[]}. A missing mount has a text in
// the list; a proxy's page is no JSON; another's JSON has no such list.
func absent(e *api.ResponseError) bool {
	return !e.RawError && e.Errors != nil && len(e.Errors) == 0
}

// classifyRedirect is for a redirect that the SDK did not follow.
func classifyRedirect(verb, path string, status int) error {
	return &vaultError{verb, path, status, blobd.ErrUnavailable, errors.New("redirected")}
}

// classifyContext is for a context that ended before anything was asked.
func classifyContext(err error) error { return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err) }

// errStrange is an answer that no Transit engine gives: nothing follows from it.
func errStrange(verb, path string, status int) error {
	return &vaultError{verb, path, status, blobd.ErrUnavailable, errors.New("the answer is none of Transit's")}
}

// refused reports a 403, which a dead token or a policy may have caused.
func refused(err error) bool { return errors.Is(err, blobd.ErrDenied) }

// badRequest reports a 400, whose meaning depends on what was asked.
func badRequest(err error) bool {
	var e *vaultError
	return errors.As(err, &e) && e.status == http.StatusBadRequest
}
