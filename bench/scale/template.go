// Package scale fills a ledger with many blobs and measures the ledger's own
// methods there.
//
// One execution is made through those methods. Its rows are then copied under
// other tags, refs and subjects, so that a column that the schema gets later is
// filled as Commit fills it. Copies of many executions lie between each other,
// as those of agents that run at the same time do, and every index is kept while
// they are written: sizes and page reads are those of a ledger that grew.
package scale

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// The shape of what is stored. Each blob is a model call of its own: one
// capture of one part, with one subject, one attempt record and, as on a quiet
// service, one evidence entry.
const (
	BlobsPerExecution   = 100
	executionsPerPerson = 10
	blobSize            = 8 << 10
	sealedSize          = blobSize + 300
)

const (
	tenant      = "default"
	class       = "reasoning"
	contentType = "text/plain; charset=utf-8"
	wrapVersion = 1
	// wrappedKeySize is the size of an execution's keys as Vault wraps them: 124
	// bytes with their nonce and tag, in base64 behind "vault:v1:".
	wrappedKeySize = 177
	wrappedBlobKey = 60
)

// start is when the first execution began.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// hash returns the n-th of a family of hashes.
func hash(family string, n int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint32([]byte(family), uint32(n)))
}

// derive returns what the i-th copy has in place of bytes; the template is the
// 0-th and keeps its own.
func derive(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	h := sha256.Sum256(binary.BigEndian.AppendUint32(append([]byte(nil), b...), uint32(i)))
	return h[:min(len(b), len(h))]
}

// Tag is the tag of the i-th execution.
func Tag(i int) blobd.ExecutionTag {
	h := hash("tag", 0)
	return blobd.ExecutionTag(derive(h[:16], i))
}

// Ref is the n-th ref of the i-th execution.
func Ref(i, n int) blobd.Ref {
	h := hash("ref", n)
	return blobd.Ref(derive(h[:], i))
}

func repeat(i, n int) [32]byte {
	h := hash("repeat", n)
	return [32]byte(derive(h[:], i))
}

// executionID is the id of the i-th execution.
func executionID(i int) string { return fmt.Sprintf("0198c2f0-7d2a-7cc3-98c4-%012d", i) }

func bytesOf(family string, n, size int) []byte {
	var b []byte
	for len(b) < size {
		h := hash(fmt.Sprint(family, len(b)), n)
		b = append(b, h[:]...)
	}
	return b[:size]
}

func executionKey() ledger.WrappedKey {
	return ledger.WrappedKey{ID: [16]byte(bytesOf("key id", 0, 16)), Version: wrapVersion, Ciphertext: bytesOf("key", 0, wrappedKeySize)}
}

func scribe() evidence.Scribe {
	return evidence.Scribe{Tenant: tenant, NameKey: bytesOf("name key", 0, 32)}
}

// capture is the n-th model call of the i-th execution.
func capture(i, n int, at time.Time) (ledger.Capture, error) {
	ref, tag := Ref(i, n), Tag(i)
	entry, err := scribe().Put(at, tag, "token-of-the-runtime", []blobd.Ref{ref})
	person := hash("subject", 0)
	return ledger.Capture{
		Tenant: tenant, Tag: tag, ExecutionID: executionID(i), Key: executionKey(), At: at,
		Blobs: []ledger.NewBlob{{
			Ref: ref, Class: class, Kind: blobd.KindText, ContentType: contentType, Size: blobSize, SealedSize: sealedSize,
			Repeat: repeat(i, n), WrappedKey: bytesOf("blob key", n, wrappedBlobKey),
		}},
		Parts:    []ledger.Part{{Kind: blobd.KindText, Status: ledger.PartKept}},
		Subjects: [][32]byte{[32]byte(derive(person[:], i/executionsPerPerson))},
		Provider: "anthropic", Model: "a-model-with-a-date-20260101",
		StepID: fmt.Sprintf("turn:%d:model", n), Attempt: 1, Entry: entry,
	}, err
}

// makeTemplate makes the tenant and the first execution, and puts what that
// wrote of evidence into the log.
func makeTemplate(ctx context.Context, l ledger.Ledger) error {
	entry := func(kind ledger.EntryKind) ledger.Entry {
		return ledger.Entry{Tenant: tenant, Kind: kind, At: start(), Body: []byte(`{"act":"made"}`)}
	}
	err := l.CreateTenant(ctx, ledger.Tenant{
		ID: tenant, CreatedAt: start(), NameKey: bytesOf("name key", 0, 32), IndexKey: bytesOf("index key", 0, wrappedKeySize),
		IndexWrap: wrapVersion, MinimumWrap: wrapVersion,
	}, entry(ledger.EntryTenant))
	if err != nil {
		return err
	}
	for n := range BlobsPerExecution {
		c, err := capture(0, n, start().Add(time.Duration(n)*time.Second))
		if err != nil {
			return err
		}
		if _, err := l.Commit(ctx, c); err != nil {
			return err
		}
	}
	return sequence(ctx, l)
}

// sequence gives every entry its index.
func sequence(ctx context.Context, l ledger.Ledger) error {
	entries, err := l.Unsequenced(ctx, 0, 1000)
	if err != nil {
		return err
	}
	lease, err := l.ClaimSequencer(ctx, "scale", start(), start().Add(time.Minute))
	if err != nil {
		return err
	}
	a := ledger.LogAppend{Checkpoint: bytesOf("checkpoint", 0, 250)}
	for n, e := range entries {
		a.Entries = append(a.Entries, ledger.NewLogEntry{ID: e.ID, Hashes: make([][32]byte, completed(int64(n)))})
	}
	return l.AppendToLog(ctx, lease, a)
}

// completed is how many subtrees the entry with index n completes, its own leaf
// among them.
func completed(n int64) (trees int) {
	for trees = 1; n&1 == 1; n >>= 1 {
		trees++
	}
	return trees
}
