package webhooks

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// secretPrefix is that of Standard Webhooks; scanners for leaked secrets know it.
const secretPrefix = "whsec_"

// secretSize is the size of a secret, in bytes before base64.
const secretSize = 32

// sealer makes, seals and opens the secrets of webhooks. They are sealed under a
// key derived from the tenant's index key, which the KEK wraps and every key epoch
// wraps anew: so they outlive epochs and end with the tenant.
type sealer struct {
	tenants ledger.Tenants
	keys    *keys.Core
	random  io.Reader
}

// make returns a new secret, and the same sealed for a webhook.
func (s sealer) make(ctx context.Context, tenant, webhook string) (secret string, sealed []byte, err error) {
	b := make([]byte, secretSize)
	defer clear(b)
	if _, err := io.ReadFull(s.random, b); err != nil {
		return "", nil, fmt.Errorf("a webhook's secret: %w", err)
	}
	a, err := s.cipher(ctx, tenant)
	if err != nil {
		return "", nil, err
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(b), a.Seal(nil, nil, b, bound(tenant, webhook)), nil
}

// open returns the bytes of a sealed secret; the caller wipes them. It is
// ErrTenantErased for ever once the tenant was off-boarded.
func (s sealer) open(ctx context.Context, w *ledger.Webhook, sealed []byte) ([]byte, error) {
	a, err := s.cipher(ctx, w.Tenant)
	if err != nil {
		return nil, err
	}
	b, err := a.Open(nil, nil, sealed, bound(w.Tenant, w.ID))
	if err != nil {
		return nil, fmt.Errorf("a webhook's secret: %w", blobd.ErrCorrupt)
	}
	return b, nil
}

// bound is the associated data: a secret is its webhook's alone. No id has a NUL.
func bound(tenant, webhook string) []byte { return []byte(tenant + "\x00" + webhook) }

func (s sealer) cipher(ctx context.Context, tenant string) (cipher.AEAD, error) {
	index, err := s.indexKey(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("a webhook's secret: %w", err)
	}
	defer index.Wipe()
	key, err := hkdf.Key(sha256.New, index.Bytes(), nil, "blobd/v1/webhook-secrets", blobd.KeySize)
	if err != nil {
		return nil, fmt.Errorf("a webhook's secret: %w", err)
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("a webhook's secret: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// indexKey returns a copy of the tenant's index key. An epoch may wrap it anew, and
// trim what wrapped it before, between the two questions here: then both are asked
// again.
func (s sealer) indexKey(ctx context.Context, tenant string) (*blobd.Key, error) {
	var before uint32
	for again := false; ; again = true {
		t, err := s.tenants.Tenant(ctx, tenant)
		if err != nil {
			return nil, err
		}
		if t.Fenced() {
			return nil, blobd.ErrTenantErased
		}
		index, err := s.keys.Index(ctx, tenant, keys.Wrapped{Version: keys.Version(t.IndexWrap), Ciphertext: t.IndexKey})
		if !errors.Is(err, blobd.ErrKeyMissing) || again && t.IndexWrap == before {
			return index, err
		}
		before = t.IndexWrap
	}
}
