package transit_test

import (
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/blobd/blobd/internal/servers"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/keystest"
	"github.com/blobd/blobd/keys/transit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policyFile is what operators give blobd in Vault; every test here runs with
// exactly it.
const policyFile = "../../deploy/vault/blobd-policy.hcl"

func policy(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(policyFile)
	must(t, err)
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vault starts a Vault with an empty Transit engine and blobd's policy.
func vault(t testing.TB) *servers.VaultServer {
	t.Helper()
	v := servers.Vault(t, servers.VaultOptions{})
	prepare(t, v)
	return v
}

func prepare(t testing.TB, v *servers.VaultServer) {
	t.Helper()
	v.FreshTransit("transit")
	v.Policy("blobd", policy(t))
}

// open opens a keyring with a token of the policy.
func open(t testing.TB, v *servers.VaultServer, change ...func(*transit.Options)) *transit.Keyring {
	t.Helper()
	o := transit.Options{Address: v.Address, Login: transit.Token(v.NewToken("blobd", "1h"))}
	for _, c := range change {
		c(&o)
	}
	k, err := transit.New(o)
	must(t, err)
	t.Cleanup(func() { must(t, k.Close()) })
	return k
}

func TestContract(t *testing.T) {
	v := vault(t)
	keystest.Run(t, keystest.Harness{New: func(t *testing.T) keystest.Service {
		v.FreshTransit("transit")
		return keystest.Service{Open: func(t *testing.T) keys.Keyring { return open(t, v) }}
	}})
}

// The contract holds for a token that may do anything, too: that wrapping never
// makes a key, above all, is not left to the policy.
func TestContractAsRoot(t *testing.T) {
	v := vault(t)
	keystest.Run(t, keystest.Harness{New: func(t *testing.T) keystest.Service {
		v.FreshTransit("transit")
		return keystest.Service{Open: func(t *testing.T) keys.Keyring {
			return open(t, v, func(o *transit.Options) { o.Login = transit.Token(v.Token) })
		}}
	}})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clock is a clock that only a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time        { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) move(by time.Duration) { c.at.Add(int64(by)) }
