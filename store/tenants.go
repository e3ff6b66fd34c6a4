package store

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/ledger"
)

// CreateTenant makes a tenant: its KEK, its index key and its row. The row is
// committed last, so a crash leaves an unused KEK and no half tenant. An id in
// use is ErrConflict, and so is one that a rolled-back ledger forgot while the
// store still has its objects: a new row would make them all null. Ids follow
// the rule of classes.
func (s *Store) CreateTenant(ctx context.Context, id, actor string) (ledger.Tenant, error) {
	if err := blobd.CheckClass(id); err != nil {
		return ledger.Tenant{}, fmt.Errorf("create a tenant: id: %w", err)
	}
	switch _, err := s.Ledger.Tenant(ctx, id); {
	case err == nil:
		return ledger.Tenant{}, fmt.Errorf("create a tenant: the id is in use: %w", blobd.ErrConflict)
	case !errors.Is(err, blobd.ErrNotFound):
		return ledger.Tenant{}, fmt.Errorf("create a tenant: %w", err)
	}
	t, err := s.newTenant(ctx, id, actor)
	if err != nil {
		return ledger.Tenant{}, fmt.Errorf("create a tenant: %w", err)
	}
	return t, nil
}

func (s *Store) newTenant(ctx context.Context, id, actor string) (ledger.Tenant, error) {
	if err := s.neverHeld(ctx, id); err != nil {
		return ledger.Tenant{}, err
	}
	err := s.Keys.Ring().Create(ctx, id)
	if errors.Is(err, blobd.ErrErased) { // off-boarded, and no row tells of it any more
		err = fmt.Errorf("%w: %w", blobd.ErrTenantErased, err)
	}
	if err != nil {
		return ledger.Tenant{}, err
	}
	index, wrapped, err := s.Keys.NewIndex(ctx, id)
	if err != nil {
		return ledger.Tenant{}, err
	}
	index.Wipe()
	nameKey := make([]byte, blobd.KeySize)
	if _, err := io.ReadFull(s.Random, nameKey); err != nil {
		return ledger.Tenant{}, err
	}
	t := ledger.Tenant{
		ID: id, CreatedAt: s.Now().UTC().Truncate(time.Microsecond), NameKey: nameKey,
		IndexKey: wrapped.Ciphertext, IndexWrap: uint32(wrapped.Version), MinimumWrap: uint32(wrapped.Version),
	}
	entry, err := s.scribe(t).Act(t.CreatedAt, ledger.EntryTenant, "created", actor, id)
	if err != nil {
		return ledger.Tenant{}, err
	}
	return t, s.Ledger.CreateTenant(ctx, t, entry)
}

// neverHeld refuses a tenant that has a KEK and no row, unless that is what a
// crash in newTenant leaves.
func (s *Store) neverHeld(ctx context.Context, id string) error {
	have, err := s.Keys.Ring().Tenants(ctx)
	if err != nil || !slices.Contains(have, id) {
		return err
	}
	forgotten, err := s.forgottenTenants(ctx)
	if err != nil {
		return err
	}
	if forgotten {
		return fmt.Errorf("the store holds objects of a tenant that the ledger forgot: %w", blobd.ErrConflict)
	}
	return nil
}

// indexKey returns a copy of the tenant's index key; wipe it. An epoch, maybe of
// another node, may have wrapped it anew since the row was read, and trimmed what
// wrapped it before: then the ledger says how it is wrapped now.
func (s *Store) indexKey(ctx context.Context, t ledger.Tenant) (*blobd.Key, error) {
	if t.Fenced() {
		return nil, blobd.ErrTenantErased
	}
	index, err := s.Keys.Index(ctx, t.ID, wrappedIndex(t))
	if !errors.Is(err, blobd.ErrKeyMissing) {
		return index, err
	}
	s.forgetTenant(t.ID)
	now, readErr := s.Tenant(ctx, t.ID)
	switch {
	case readErr != nil:
		return nil, readErr
	case now.Fenced():
		return nil, blobd.ErrTenantErased
	case now.IndexWrap == t.IndexWrap:
		return nil, err
	}
	return s.Keys.Index(ctx, t.ID, wrappedIndex(now))
}

func wrappedIndex(t ledger.Tenant) keys.Wrapped {
	return keys.Wrapped{Version: keys.Version(t.IndexWrap), Ciphertext: t.IndexKey}
}

// forgetTenant has the tenant's row read again at its next use.
func (s *Store) forgetTenant(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tenants, id)
}

// NewToken asks for a token.
type NewToken struct {
	Tenant    string
	Name      string
	Roles     []string
	ExpiresAt time.Time // zero: none
	Actor     string    // id of the token that asks; "" for blobd itself
}

// tokenPrefix lets scanners for leaked secrets recognise a token.
const tokenPrefix = "blobd_"

// CreateToken makes a token of 256 random bits and returns it once; the ledger
// keeps its SHA-256.
func (s *Store) CreateToken(ctx context.Context, n NewToken) (string, ledger.Token, error) {
	secret, row, err := s.DraftToken(ctx, n)
	if err != nil {
		return "", ledger.Token{}, err
	}
	return secret, row, s.AddToken(ctx, row, n.Actor)
}

// DraftToken makes a token without adding it: for a caller that must write the
// token down before its hash is committed. AddToken adds it.
func (s *Store) DraftToken(ctx context.Context, n NewToken) (string, ledger.Token, error) {
	if err := s.living(ctx, n.Tenant); err != nil {
		return "", ledger.Token{}, fmt.Errorf("create a token: %w", err)
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return "", ledger.Token{}, fmt.Errorf("create a token: %w", err)
	}
	secret := make([]byte, 32)
	if _, err := io.ReadFull(s.Random, secret); err != nil {
		return "", ledger.Token{}, fmt.Errorf("create a token: %w", err)
	}
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	roles := slices.Clone(n.Roles)
	slices.Sort(roles)
	return token, ledger.Token{
		ID: id.String(), Tenant: n.Tenant, Name: n.Name, Hash: HashToken(token), Roles: slices.Compact(roles),
		CreatedAt: s.Now().UTC().Truncate(time.Microsecond), ExpiresAt: n.ExpiresAt,
	}, nil
}

// AddToken commits a drafted token.
func (s *Store) AddToken(ctx context.Context, row ledger.Token, actor string) error {
	t, err := s.Tenant(ctx, row.Tenant)
	if err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	entry, err := s.scribe(t).Act(row.CreatedAt, ledger.EntryToken, "created", actor, row.ID)
	if err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	if err := s.Ledger.CreateToken(ctx, row, entry); err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	return nil
}

// RevokeToken revokes a token of the tenant, journalled before it returns.
func (s *Store) RevokeToken(ctx context.Context, tenant, id, actor string) error {
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	now := s.Now().UTC()
	entry, err := s.scribe(t).Act(now, ledger.EntryToken, "revoked", actor, id)
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	record, err := s.Ledger.RevokeToken(ctx, tenant, id, now, entry)
	if err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	if err := s.publish(ctx, record); err != nil {
		return fmt.Errorf("revoke a token: %w", err)
	}
	return nil
}

// HashToken is how the ledger knows a token. A plain hash is enough: a token is
// 256 random bits, beyond guessing.
func HashToken(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// RequestKeys turns a caller's idempotency key and body into what the ledger
// remembers of them: keyed hashes. The key that it returns seals the remembered
// answer; it is derived from the caller's key, which is kept nowhere, so only
// who presents that key again can have the answer. Wipe it.
func (s *Store) RequestKeys(ctx context.Context, tenant, route, key string, body []byte) (ledger.Request, *blobd.Key, error) {
	t, err := s.Tenant(ctx, tenant)
	if err != nil {
		return ledger.Request{}, nil, err
	}
	index, err := s.indexKey(ctx, t)
	if errors.Is(err, blobd.ErrTenantErased) {
		return s.LastingRequestKeys(ctx, tenant, route, key, body)
	}
	if err != nil {
		return ledger.Request{}, nil, err
	}
	return s.requestKeys(index, tenant, route, key, body)
}

// LastingRequestKeys is RequestKeys for a request that outlives the tenant's index
// key: its off-boarding, and what is asked of an off-boarded tenant. They are
// derived from the name key.
func (s *Store) LastingRequestKeys(ctx context.Context, tenant, route, key string, body []byte) (ledger.Request, *blobd.Key, error) {
	t, err := s.Tenant(ctx, tenant)
	if err == nil && len(t.NameKey) == 0 {
		err = blobd.ErrTenantErased
	}
	if err != nil {
		return ledger.Request{}, nil, err
	}
	derived, err := hkdf.Key(sha256.New, t.NameKey, nil, "blobd/v1/lasting-requests", blobd.KeySize)
	if err != nil {
		return ledger.Request{}, nil, fmt.Errorf("idempotency: %w", err)
	}
	defer clear(derived)
	lasting, err := blobd.KeyFrom(derived)
	if err != nil {
		return ledger.Request{}, nil, err
	}
	return s.requestKeys(lasting, tenant, route, key, body)
}

// requestKeys wipes the key that it derives from.
func (s *Store) requestKeys(from *blobd.Key, tenant, route, key string, body []byte) (ledger.Request, *blobd.Key, error) {
	defer from.Wipe()
	answerKey, err := hkdf.Key(sha256.New, from.Bytes(), []byte(key), "blobd/v1/answer\x00"+route, blobd.KeySize)
	if err != nil {
		return ledger.Request{}, nil, fmt.Errorf("idempotency: %w", err)
	}
	defer clear(answerKey)
	k, err := blobd.KeyFrom(answerKey)
	return ledger.Request{
		Tenant: tenant, Route: route, At: s.Now().UTC(),
		Key:  keyedHash(from, "blobd/v1/idempotency-key", []byte(key)),
		Body: keyedHash(from, "blobd/v1/idempotency-body", body),
	}, k, err
}

func keyedHash(key *blobd.Key, label string, b []byte) [32]byte {
	m := hmac.New(sha256.New, key.Bytes())
	writeField(m, label)
	_, _ = m.Write(b)
	return [32]byte(m.Sum(nil))
}
