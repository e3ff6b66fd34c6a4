package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// SendTimeout bounds one try, from the name's resolution to the answer's end.
const SendTimeout = 15 * time.Second

// answerBytes is how much of an answer is read before the connection is closed.
const answerBytes = 64 << 10

// The words for what became of a try that was no delivery.
const (
	wordTimeout     = "timeout"
	wordAddress     = "address"  // resolved to one that is not public
	wordName        = "name"     // did not resolve
	wordTLS         = "tls"      // no trusted connection
	wordConnect     = "connect"  // no connection, or it broke
	wordRedirect    = "redirect" // which is not followed
	wordStatus      = "status"   // neither a success nor one of the others
	wordGone        = "gone"     // 410
	wordErased      = "tenant_erased"
	wordUnavailable = "unavailable" // it could not be signed
)

// sender sends deliveries. It goes through no proxy, follows no redirect and keeps
// no connection.
type sender struct{ client *http.Client }

// newSender builds a sender. Unless private addresses are allowed, it connects to
// public ones alone: the check is made of the address that is dialled, after the
// name was resolved, so that a name that resolves anew is no way round.
func newSender(o Options) sender {
	dialer := &net.Dialer{Resolver: o.Resolver}
	if !o.AllowPrivate {
		dialer.Control = ssrf.New(ssrf.WithAnyPort()).Safe
	}
	return sender{&http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
			MaxResponseHeaderBytes: answerBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// message is one try.
type message struct {
	url     string
	id      string
	at      time.Time
	body    []byte
	secrets [][]byte // the newest first; each signs
}

// send tries once. status is the answer's, 0 where there was none; word says what
// was wrong, "" for a delivery.
func (s sender) send(ctx context.Context, m message) (status int, word string) {
	ctx, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	r, err := m.request(ctx)
	if err != nil {
		return 0, wordConnect
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, wordOf(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, answerBytes) // the status says it all
	return answer.StatusCode, wordOfStatus(answer.StatusCode)
}

func (m message) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	signatures := ""
	for i, secret := range m.secrets {
		signer, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			return nil, err
		}
		signature, err := signer.Sign(m.id, m.at, m.body)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			signatures += " "
		}
		signatures += signature
	}
	r.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	r.Header.Set("User-Agent", "blobd")
	r.Header.Set(standardwebhooks.HeaderWebhookID, m.id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(m.at.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	return r, nil
}

func wordOfStatus(status int) string {
	switch {
	case status >= 200 && status < 300:
		return ""
	case status == http.StatusGone:
		return wordGone
	case status >= 300 && status < 400:
		return wordRedirect
	}
	return wordStatus
}

// wordOf never takes the error's own text, which holds the URL.
func wordOf(err error) string {
	var timeout net.Error
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return wordAddress
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return wordTimeout
	case errors.As(err, &name):
		return wordName
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return wordTLS
	}
	return wordConnect
}
