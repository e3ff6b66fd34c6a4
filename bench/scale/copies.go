package scale

import (
	"encoding/binary"
	"slices"
)

// groupSize is how many executions run at the same time: their rows lie between
// each other.
const groupSize = 1000

// change makes a copy's value out of the template's, for the i-th execution and
// the g-th row of its table that is copied.
type change func(v any, i int, g int64) any

// table says how the template's rows in one table are copied. A column without
// a change is as in the template.
type table struct {
	name    string
	rows    string // the template's rows in their order: SELECT … FROM <name> <rows>
	changes map[string]change
	omit    []string // columns that the engine fills
}

// fixedBytes is for tags, refs and what else is unique to a row.
func fixedBytes(v any, i int, _ int64) any {
	if b, ok := v.([]byte); ok {
		return derive(b, i)
	}
	return v // NULL
}

func person(v any, i int, _ int64) any { return derive(v.([]byte), i/executionsPerPerson) }

func id(_ any, i int, _ int64) any { return executionID(i) }

// later moves a time: one execution begins each second.
func later(v any, i int, _ int64) any { return v.(int64) + int64(i)*1e6 }

// numbered numbers rows on from a number that is in use.
func numbered(last int64) change {
	return func(_ any, _ int, g int64) any { return last + 1 + g }
}

// trees is the column hashes of an index of the log, on from the size that the
// log has.
func trees(size int64) change {
	return func(_ any, _ int, g int64) any { return make([]byte, 32*completed(size+g)) }
}

// group is a range of executions that run at the same time.
type group struct{ from, to int }

// groups divides the copies up to the execution to, which is not among them.
func groups(to int) (gs []group) {
	for from := 1; from < to; from += groupSize {
		gs = append(gs, group{from, min(from+groupSize, to)})
	}
	return gs
}

// each calls put once for each copy of a group, ordered by the template's rows
// and then by execution. The values are only valid during the call.
func (t *table) each(columns []string, template [][]any, gr group, put func([]any) error) error {
	changes := make([]change, len(columns))
	for c, name := range columns {
		changes[c] = t.changes[name]
	}
	g := int64(len(template)) * int64(gr.from-1)
	values := make([]any, len(columns))
	for _, row := range template {
		for i := gr.from; i < gr.to; i++ {
			for c := range columns {
				if values[c] = row[c]; changes[c] != nil {
					values[c] = changes[c](row[c], i, g)
				}
			}
			if err := put(values); err != nil {
				return err
			}
			g++
		}
	}
	return nil
}

// without drops the columns that the engine fills, from names and rows.
func (t *table) without(columns []string, rows [][]any) ([]string, [][]any) {
	for _, name := range t.omit {
		c := slices.Index(columns, name)
		if c < 0 {
			continue
		}
		columns = slices.Delete(columns, c, c+1)
		for r := range rows {
			rows[r] = slices.Delete(rows[r], c, c+1)
		}
	}
	return columns, rows
}

// entryBody names another execution in an evidence entry's body of the same
// length. What it says is not read again.
func entryBody(v any, i int, _ int64) any {
	b := slices.Clone(v.([]byte))
	const at = len(`{"puts":[{"execution":"`)
	const digits = "0123456789abcdef"
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(i))
	for k, x := range n {
		b[at+2*k], b[at+2*k+1] = digits[x>>4], digits[x&15]
	}
	return b
}
