package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// An execution's life as its callers may see it: a blob is unknown, then live,
// then erased for good, by itself or with its execution.

type kind int

const (
	isPut kind = iota
	isResolve
	isEraseBlob
	isEraseExecution
)

func (k kind) String() string {
	return [...]string{"put", "resolve", "erase the blob", "erase the execution"}[k]
}

// input is what was asked: of an execution, or of one of its blobs.
type input struct {
	kind kind
	blob int
}

// life is the state of one execution.
type life struct {
	live, erased uint8 // sets of blobs
	gone         bool  // the execution was erased
}

func (l life) isLive(blob int) bool { return !l.gone && l.live&(1<<blob) != 0 }
func (l life) isErased(blob int) bool {
	return l.gone || l.erased&(1<<blob) != 0
}

// step makes the move that a question asks for, and reports whether the answer
// fits. An answer that nobody got fits everything: what it asked for happened at
// some later time, or at the end of time, which nobody sees.
func (l life) step(in input, out verdict) (bool, life) {
	bit := uint8(1) << in.blob
	switch in.kind {
	case isResolve:
		return out == unknown || (out == done) == l.isLive(in.blob), l
	case isPut:
		if l.isErased(in.blob) {
			return out != done, l
		}
		l.live |= bit
		return out != refused, l
	case isEraseBlob:
		if l.live&bit != 0 { // a ref without a blob is nothing to erase
			l.live, l.erased = l.live&^bit, l.erased|bit
		}
		return true, l
	default:
		return true, life{gone: true}
	}
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return life{} },
		Step: func(state, in, out any) (bool, any) {
			ok, next := state.(life).step(in.(input), out.(verdict))
			return ok, next
		},
	}
}

// checkTime bounds the search for an order of one execution's operations.
const checkTime = 20 * time.Second

func check(ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(), ops, checkTime)
}

func describe(op porcupine.Operation) string {
	in := op.Input.(input)
	end := "…"
	if op.Return != never {
		end = time.Duration(op.Return).String()
	}
	return fmt.Sprintf("client %2d: %v – %s: %v %d: %v", op.ClientId, time.Duration(op.Call), end, in.kind, in.blob, op.Output)
}

// TestTheModel: histories that break the promise are found, others are not. One
// line is one operation of a client of its own: when it began and ended.
func TestTheModel(t *testing.T) {
	type op struct {
		from, to int64
		kind     kind
		out      verdict
	}
	for _, c := range []struct {
		name string
		want porcupine.CheckResult
		ops  []op
	}{
		{"a life", porcupine.Ok, []op{
			{1, 2, isPut, done}, {3, 4, isResolve, done}, {5, 6, isEraseExecution, done}, {7, 8, isResolve, nothing}, {9, 10, isPut, refused},
		}},
		{"a read during the erasure may go either way", porcupine.Ok, []op{
			{1, 2, isPut, done}, {3, 9, isEraseExecution, done}, {4, 8, isResolve, done}, {5, 10, isResolve, nothing},
		}},
		{"bytes after an erasure was answered", porcupine.Illegal, []op{
			{1, 2, isPut, done}, {3, 4, isEraseExecution, done}, {5, 6, isResolve, done},
		}},
		{"bytes after a null", porcupine.Illegal, []op{
			{1, 2, isPut, done}, {3, 10, isEraseBlob, done}, {4, 5, isResolve, nothing}, {6, 7, isResolve, done},
		}},
		{"a null of what was acknowledged", porcupine.Illegal, []op{{1, 2, isPut, done}, {3, 4, isResolve, nothing}}},
		{"a put after an erasure", porcupine.Illegal, []op{{1, 2, isEraseExecution, done}, {3, 4, isPut, done}}},
		{"a refused put without an erasure", porcupine.Illegal, []op{{1, 2, isPut, refused}}},
		{"a put without an answer may land late", porcupine.Ok, []op{
			{1, never, isPut, unknown}, {2, 3, isResolve, nothing}, {4, 5, isResolve, done},
		}},
		{"and may never land", porcupine.Ok, []op{{1, never, isPut, unknown}, {2, 3, isResolve, nothing}}},
		{"but does not go again", porcupine.Illegal, []op{
			{1, never, isPut, unknown}, {2, 3, isResolve, done}, {4, 5, isResolve, nothing},
		}},
		{"an erasure without an answer is not undone", porcupine.Illegal, []op{
			{1, 2, isPut, done}, {3, never, isEraseBlob, unknown}, {4, 5, isResolve, nothing}, {6, 7, isResolve, done},
		}},
	} {
		var ops []porcupine.Operation
		for i, o := range c.ops {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: input{kind: o.kind}, Output: o.out, Call: o.from, Return: o.to})
		}
		if got := check(ops); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
