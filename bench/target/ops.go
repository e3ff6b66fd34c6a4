package target

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/blobd/blobd/bench/load"
)

// BatchParts is the number of parts in one batch resolve.
const BatchParts = 64

// PerClient is the number of blobs that each client reads in turn.
const PerClient = BatchParts

// stored is one stored body and the request that returns it.
type stored struct {
	request *load.Request
	body    []byte
}

// putOp sends a new body with the same request each time.
func putOp(seed uint64, client int, request *load.Request) load.Op {
	return putEachOp(seed, client, func(int) (*load.Request, error) { return request, nil })
}

// putEachOp sends a new body with the request of its turn each time.
func putEachOp(seed uint64, client int, request func(turn int) (*load.Request, error)) load.Op {
	bodies, body, turn := load.NewBodies(seed, client), make([]byte, load.BodySize), 0
	return func(c load.Client) (time.Duration, error) {
		bodies.Fill(body)
		turn++
		r, err := request(turn)
		if err != nil {
			return 0, err
		}
		ans, err := c.Do(r, body)
		if err != nil {
			return 0, err
		}
		// A new body is 201 from blobd and from the floor; S3 says 200.
		if ans.Status != http.StatusCreated && ans.Status != http.StatusOK {
			return 0, unexpected("put", ans)
		}
		return ans.Took, nil
	}
}

// getOp reads what is stored, one after the other, and compares every byte.
func getOp(all []stored) load.Op {
	turn := 0
	return func(c load.Client) (time.Duration, error) {
		want := all[turn%len(all)]
		turn++
		ans, err := c.Do(want.request, nil)
		if err != nil {
			return 0, err
		}
		if ans.Status != http.StatusOK {
			return 0, unexpected("get", ans)
		}
		if !bytes.Equal(ans.Body, want.body) {
			return 0, fmt.Errorf("get: %d bytes that differ from the %d stored ones", len(ans.Body), len(want.body))
		}
		return ans.Took, nil
	}
}

// batchOp asks for BatchParts bodies; mark must be part of a complete answer.
func batchOp(request *load.Request, body, mark []byte) load.Op {
	return func(c load.Client) (time.Duration, error) {
		ans, err := c.Do(request, body)
		if err != nil {
			return 0, err
		}
		if ans.Status != http.StatusOK {
			return 0, unexpected("batch", ans)
		}
		if len(ans.Body) < BatchParts*load.BodySize || !bytes.Contains(ans.Body, mark) {
			return 0, fmt.Errorf("batch: the answer of %d bytes is not complete", len(ans.Body))
		}
		return ans.Took, nil
	}
}

// unexpected quotes the start of an answer: a problem document or an S3 error,
// since an answer that holds a body is never unexpected.
func unexpected(what string, ans load.Answer) error {
	return fmt.Errorf("%s: status %d: %.300s", what, ans.Status, ans.Body)
}
