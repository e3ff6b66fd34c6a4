package api

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/blobd/blobd/api/wire"
)

// maxLog bounds the events, parts and recorded attempts of one audit read, all
// together.
const maxLog = 100_000

// A list of the smallest items takes many times its bytes in memory, so lists are
// held to the contract while they are decoded and not after.

// listLimits are for every body but an audit read's.
func listLimits() *json.Unmarshalers {
	return json.JoinUnmarshalers(
		listOf[wire.ResolvePart](atMost(wire.MaxParts)),
		listOf[wire.Reasoning](atMost(wire.MaxParts)),
		listOf[wire.Principal](atMost(wire.MaxPeople)),
		listOf[string](atMost(wire.MaxEraseRefs)), // the longest list of strings
	)
}

// logLimits are for one audit read.
func logLimits() *json.Unmarshalers {
	left := maxLog
	inAll := func() (more func() bool) { return func() bool { left--; return left >= 0 } }
	return json.JoinUnmarshalers(
		listOf[wire.CapturedEvent](inAll), listOf[wire.EventPart](inAll), recordedOf(inAll),
	)
}

// atMost admits n items of each list.
func atMost(n int) func() (more func() bool) {
	return func() func() bool {
		left := n
		return func() bool { left--; return left >= 0 }
	}
}

func errTooLong() error { return refuse(wire.CodeTooLarge, "a list has too many items") }

// listOf decodes lists of T item by item. For each list, begin gives what is
// asked before an item is read: false is too many.
func listOf[T any](begin func() (more func() bool)) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, list *[]T) error {
		items := []T{}
		return eachItem(d, '[', begin(), func() error {
			var item T
			if err := json.UnmarshalDecode(d, &item); err != nil {
				return err
			}
			items = append(items, item)
			return nil
		}, func() { *list = items })
	})
}

// recordedOf decodes the attempts that count, per step.
func recordedOf(begin func() (more func() bool)) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, recorded *map[string]int64) error {
		attempts := make(map[string]int64)
		return eachItem(d, '{', begin(), func() error {
			step, err := d.ReadToken()
			if err != nil {
				return err
			}
			name := step.String() // before the next token is read
			var attempt int64
			if err := json.UnmarshalDecode(d, &attempt); err != nil {
				return err
			}
			attempts[name] = attempt
			return nil
		}, func() { *recorded = attempts })
	})
}

// eachItem reads an array or an object item by item. Another kind of value is
// left to the decoder: it is null, or an error of the type.
func eachItem(d *jsontext.Decoder, opens jsontext.Kind, more func() bool, item func() error, done func()) error {
	if d.PeekKind() != opens {
		return errors.ErrUnsupported
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != opens+2 { // ']' and '}' are two after what opens them
		if !more() {
			return errTooLong()
		}
		if err := item(); err != nil {
			return err
		}
	}
	done()
	_, err := d.ReadToken()
	return err
}
