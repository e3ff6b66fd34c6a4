package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// verdict is what an answer means for whoever asked.
type verdict int

const (
	unknown verdict = iota // an error: it may have happened or not
	done                   // bytes, a stored text, or an accepted erasure
	nothing                // the definitive null
	refused                // 410: erased before
	unsent                 // nobody took the connection, so nothing was asked
)

func (v verdict) String() string {
	return [...]string{"unknown", "done", "nothing", "refused", "unsent"}[v]
}

// verdictOf judges the answer to a put, a resolve or an erasure. Anything that
// the contract has no place for fails the test.
func verdictOf(t testing.TB, err error) verdict {
	var answer *client.Error
	var network *net.OpError
	switch {
	case err == nil:
		return done
	case errors.As(err, &network) && network.Op == "dial":
		return unsent
	case errors.Is(err, client.ErrNull):
		return nothing
	case !errors.As(err, &answer) || answer.Foreign && answer.Status == http.StatusBadGateway:
		return unknown // the network
	case answer.Status == http.StatusGone:
		return refused
	case answer.Status == http.StatusServiceUnavailable:
		return unknown
	}
	t.Errorf("an answer that has no place here: %v", err)
	return unknown
}

// put keeps a text and returns its ref.
func put(ctx context.Context, c *client.Client, execution string, text []byte) (ref string, err error) {
	stored, _, err := c.Put(ctx, execution, client.Put{StepID: "step", Text: text})
	return stored.Ref, err
}

func resolve(ctx context.Context, c *client.Client, execution, ref string) ([]byte, error) {
	b, err := c.Resolve(ctx, execution, ref, client.Resolve{})
	return b.Bytes, err
}

// erase asks for an erasure of an execution, or of refs of it.
func erase(ctx context.Context, c *client.Client, execution string, refs ...string) (id string, err error) {
	e, err := c.Erase(ctx, wire.EraseRequest{
		Scope: &wire.Scope{ExecutionID: &execution, Refs: refs}, Reason: "a test of several nodes",
	}, "")
	return e.ID, err
}

// mustPut puts through a client that has to succeed.
func mustPut(t *testing.T, c *client.Client, execution, text string) (ref string) {
	t.Helper()
	ref, err := put(t.Context(), c, execution, []byte(text))
	must(t, err)
	return ref
}

// wantText: bytes, and the right ones.
func wantText(t *testing.T, who string, c *client.Client, execution, ref, text string) {
	t.Helper()
	got, err := resolve(t.Context(), c, execution, ref)
	if err != nil || string(got) != text {
		t.Errorf("%s: %q, %v; want %q", who, got, err, text)
	}
}

// wantNull: the definitive null and nothing else.
func wantNull(t *testing.T, who string, c *client.Client, execution, ref string) {
	t.Helper()
	if got, err := resolve(t.Context(), c, execution, ref); !errors.Is(err, client.ErrNull) {
		t.Errorf("%s: %q, %v; want the null", who, got, err)
	}
}

func tokenFor(roles ...string) wire.NewToken { return wire.NewToken{Name: "test", Roles: roles} }

// statusOf returns the status of an answer that is an error, 0 if there is none.
func statusOf(err error) int {
	var answer *client.Error
	if errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}
