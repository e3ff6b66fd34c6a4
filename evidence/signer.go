package evidence

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// LogKEK is the KEK that wraps the log's key. It is no tenant's: no tenant's id
// has a colon.
const LogKEK = "blobd:evidence"

// Origin names a deployment's log, in its checkpoints and as its key's name.
func Origin(deploymentID string) string { return "blobd/" + deploymentID }

// signer signs for the log. It is made for one use and wiped after it.
type signer struct {
	name string
	key  ed25519.PrivateKey
}

// newLogKey makes the log's key: a random secret, wrapped, and the verifier of
// the Ed25519 key that is derived from it.
func newLogKey(ctx context.Context, core *keys.Core, origin string) (*ledger.LogKey, error) {
	if err := core.Ring().Create(ctx, LogKEK); err != nil {
		return nil, fmt.Errorf("evidence: the log's KEK: %w", err)
	}
	secret, wrapped, err := core.NewIndex(ctx, LogKEK)
	if err != nil {
		return nil, fmt.Errorf("evidence: the log's key: %w", err)
	}
	s, err := signerOf(origin, secret)
	if err != nil {
		return nil, err
	}
	defer s.wipe()
	verifier, err := s.verifier()
	if err != nil {
		return nil, err
	}
	return &ledger.LogKey{Version: uint32(wrapped.Version), Ciphertext: wrapped.Ciphertext, Verifier: verifier}, nil
}

// openSigner unwraps the log's key. A key that is not the one that the ledger
// tells of is ErrCorrupt.
func openSigner(ctx context.Context, core *keys.Core, origin string, k ledger.LogKey) (*signer, error) {
	secret, err := core.Index(ctx, LogKEK, keys.Wrapped{Version: keys.Version(k.Version), Ciphertext: k.Ciphertext})
	if err != nil {
		return nil, fmt.Errorf("evidence: the log's key: %w", err)
	}
	s, err := signerOf(origin, secret)
	if err != nil {
		return nil, err
	}
	if verifier, err := s.verifier(); err != nil || verifier != k.Verifier {
		s.wipe()
		return nil, fmt.Errorf("evidence: the log's key is another one: %w", blobd.ErrCorrupt)
	}
	return s, nil
}

// signerOf derives the signing key, and wipes what it is derived from.
func signerOf(origin string, secret *blobd.Key) (*signer, error) {
	defer secret.Wipe()
	seed, err := hkdf.Key(sha256.New, secret.Bytes(), nil, "blobd/v1/evidence-signing-key", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("evidence: derive the log's key: %w", err)
	}
	defer clear(seed)
	return &signer{origin, ed25519.NewKeyFromSeed(seed)}, nil
}

func (s *signer) wipe() { clear(s.key) }

// verifier is the public half as "name+hash+base64", the form of signed notes.
func (s *signer) verifier() (string, error) {
	public, _ := s.key.Public().(ed25519.PublicKey)
	v, err := note.NewEd25519VerifierKey(s.name, public)
	if err != nil {
		return "", fmt.Errorf("evidence: verifier: %w", err)
	}
	return v, nil
}

// noteSigner is the signer as package note takes it.
type noteSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

// Sign implements note.Signer.
func (s noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), nil }

// checkpoint signs a tree.
func (s *signer) checkpoint(size int64, root tlog.Hash) ([]byte, error) {
	text, err := s.verifier()
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("evidence: verifier: %w", err)
	}
	body := formats.Checkpoint{Origin: s.name, Size: uint64(size), Hash: root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(body)}, noteSigner{v, s.key})
	if err != nil {
		return nil, fmt.Errorf("evidence: sign: %w", err)
	}
	return signed, nil
}
