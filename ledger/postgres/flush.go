package postgres

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/blobd/blobd/ledger"
)

// queue leaves the batch's changes for the round trip of COMMIT: one statement
// per table, whatever the number of captures. What another transaction inserted
// meanwhile is refused by a constraint, and the batch is done again.
func (b *batch) queue(x *tx) {
	b.queueExecutions(x)
	b.queueClasses(x)
	b.queueRows(x)
	b.queueParts(x)
	b.queueSubjects(x)
	entries := ledger.JoinPuts(b.entries)
	x.append(entries...)
	b.counts.entries = int64(len(entries))
	x.move(b.counts)
}

// columns gathers the arguments of a statement over unnest.
type columns struct {
	bytes [3][][]byte
	texts [2][]string
	ints  [4][]int64
}

func (b *batch) queueExecutions(x *tx) {
	slices.SortFunc(b.changed, func(a, c *execution) int { return bytes.Compare(a.tag[:], c.tag[:]) })
	var made, grown columns
	for _, e := range b.changed {
		if !e.isNew {
			if e.blobs != 0 || e.bytes != 0 {
				grown.bytes[0] = append(grown.bytes[0], e.tag[:])
				grown.ints[0], grown.ints[1] = append(grown.ints[0], e.blobs), append(grown.ints[1], e.bytes)
			}
			continue
		}
		made.bytes[0] = append(made.bytes[0], e.tag[:])
		made.bytes[1] = append(made.bytes[1], e.key.ID[:])
		made.bytes[2] = append(made.bytes[2], notNull(e.key.Ciphertext))
		made.texts[0], made.texts[1] = append(made.texts[0], e.tenant), append(made.texts[1], e.id)
		made.ints[0] = append(made.ints[0], e.createdAt.UnixMicro())
		made.ints[1], made.ints[2] = append(made.ints[1], e.blobs), append(made.ints[2], e.bytes)
		made.ints[3] = append(made.ints[3], int64(e.key.Version))
	}
	if len(made.bytes[0]) > 0 {
		x.exec(`INSERT INTO executions (tag, tenant, id, state, reason, created_at, blobs, bytes)
			SELECT e.tag, e.tenant, e.id, 1, 0, e.at, e.blobs, e.bytes
			FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) e (tag, tenant, id, at, blobs, bytes)`,
			made.bytes[0], made.texts[0], made.texts[1], made.ints[0], made.ints[1], made.ints[2])
		x.exec(`INSERT INTO execution_keys (tag, tenant, id, version, wrapped)
			SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bigint[], $5::bytea[])`,
			made.bytes[0], made.texts[0], made.bytes[1], made.ints[3], made.bytes[2])
	}
	if len(grown.bytes[0]) > 0 {
		x.exec(`UPDATE executions e SET blobs = e.blobs + g.blobs, bytes = e.bytes + g.bytes
			FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) g (tag, blobs, bytes) WHERE e.tag = g.tag`,
			grown.bytes[0], grown.ints[0], grown.ints[1])
	}
}

func (b *batch) queueRows(x *tx) {
	var old columns
	for _, r := range b.expired {
		old.bytes[0], old.bytes[1] = append(old.bytes[0], r.tag[:]), append(old.bytes[1], r.Ref[:])
	}
	if len(old.bytes[0]) > 0 { // before the rows that take their repeat tags
		x.exec(`UPDATE blobs b SET state = 6, repeat = NULL FROM unnest($1::bytea[], $2::bytea[]) o (tag, ref)
			WHERE b.execution_tag = o.tag AND b.ref = o.ref`, old.bytes[0], old.bytes[1])
	}
	if len(b.rows) == 0 {
		return
	}
	slices.SortFunc(b.rows, func(a, c *row) int {
		return cmp.Or(bytes.Compare(a.tag[:], c.tag[:]), bytes.Compare(a.Ref[:], c.Ref[:]))
	})
	var tags, refs, repeats, keys, audiences [][]byte
	var kinds, classes, types, steps, tenants []string
	var states, sizes, sealed, times []int64
	for _, r := range b.rows {
		tags, refs, keys = append(tags, r.tag[:]), append(refs, r.Ref[:]), append(keys, r.WrappedKey)
		repeats = append(repeats, repeatOrNull(&r.Blob))
		audiences = append(audiences, joined(r.Audience))
		kinds, classes = append(kinds, string(r.Kind)), append(classes, r.Class)
		tenants = append(tenants, b.executions[r.tag].tenant)
		types, steps = append(types, r.ContentType), append(steps, r.StepID)
		states, times = append(states, int64(r.State)), append(times, r.CreatedAt.UnixMicro())
		sizes, sealed = append(sizes, r.Size), append(sealed, r.SealedSize)
	}
	x.exec(`INSERT INTO blobs (execution_tag, ref, state, class, kind, content_type, size, sealed_size,
			step_id, created_at, repeat, wrapped, audience, class_n)
		SELECT u.tag, u.ref, u.state, u.class, u.kind, u.type, u.size, u.sealed, u.step, u.at, u.repeat, u.wrapped, u.audience, k.n FROM unnest($1::bytea[], $2::bytea[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
			$9::text[], $10::bigint[], $11::bytea[], $12::bytea[], $13::bytea[], $14::text[])
			u (tag, ref, state, class, kind, type, size, sealed, step, at, repeat, wrapped, audience, tenant)
		JOIN classes k ON k.tenant = u.tenant AND k.name = u.class`,
		tags, refs, states, classes, kinds, types, sizes, sealed, steps, times, repeats, keys, audiences, tenants)
}

// repeatOrNull is the stored form of a row's repeat tag, of which a superseded
// one has none.
func repeatOrNull(b *ledger.Blob) []byte {
	if b.State == ledger.BlobSuperseded {
		return nil
	}
	return b.Repeat[:]
}

func (b *batch) queueParts(x *tx) {
	var tags, refs [][]byte
	var steps, kinds, providers, models []string
	var attempts, indexes, statuses, times []int64
	for _, p := range b.parts {
		c := p.capture
		ref := []byte{}
		if p.Status == ledger.PartKept {
			ref = append(ref, p.Ref[:]...)
		}
		tags, refs = append(tags, c.Tag[:]), append(refs, ref)
		steps, kinds = append(steps, c.StepID), append(kinds, string(p.Kind))
		providers, models = append(providers, c.Provider), append(models, c.Model)
		attempts, indexes = append(attempts, c.Attempt), append(indexes, int64(p.Index))
		statuses, times = append(statuses, int64(p.Status)), append(times, c.At.UnixMicro())
	}
	x.exec(`INSERT INTO parts (execution_tag, step_id, attempt, part_index, ref, kind, status, provider, model, at)
		SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::integer[], $5::bytea[], $6::text[], $7::smallint[],
			$8::text[], $9::text[], $10::bigint[]) ON CONFLICT DO NOTHING`,
		tags, steps, attempts, indexes, refs, kinds, statuses, providers, models, times)
}

func (b *batch) queueSubjects(x *tx) {
	if len(b.subjects) == 0 {
		return
	}
	var tags, refs, subjects [][]byte
	for i := range b.subjects {
		s := &b.subjects[i]
		tags, refs, subjects = append(tags, s.tag[:]), append(refs, s.ref[:]), append(subjects, s.subject[:])
	}
	x.exec(`INSERT INTO subjects (execution_tag, ref, subject)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) ON CONFLICT DO NOTHING`, tags, refs, subjects)
}
