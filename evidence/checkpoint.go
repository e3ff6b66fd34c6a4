package evidence

import (
	"fmt"
	"math"
	"strings"

	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
)

// Checkpoint is a tree that the log signed.
type Checkpoint struct {
	Size int64
	Root tlog.Hash
	Note []byte // the signed note, as it is served
}

// ParseVerifier reads a verifier, "name+hash+base64", white space around it
// left out.
func ParseVerifier(text string) (note.Verifier, error) {
	v, err := note.NewVerifier(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("key: not a verifier of signed notes: %w", blobd.ErrInvalid)
	}
	return v, nil
}

// OpenCheckpoint reads a checkpoint that v's key signed for v's log, and spelled
// in the one way that it would be spelled anew. Anything else is ErrInvalid.
func OpenCheckpoint(signed []byte, v note.Verifier) (Checkpoint, error) {
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: the signature does not verify: %w", blobd.ErrInvalid)
	}
	var c formats.Checkpoint
	if _, err := c.Unmarshal([]byte(n.Text)); err != nil || string(c.Marshal()) != n.Text {
		return Checkpoint{}, fmt.Errorf("checkpoint: not the text of one: %w", blobd.ErrInvalid)
	}
	switch {
	case c.Origin != v.Name():
		return Checkpoint{}, fmt.Errorf("checkpoint: of another log: %w", blobd.ErrInvalid)
	case c.Size > math.MaxInt64/4 || len(c.Hash) != tlog.HashSize:
		return Checkpoint{}, fmt.Errorf("checkpoint: impossible size or hash: %w", blobd.ErrInvalid)
	}
	return Checkpoint{Size: int64(c.Size), Root: tlog.Hash(c.Hash), Note: signed}, nil
}
