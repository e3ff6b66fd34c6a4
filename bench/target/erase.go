package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/blobd/blobd/bench/load"
)

// Erasure is what one erasure of one execution took, counted from the moment
// its request was sent.
type Erasure struct {
	Blobs    int           `json:"blobs"`
	Accepted time.Duration `json:"acceptedNanoseconds"` // until the 202
	Null     time.Duration `json:"nullNanoseconds"`     // until probes of every part of it were null
	Erased   time.Duration `json:"erasedNanoseconds"`   // until the state was "erased"; 0: not within the wait
	State    string        `json:"state"`               // the last state seen
}

const (
	eraseFillers = 16  // connections that fill an execution
	eraseBody    = 256 // bytes of a blob that is put to be erased
	eraseProbes  = 8   // blobs, spread over the execution, that must be null
	statePoll    = 20 * time.Millisecond
)

// Erase fills a new execution with blobs, erases it and waits up to wait for
// its final state.
func (b *Blobd) Erase(ctx context.Context, seed uint64, blobs int, wait time.Duration) (Erasure, error) {
	e := Erasure{Blobs: blobs}
	execution := fmt.Sprintf("%s-erase-%x", b.run, seed)
	refs, err := b.fillExecution(ctx, execution, seed, blobs)
	if err != nil {
		return e, fmt.Errorf("fill: %w", err)
	}
	c, err := load.Raw(ctx, b.Addr)
	if err != nil {
		return e, err
	}
	defer c.Close()
	if err := b.probe(c, execution, refs, false); err != nil {
		return e, fmt.Errorf("before the erasure: %w", err)
	}

	start := time.Now()
	id, err := b.requestErasure(c, execution)
	if err != nil {
		return e, err
	}
	e.Accepted = time.Since(start)
	if err := b.probe(c, execution, refs, true); err != nil {
		return e, fmt.Errorf("after the 202: %w", err)
	}
	e.Null = time.Since(start)

	e.State, err = b.awaitErased(ctx, c, id, start.Add(wait))
	if err == nil && e.State == "erased" {
		e.Erased = time.Since(start)
	}
	return e, err
}

func (b *Blobd) fillExecution(ctx context.Context, execution string, seed uint64, blobs int) ([]string, error) {
	refs := make([]string, blobs)
	group, ctx := errgroup.WithContext(ctx)
	for worker := range eraseFillers {
		group.Go(func() error {
			c, err := load.Raw(ctx, b.Addr)
			if err != nil {
				return err
			}
			defer c.Close()
			source, body, put := load.NewBodies(seed, worker), make([]byte, eraseBody), b.put(execution)
			for i := worker; i < blobs && ctx.Err() == nil; i += eraseFillers {
				source.Fill(body)
				ans, err := c.Do(put, body)
				if err != nil {
					return err
				}
				if ans.Status != http.StatusCreated {
					return unexpected("put", ans)
				}
				if refs[i], err = refOf(ans.Body); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return refs, group.Wait()
}

// probe resolves blobs spread over the execution: all are null or all are not.
func (b *Blobd) probe(c load.Client, execution string, refs []string, null bool) error {
	n := min(eraseProbes, len(refs))
	for i := range n {
		ref := refs[i*(len(refs)-1)/max(n-1, 1)]
		ans, err := c.Do(b.request("GET", "/v1/executions/"+execution+"/blobs/"+ref, ""), nil)
		if err != nil {
			return err
		}
		if null && !isNull(ans) {
			return fmt.Errorf("resolve: status %d, not a null", ans.Status)
		}
		if !null && ans.Status != http.StatusOK {
			return unexpected("resolve", ans)
		}
	}
	return nil
}

func (b *Blobd) requestErasure(c load.Client, execution string) (id string, err error) {
	body, err := json.Marshal(map[string]any{
		"scope":  map[string]string{"executionId": execution},
		"reason": "benchmark",
	})
	if err != nil {
		return "", err
	}
	ans, err := c.Do(b.request("POST", "/v1/erasures", jsonType), body)
	if err != nil {
		return "", err
	}
	if ans.Status != http.StatusAccepted {
		return "", unexpected("erasure", ans)
	}
	var e struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(ans.Body, &e); err != nil {
		return "", fmt.Errorf("answer to an erasure: %w", err)
	}
	if e.ID == "" {
		return "", errors.New("answer to an erasure has no id")
	}
	return e.ID, nil
}

// awaitErased polls the erasure until it is done or deadline passed, which is
// no error: the state then says how far it came.
func (b *Blobd) awaitErased(ctx context.Context, c load.Client, id string, deadline time.Time) (state string, err error) {
	request := b.request("GET", "/v1/erasures/"+id, "")
	for {
		ans, err := c.Do(request, nil)
		if err != nil {
			return state, err
		}
		if ans.Status != http.StatusOK {
			return state, unexpected("erasure", ans)
		}
		var e struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal(ans.Body, &e); err != nil {
			return state, fmt.Errorf("state of an erasure: %w", err)
		}
		if state = e.State; state == "erased" || !time.Now().Before(deadline) {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-time.After(statePoll):
		}
	}
}
