package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// endTime is how long a node may take to end after it was asked to.
const endTime = 15 * time.Second

// rollingRestart: one node after the other is asked to end and started again,
// and a caller that repeats what is safe sees no error.
func rollingRestart(t *testing.T, w *world) {
	d := w.newDeployment(t)
	d.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	var calls atomic.Int64
	for who := range 6 {
		c := d.patient(d.balancer.url())
		work.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				if err := putAndResolve(t.Context(), c, fmt.Sprintf("run %d %d", who, round)); err != nil {
					t.Errorf("a caller that repeats saw: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i, n := range d.nodes {
		before := calls.Load()
		slow := newSlowPut(t, n, d.token, fmt.Sprintf("slow %d", i))
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			code, took := n.stop()
			if code != 0 || took > endTime {
				t.Errorf("%s ended with %d after %v", n.name, code, took)
			}
		}()
		slow.finishOnceRefused(t, n)
		<-stopped
		other := d.client(d.nodes[(i+1)%nodeCount].url())
		ref := mustPut(t, other, slow.execution, slowText) // the repeat finds it
		if ref != slow.ref {
			t.Errorf("a put that was under way when its node ended: ref %s, then %s", slow.ref, ref)
		}
		n.start()
		eventually(t, readyTime, "callers to go on", func() bool { return calls.Load() >= before+20 || t.Failed() })
	}
	cancel()
	work.Wait()
}

func putAndResolve(ctx context.Context, c *client.Client, execution string) error {
	text := "text of " + execution
	ref, err := put(ctx, c, execution, []byte(text))
	if err != nil {
		return err
	}
	got, err := resolve(ctx, c, execution, ref)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s resolves to %q", execution, got)
	}
	return err
}

// slowPut is a put whose body is on its way.
type slowPut struct {
	execution string
	conn      net.Conn
	answers   *bufio.Reader
	ref       string
}

const slowText = "a text that takes its time"

// newSlowPut sends a put but for the last byte of its body. The node reads the
// body when it returns: it asked for it.
func newSlowPut(t *testing.T, n *node, token, execution string) *slowPut {
	t.Helper()
	conn, err := net.Dial("tcp", n.address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &slowPut{execution: execution, conn: conn, answers: bufio.NewReader(conn)}
	path := "/v1/executions/" + url.PathEscape(execution) + "/blobs?stepId=step"
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, n.address, token, len(slowText))
	must(t, err)
	status, err := s.answers.ReadString('\n')
	must(t, err)
	if status != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("the node does not ask for the body: %q", status)
	}
	_, err = s.answers.ReadString('\n')
	must(t, err)
	_, err = io.WriteString(conn, slowText[:len(slowText)-1])
	must(t, err)
	return s
}

// finishOnceRefused sends the last byte when the node takes no more connections,
// and wants the put to be acknowledged.
func (s *slowPut) finishOnceRefused(t *testing.T, n *node) {
	t.Helper()
	eventually(t, readyTime, n.name+" to take no more connections", func() bool {
		c, err := net.Dial("tcp", n.address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	_, err := io.WriteString(s.conn, slowText[len(slowText)-1:])
	must(t, err)
	resp, err := http.ReadResponse(s.answers, nil)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("a put under way when its node ended: %d, %s, %v", resp.StatusCode, body, err)
	}
	var stored wire.Stored
	must(t, json.Unmarshal(body, &stored))
	s.ref = stored.Ref
}
