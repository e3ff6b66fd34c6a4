package load

import (
	"encoding/binary"
	"math/rand/v2"
)

// BodySize is the size in bytes of every body that a put sends.
const BodySize = 8 << 10

// Bodies makes bodies that were never seen before, from one client's own seed.
// They are plain ASCII, so a text body is valid UTF-8 and needs no JSON escape.
type Bodies struct {
	rng *rand.ChaCha8
}

// NewBodies returns the sequence of bodies that seed and client stand for.
func NewBodies(seed uint64, client int) *Bodies {
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	binary.LittleEndian.PutUint64(s[8:], uint64(client))
	return &Bodies{rng: rand.NewChaCha8(s)}
}

// Fill overwrites b, whose length is a multiple of 8, with the next body.
func (g *Bodies) Fill(b []byte) {
	const low, letters = 0x0f0f0f0f0f0f0f0f, 0x6060606060606060
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, g.rng.Uint64()&low|letters)
	}
}
