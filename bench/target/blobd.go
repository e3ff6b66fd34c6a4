package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/blobd/blobd/bench/load"
)

// Blobd is a running blobd on its embedded defaults.
type Blobd struct {
	*Process
	DebugAddr string // host:port of the profiles, if asked for
	token     string
	run       string // makes the execution ids of one process unique
}

// BlobdConfig says how blobd runs. Everything else stays at its default, every
// fsync included.
type BlobdConfig struct {
	Name    string
	Binary  string
	Dir     string   // the data folder is made in it
	Env     []string // "NAME=value", beside the caller's environment without BLOBD_*
	Profile bool     // serve profiles on a second listener
}

// StartBlobd starts blobd on an empty data folder.
func StartBlobd(ctx context.Context, cfg BlobdConfig) (*Blobd, error) {
	data := filepath.Join(cfg.Dir, cfg.Name)
	args := []string{"serve", "--data-dir", data, "--listen", "127.0.0.1:0"}
	b := &Blobd{run: fmt.Sprintf("bench-%x", time.Now().UnixNano())}
	if cfg.Profile {
		var err error
		if b.DebugAddr, err = freeAddr(); err != nil {
			return nil, err
		}
		args = append(args, "--debug-listen", b.DebugAddr)
	}
	cmd := exec.Command(cfg.Binary, args...)
	cmd.Env = append(without(os.Environ(), "BLOBD_"), cfg.Env...)
	var err error
	if b.Process, err = start(ctx, cfg.Name, cfg.Dir, cmd); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		_ = b.Stop()
		return nil, err
	}
	b.token = strings.TrimSpace(string(token))
	return b, nil
}

// BuildBlobd builds the binary into dir from the module in root.
func BuildBlobd(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "blobd-under-test")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/blobd")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build blobd: %w: %.2000s", err, out)
	}
	return binary, nil
}

func (b *Blobd) request(method, target, contentType string) *load.Request {
	r := &load.Request{Method: method, Host: b.Addr, Target: target}
	r.Header = append(r.Header, load.Field{Name: "Authorization", Value: "Bearer " + b.token})
	if contentType != "" {
		r.Header = append(r.Header, load.Field{Name: "Content-Type", Value: contentType})
	}
	return r
}

const text, jsonType = "text/plain; charset=utf-8", "application/json"

func (b *Blobd) put(execution string) *load.Request {
	return b.request("POST", "/v1/executions/"+execution+"/blobs?stepId=turn:1:model&attempt=1", text)
}

// Put stores new bodies, each client in one execution of its own.
func (b *Blobd) Put(_ context.Context, seed uint64, client int, _ load.Client) (load.Op, error) {
	return putOp(seed, client, b.put(fmt.Sprintf("%s-put-%x-%d", b.run, seed, client))), nil
}

// PutNew stores every body in an execution that was never seen before.
func (b *Blobd) PutNew(_ context.Context, seed uint64, client int, _ load.Client) (load.Op, error) {
	prefix := fmt.Sprintf("%s-new-%x-%d-", b.run, seed, client)
	return putEachOp(seed, client, func(turn int) (*load.Request, error) { return b.put(fmt.Sprint(prefix, turn)), nil }), nil
}

// Get reads what the client stored before, one blob after the other.
func (b *Blobd) Get(_ context.Context, client int, c load.Client) (load.Op, error) {
	execution := b.readExecution(client)
	bodies := clientBodies(client)
	refs, err := b.fill(c, execution, bodies)
	if err != nil {
		return nil, err
	}
	all := make([]stored, len(refs))
	for i, ref := range refs {
		all[i] = stored{b.request("GET", "/v1/executions/"+execution+"/blobs/"+ref, ""), bodies[i]}
	}
	return getOp(all), nil
}

// Batch reads all that the client stored before in one batch resolve.
func (b *Blobd) Batch(_ context.Context, client int, c load.Client) (load.Op, error) {
	execution := b.readExecution(client)
	refs, err := b.fill(c, execution, clientBodies(client))
	if err != nil {
		return nil, err
	}
	type part struct {
		Ref string `json:"ref"`
	}
	wanted := struct {
		Parts []part `json:"parts"`
	}{}
	for _, ref := range refs {
		wanted.Parts = append(wanted.Parts, part{ref})
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	request := b.request("POST", "/v1/executions/"+execution+"/resolve", jsonType)
	return batchOp(request, body, []byte(`"firstHole":null`)), nil
}

func (b *Blobd) readExecution(client int) string { return fmt.Sprintf("%s-read-%d", b.run, client) }

// fill puts bodies into execution and returns their refs. A repeat stores
// nothing new and has the same refs, so every cell may call it.
func (b *Blobd) fill(c load.Client, execution string, bodies [][]byte) ([]string, error) {
	put := b.put(execution)
	refs := make([]string, len(bodies))
	for i, body := range bodies {
		ans, err := c.Do(put, body)
		if err != nil {
			return nil, err
		}
		if ans.Status != http.StatusCreated && ans.Status != http.StatusOK {
			return nil, unexpected("fill", ans)
		}
		if refs[i], err = refOf(ans.Body); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

func refOf(answer []byte) (string, error) {
	var put struct {
		Ref string `json:"ref"`
	}
	if err := json.Unmarshal(answer, &put); err != nil {
		return "", fmt.Errorf("answer to a put: %w", err)
	}
	if put.Ref == "" {
		return "", fmt.Errorf("answer to a put without a ref: %.300s", answer)
	}
	return put.Ref, nil
}

// clientBodies are the bodies that a client reads: the same ones in every cell.
func clientBodies(client int) [][]byte {
	source := load.NewBodies(0, client)
	all := make([][]byte, PerClient)
	for i := range all {
		all[i] = make([]byte, load.BodySize)
		source.Fill(all[i])
	}
	return all
}

// without drops the variables whose name starts with prefix, so that a setting
// of the caller's shell never changes what is measured.
func without(env []string, prefix string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, prefix) {
			kept = append(kept, v)
		}
	}
	return kept
}

// isNull tells whether ans is the definitive null.
func isNull(ans load.Answer) bool {
	return ans.Status == http.StatusNotFound && ans.Null && bytes.Contains(ans.Body, []byte(`"null"`))
}
