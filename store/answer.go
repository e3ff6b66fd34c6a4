package store

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"github.com/blobd/blobd"
)

// SealAnswer seals an answer that is remembered under an idempotency key: a
// token is shown once, and kept nowhere that a reader of the ledger can open.
func SealAnswer(k *blobd.Key, answer []byte) ([]byte, error) {
	a, err := answerCipher(k)
	if err != nil {
		return nil, err
	}
	return a.Seal(nil, nil, answer, nil), nil
}

// OpenAnswer opens what SealAnswer made, or is ErrCorrupt.
func OpenAnswer(k *blobd.Key, sealed []byte) ([]byte, error) {
	a, err := answerCipher(k)
	if err != nil {
		return nil, err
	}
	answer, err := a.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, fmt.Errorf("remembered answer: %w", blobd.ErrCorrupt)
	}
	return answer, nil
}

func answerCipher(k *blobd.Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.Bytes())
	if err != nil {
		return nil, fmt.Errorf("remembered answer: %w", err)
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("remembered answer: %w", err)
	}
	return a, nil
}
