package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// demoMargin is the put margin of the throw-away service: long enough to see
// that an erasure waits, short enough to watch.
const demoMargin = "2s"

type demoCmd struct{}

// Run tells the story on the server that was named, or on one of its own.
func (demoCmd) Run(a *app) error {
	cfg, err := a.config(nil)
	if err != nil {
		return err
	}
	d := &demo{app: a, run: "demo-" + rand.Text()[:8]}
	if cfg.chosen["server"] == "" {
		return d.embedded()
	}
	if d.remote, err = a.remote(); err != nil {
		return err
	}
	if err := d.tell(); err != nil {
		return err
	}
	return d.leaveNothing()
}

// embedded runs the story against a service of its own on a temporary folder.
func (d *demo) embedded() (err error) {
	dir, err := os.MkdirTemp("", "blobd-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	folder := filepath.Join(dir, "data")
	cfg, err := loadConfig(layers{Flags: map[string]string{
		"dataDir": folder, "listen": "127.0.0.1:0", "putMargin": demoMargin,
	}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	address := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		log := slog.New(slog.NewJSONHandler(io.Discard, nil))
		ended <- serve(ctx, cfg, log, func(url string) { address <- url })
	}()
	select {
	case err := <-ended:
		return err
	case url := <-address:
		d.say("service", "a service runs on %s, its data folder is %s", url, folder)
		err = d.against(url, filepath.Join(folder, tokenFile))
	}
	stop()
	err = errors.Join(err, <-ended)
	if err == nil {
		d.say("end", "the service was stopped, its folder is removed")
		err = d.flush()
	}
	return err
}

func (d *demo) against(url, tokenPath string) error {
	token, err := readToken(tokenPath)
	if err != nil {
		return err
	}
	if d.remote, err = client.New(client.Options{Server: url, Token: token}); err != nil {
		return err
	}
	return d.tell()
}

// demo is one telling. A step that does not end as promised is an error.
type demo struct {
	*app
	remote  *client.Client
	run     string // makes the execution ids of this run unique
	lines   []demoLine
	kept    []keptText
	erasure wire.Erasure
}

// demoLine is one step, as JSON.
type demoLine struct {
	Step string `json:"step"`
	Says string `json:"says"`
}

// keptText is a text that was kept, and where.
type keptText struct {
	execution string
	ref       string
	text      []byte
}

func (d *demo) say(step, format string, args ...any) {
	line := demoLine{step, fmt.Sprintf(format, args...)}
	d.lines = append(d.lines, line)
	if !d.json {
		fmt.Fprintf(d.stdout, "%-9s %s\n", line.Step, line.Says)
	}
}

func (d *demo) flush() error {
	if !d.json {
		return nil
	}
	return d.printJSON(d.lines)
}

// tell runs the steps.
func (d *demo) tell() error {
	for _, step := range []func() error{
		d.capture, d.resolve, d.foreign, d.erase, d.refused, d.wait, d.others,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return nil
}

func (d *demo) capture() error {
	for _, s := range samples() {
		execution := d.run + "/" + s.agent
		captured, err := d.remote.Capture(d.ctx, execution, s.call())
		if err != nil {
			return err
		}
		for i, p := range captured.Parts {
			if p.TextRef == "" {
				d.say("capture", "%s: %s part: the provider withheld its text, nothing to keep", s.agent, p.Kind)
				continue
			}
			d.kept = append(d.kept, keptText{execution, p.TextRef, []byte(s.parts[i].text)})
			d.say("capture", "%s: %s of %d bytes kept as %s", s.agent, p.Kind, len(s.parts[i].text), p.TextRef)
		}
	}
	return nil
}

// get resolves one ref: nil and false is the definitive null.
func (d *demo) get(execution, ref string) ([]byte, bool, error) {
	blob, err := d.remote.Resolve(d.ctx, execution, ref, client.Resolve{Origin: "demo"})
	if errors.Is(err, client.ErrNull) {
		return nil, false, nil
	}
	return blob.Bytes, err == nil, err
}

func (d *demo) resolve() error {
	for _, k := range d.kept {
		if err := d.same(k); err != nil {
			return err
		}
	}
	d.say("resolve", "%d refs resolved, every text byte for byte what was captured", len(d.kept))
	return nil
}

func (d *demo) same(k keptText) error {
	b, ok, err := d.get(k.execution, k.ref)
	if err != nil {
		return err
	}
	if !ok || !bytes.Equal(b, k.text) {
		return fmt.Errorf("%s did not come back as it was captured", k.ref)
	}
	return nil
}

// null wants the definitive null.
func (d *demo) null(execution, ref string) error {
	_, ok, err := d.get(execution, ref)
	if err == nil && ok {
		err = fmt.Errorf("%s resolved for execution %s", ref, execution)
	}
	return err
}

func (d *demo) foreign() error {
	k, other := d.kept[0], d.kept[len(d.kept)-1].execution
	if err := d.null(other, k.ref); err != nil {
		return err
	}
	d.say("null", "the first ref, asked for by another execution: the definitive null, for a text is sealed to its execution")
	return nil
}

// first is the execution that the story erases.
func (d *demo) first() string { return d.kept[0].execution }

func eraseExecution(id, reason string) wire.EraseRequest {
	return wire.EraseRequest{Scope: &wire.Scope{ExecutionID: &id}, Reason: reason}
}

func (d *demo) erase() error {
	execution := d.first()
	e, err := d.remote.Erase(d.ctx, eraseExecution(execution, "demo"), "")
	if err != nil {
		return err
	}
	d.say("erase", "execution %s: accepted as %s, %d blobs in scope, keys dropped", execution, e.ID, e.Plan.Blobs)
	d.erasure = e
	for _, k := range d.kept {
		if k.execution != execution {
			continue
		}
		if err := d.null(execution, k.ref); err != nil {
			return err
		}
	}
	d.say("null", "from this moment on every read of it is null")
	return nil
}

func (d *demo) refused() error {
	k := d.kept[0]
	_, _, err := d.remote.Put(d.ctx, k.execution, client.Put{Text: k.text})
	if err == nil {
		return errors.New("a put for the erased execution was taken")
	}
	if code := exitCode(err); code != exitRefused {
		return err
	}
	d.say("refused", "a put for the erased execution: %v", err)
	return nil
}

func (d *demo) wait() error {
	e, err := d.waitErased(d.remote, d.erasure, 0)
	if err != nil {
		return err
	}
	if e.State != "erased" {
		return fmt.Errorf("the erasure ended as %s", e.State)
	}
	d.say("erased", "%d keys destroyed, %d objects deleted and read back as absent", e.Progress.KeysDestroyed, e.Progress.ObjectsDeleted)
	return nil
}

func (d *demo) others() error {
	left := 0
	for _, k := range d.kept {
		if k.execution == d.first() {
			continue
		}
		if err := d.same(k); err != nil {
			return err
		}
		left++
	}
	d.say("resolve", "the %d texts of the other executions still resolve", left)
	return nil
}

// leaveNothing erases what the story left on somebody's server.
func (d *demo) leaveNothing() error {
	asked := map[string]bool{d.first(): true}
	for _, k := range d.kept {
		if asked[k.execution] {
			continue
		}
		asked[k.execution] = true
		if _, err := d.remote.Erase(d.ctx, eraseExecution(k.execution, "end of the demo"), ""); err != nil {
			return err
		}
	}
	d.say("end", "the other executions are being erased too")
	return d.flush()
}
