package cluster

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// failover: a standby that lost the last commits becomes the database. The nodes
// notice by its timeline, and serve nothing until the journal was replayed: what
// was erased stays erased, what was revoked revoked, and what was put since is an
// error until an operator accepts the loss. No answer in between is wrong.
func failover(t *testing.T, w *world) {
	d := w.newDeployment(t, "BLOBD_BACKEND_CACHE=0")
	d.start()
	c := d.client(d.nodes[0].url())
	kept := mustPut(t, c, "kept", "kept text")
	mixedErased := mustPut(t, c, "mixed", "erased text")
	mixedKept := mustPut(t, c, "mixed", "kept text")
	erased := mustPut(t, c, "erased", "a text")
	token, err := c.CreateToken(t.Context(), tokenFor("runtime"), "")
	must(t, err)
	standby := w.postgres.Standby(t)

	// What the standby does not have.
	late := mustPut(t, d.client(d.nodes[1].url()), "kept", "late text")
	lateRun := mustPut(t, d.client(d.nodes[2].url()), "late", "late text")
	for i, e := range []struct {
		execution string
		refs      []string
	}{{"erased", nil}, {"mixed", []string{mixedErased}}, {"never seen", nil}} {
		_, err := erase(t.Context(), d.client(d.nodes[i].url()), e.execution, e.refs...)
		must(t, err)
	}
	must(t, d.client(d.nodes[1].url()).RevokeToken(t.Context(), token.ID))

	stop := d.neverWrong([]blobAsked{
		{"kept", kept, false}, {"mixed", mixedKept, false}, {"kept", late, false}, {"late", lateRun, false},
		{"erased", erased, true}, {"mixed", mixedErased, true},
	})
	w.postgres.Failover(t, standby)
	for _, n := range d.nodes {
		n.awaitReady()
	}
	stop()

	for _, n := range d.nodes {
		c := d.client(n.url())
		wantText(t, n.name, c, "kept", kept, "kept text")
		wantText(t, n.name, c, "mixed", mixedKept, "kept text")
		wantNull(t, n.name, c, "erased", erased)
		wantNull(t, n.name, c, "mixed", mixedErased)
		for execution, ref := range map[string]string{"kept": late, "late": lateRun} {
			if _, err := resolve(t.Context(), c, execution, ref); client.CodeOf(err) != wire.CodeBlobMissing {
				t.Errorf("%s: a blob that the standby lost: %v", n.name, err)
			}
		}
		for _, execution := range []string{"erased", "never seen"} {
			if _, err := put(t.Context(), c, execution, []byte("again")); verdictOf(t, err) != refused {
				t.Errorf("%s: a put into %q: %v", n.name, execution, err)
			}
		}
		if _, err := put(t.Context(), c, "mixed", []byte("erased text")); verdictOf(t, err) != refused {
			t.Errorf("%s: an erased blob again: %v", n.name, err)
		}
		revoked := newClient(t, client.Options{Server: n.url(), Token: token.Secret, RetryFor: -1})
		if _, err := resolve(t.Context(), revoked, "kept", kept); statusOf(err) != http.StatusUnauthorized {
			t.Errorf("%s: a revoked token: %v", n.name, err)
		}
		mustPut(t, c, "after the failover", n.name)
	}

	// The erasures run again, to their end.
	p := d.peek()
	eventually(t, readyTime, "the erasures to finish", func() bool { return p.number(running) == 0 })
	p.wantErasedOnce()

	// A put gives back what was lost; what nobody gives back an operator accepts.
	again := mustPut(t, d.client(d.nodes[2].url()), "kept", "late text")
	wantText(t, "what was put again", d.client(d.nodes[0].url()), "kept", again, "late text")
	accept := exec.Command(program, "verify", "--data-dir", filepath.Join(t.TempDir(), "data"), "--accept-missing", "--yes")
	accept.Env = environ(d.settings)
	if out, err := accept.CombinedOutput(); err != nil {
		t.Errorf("accept the loss: %v\n%s", err, out)
	}
	for _, n := range d.nodes {
		wantNull(t, n.name, d.client(n.url()), "late", lateRun)
		wantNull(t, n.name, d.client(n.url()), "kept", late)
	}
}

// blobAsked is a blob that callers ask for all the time.
type blobAsked struct {
	execution, ref string
	erased         bool // may be null, and must not be bytes; else the other way round
}

// neverWrong asks every node for blobs, again and again until stop, and fails on
// bytes of what was erased and on a null of what was not.
func (d *deployment) neverWrong(blobs []blobAsked) (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var work sync.WaitGroup
	for _, n := range d.nodes {
		c := d.client(n.url())
		work.Go(func() {
			for ctx.Err() == nil {
				for _, b := range blobs {
					ask, done := context.WithTimeout(d.t.Context(), 10*time.Second)
					_, err := resolve(ask, c, b.execution, b.ref)
					done()
					switch isNull := errors.Is(err, client.ErrNull); {
					case b.erased && err == nil:
						d.t.Errorf("%s: bytes of what was erased", n.name)
					case !b.erased && isNull:
						d.t.Errorf("%s: a null of what was put and not erased: %s", n.name, b.execution)
					}
				}
			}
		})
	}
	return func() {
		cancel()
		work.Wait()
	}
}
