package webhooks_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/webhooks"
)

func public(o *webhooks.Options) { o.AllowPrivate = false }

func TestURLsOfWebhooks(t *testing.T) {
	for _, c := range []struct {
		url            string
		public, anyway bool // taken; taken where private is allowed
	}{
		{"https://example.org/hook", true, true},
		{"https://example.org:8443/hook?a=b", true, true},
		{"https://93.184.215.14/", true, true},
		{"https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", true, true},
		{"http://example.org/hook", false, true},
		{"https://10.0.0.1/", false, true},
		{"https://127.0.0.1:9/", false, true},
		{"https://169.254.169.254/latest/meta-data", false, true},
		{"https://100.64.0.1/", false, true},
		{"https://[::1]/", false, true},
		{"https://[::ffff:10.0.0.1]/", false, true},
		{"https://[fe80::1%25eth0]/", false, true},
		{"https://[64:ff9b::7f00:1]/", false, true},
		{"https://0.0.0.0/", false, true},
		{"https://224.0.0.1/", false, true},
		{"https://localhost:9/", false, true},
		{"https://LocalHost./", false, true},
		{"https://hooks.localhost/", false, true},
		{"https://my_host.example.org:/", true, true},
		{"https://b\u00fccher.example/", true, true},
		{"https://2130706433/", false, false},
		{"https://0X7f000001/", false, false},
		{"https://127.1/", false, false},
		{"https://0177.0.0.1/", false, false},
		{"https://127.0.0.1./", false, false},
		{"https://\uff11\uff12\uff17.0.0.1/", false, false},
		{"https://./", false, false},
		{"https://example.org:0/", false, false},
		{"https://example.org:65536/", false, false},
		{"https://example.org:99999/", false, false},
		{"ftp://example.org/", false, false},
		{"file:///etc/passwd", false, false},
		{"//example.org/", false, false},
		{"/hook", false, false},
		{"", false, false},
		{"https://", false, false},
		{"https:example.org", false, false},
		{"https://user@example.org/", false, false},
		{"https://user:password@example.org/", false, false},
		{"https://example.org/#part", false, false},
		{"https://exa mple.org/", false, false},
		{"https://example.org/" + strings.Repeat("x", 2048), false, false},
	} {
		for private, want := range map[bool]bool{false: c.public, true: c.anyway} {
			err := webhooks.CheckURL(c.url, private)
			if (err == nil) != want || err != nil && !errors.Is(err, blobd.ErrInvalid) {
				t.Errorf("%q, private allowed %v: %v", c.url, private, err)
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("the error repeats the URL: %v", err)
			}
		}
	}
}

// names answers every question with addresses, and counts the questions.
type names struct {
	mu      sync.Mutex
	answers [][]netip.Addr // of each question for IPv4 in turn; the last stays
	asked   int
}

func (n *names) next() []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.answers[min(n.asked, len(n.answers)-1)]
	n.asked++
	return a
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}}
}

// serve speaks DNS as over TCP: each message after its length.
func (n *names) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		q := m.Questions[0]
		if q.Type == dnsmessage.TypeA {
			for _, a := range n.next() {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: a.As4()},
				})
			}
		}
		answer, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(binary.BigEndian.AppendUint16(nil, uint16(len(answer)))); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// A name may resolve to a public address when it is looked at and to a private one
// when it is dialled: the address that is dialled counts.
func TestANameThatResolvesToPrivateAddresses(t *testing.T) {
	r := newRig(t)
	trap, err := net.Listen("tcp4", "127.0.0.1:0")
	r.must(err)
	touched := make(chan struct{}, 10)
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			_ = c.Close()
		}
	}()
	defer func() { _ = trap.Close() }()
	_, port, err := net.SplitHostPort(trap.Addr().String())
	r.must(err)
	for _, private := range []string{"127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "198.18.0.1"} {
		dns := &names{answers: [][]netip.Addr{{netip.MustParseAddr("93.184.215.14")}, {netip.MustParseAddr(private)}}}
		n := r.node("a", public, func(o *webhooks.Options) { o.Resolver = dns.resolver() })
		_, w := r.create(n, "https://rebind.example.org:"+port+"/")
		first, err := dns.resolver().LookupNetIP(t.Context(), "ip4", "rebind.example.org")
		if err != nil || len(first) != 1 || first[0].String() != "93.184.215.14" {
			t.Fatalf("the first look finds %v, %v", first, err)
		}
		r.held("hold-" + private)
		if tries := r.work(n); tries != 1 {
			t.Fatalf("%d tries", tries)
		}
		d := r.deliveries(w)[0]
		if d.LastError != "address" || d.State != ledger.DeliveryPending || d.Status != 0 {
			t.Errorf("%s: delivery %+v", private, d)
		}
		r.must(n.Delete(t.Context(), tenant, w.ID, ""))
	}
	select {
	case <-touched:
		t.Fatal("the private address was connected to")
	default:
	}
}

// A row that was made while private addresses were allowed is refused once they
// are not.
func TestAPrivateAddressInTheRow(t *testing.T) {
	r := newRig(t)
	to := newReceiver(t, nil)
	free, strict := r.node("free"), r.node("strict", public)
	_, w := r.create(free, to.URL)
	if _, _, err := strict.Create(t.Context(), ledger.Webhook{Tenant: tenant, URL: to.URL}); !errors.Is(err, blobd.ErrInvalid) {
		t.Fatal(err)
	}
	r.held("hold-1")
	r.work(strict)
	if d := r.deliveries(w)[0]; d.LastError != "address" || len(to.all()) != 0 {
		t.Fatalf("delivery %+v, %d requests", d, len(to.all()))
	}
	r.clock.set(r.deliveries(w)[0].DueAt)
	if tries := r.work(free); tries != 1 || len(to.all()) != 1 {
		t.Fatalf("%d tries, %d requests", tries, len(to.all()))
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := newRig(t)
		to := newReceiver(t, always(status))
		n := r.node("a")
		_, w := r.create(n, to.URL)
		r.held("hold-1")
		r.work(n)
		d := r.deliveries(w)[0]
		if len(to.all()) != 1 || d.LastError != "redirect" || d.Status != int64(status) || d.State != ledger.DeliveryPending {
			t.Errorf("%d requests, delivery %+v", len(to.all()), d)
		}
	}
}

func TestWordsOfFailures(t *testing.T) {
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	plain := newReceiver(t, nil)
	for _, c := range []struct{ url, word string }{
		{"http://" + nobody, "connect"},
		{"https://" + strings.TrimPrefix(plain.URL, "http://"), "tls"},
		{"http://nobody.example.org:1/", "name"},
	} {
		r := newRig(t)
		n := r.node("a", func(o *webhooks.Options) { o.Resolver = (&names{answers: [][]netip.Addr{nil}}).resolver() })
		_, w := r.create(n, c.url+"?key=in-the-url")
		r.held("hold-1")
		r.work(n)
		if d := r.deliveries(w)[0]; d.LastError != c.word || d.Status != 0 || d.Attempts != 1 {
			t.Errorf("%s: delivery %+v", c.word, d)
		}
		if strings.Contains(r.logs.String(), "in-the-url") {
			t.Errorf("%s: the log has the URL: %s", c.word, r.logs.String())
		}
	}
}

// An untrusted certificate is no receiver.
func TestAnUntrustedCertificate(t *testing.T) {
	r := newRig(t)
	to := newTLSReceiver(t)
	n := r.node("a")
	_, w := r.create(n, to.URL)
	r.held("hold-1")
	r.work(n)
	if d := r.deliveries(w)[0]; d.LastError != "tls" || len(to.all()) != 0 {
		t.Fatalf("delivery %+v", d)
	}
	trusting := r.node("b", func(o *webhooks.Options) { o.RootCAs = to.pool() })
	r.clock.set(r.deliveries(w)[0].DueAt)
	if tries := r.work(trusting); tries != 1 || len(to.all()) != 1 {
		t.Fatalf("%d tries, %d requests; %s", tries, len(to.all()), fmt.Sprint(r.deliveries(w)))
	}
}
