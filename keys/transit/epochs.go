package transit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

const keyType = "aes256-gcm96"

// Create is keys.Epochs's.
func (k *Keyring) Create(ctx context.Context, tenant string) error {
	return k.change(ctx, "create", tenant, func(ctx context.Context, n names) error {
		if err := k.neverDestroyed(ctx, n); err != nil {
			return err
		}
		made, err := k.makeKey(ctx, n.kek)
		if err != nil {
			return err
		}
		if made.Type != keyType || made.Exportable || made.Derived {
			return fmt.Errorf("a key of that name and of another sort is there: %w", blobd.ErrConflict)
		}
		// A Destroy may have come between: its marker was there before its
		// deletion, so it is seen now, and what was made since goes.
		destroyed := k.neverDestroyed(ctx, n)
		if errors.Is(destroyed, blobd.ErrErased) {
			return errors.Join(destroyed, k.deleteKey(ctx, n))
		}
		return destroyed
	})
}

// neverDestroyed returns nil if it is proved that there is no marker.
func (k *Keyring) neverDestroyed(ctx context.Context, n names) error {
	err := k.marked(ctx, n)
	switch {
	case err == nil:
		return fmt.Errorf("tenant's KEK was destroyed: %w", blobd.ErrErased)
	case errors.Is(err, errAbsent):
		return nil
	}
	return err
}

// makeKey makes a Transit key; one that is there stays as it is.
func (k *Keyring) makeKey(ctx context.Context, name string) (kek, error) {
	path := k.keyPath(name)
	a, err := k.call(ctx, verbWrite, path, []byte(`{"type":"`+keyType+`"}`))
	if err != nil {
		return kek{}, unabsent(verbWrite, path, err)
	}
	if a.status == 204 || len(a.body) == 0 { // older servers say no more
		return k.readKey(ctx, name)
	}
	return parseKey(verbWrite, path, a)
}

// unabsent is for requests that Transit never answers with an absence.
func unabsent(verb, path string, err error) error {
	if errors.Is(err, errAbsent) {
		return errStrange(verb, path, 404)
	}
	return err
}

// Rotate is keys.Epochs's. After ErrUnavailable a version may have been added
// all the same; another Rotate then adds one more, which harms nothing.
func (k *Keyring) Rotate(ctx context.Context, tenant string) (keys.Version, error) {
	var made keys.Version
	err := k.change(ctx, "rotate", tenant, func(ctx context.Context, n names) error {
		path := k.keyPath(n.kek) + "/rotate"
		a, err := k.call(ctx, verbWrite, path, []byte("{}"))
		if err != nil {
			return k.explain(ctx, n, unabsent(verbWrite, path, err))
		}
		rotated, err := parseKey(verbWrite, path, a)
		made = rotated.Latest
		return err
	})
	return made, err
}

// explain looks whether a request failed because the tenant has no KEK: Vault
// answers that with a 400, as it does many other things.
func (k *Keyring) explain(ctx context.Context, n names, failed error) error {
	if !badRequest(failed) {
		return failed
	}
	if _, err := k.lookup(ctx, n); err != nil {
		return err
	}
	return failed
}

// Status is keys.Epochs's.
func (k *Keyring) Status(ctx context.Context, tenant string) (keys.Status, error) {
	var s keys.Status
	err := k.change(ctx, "status", tenant, func(ctx context.Context, n names) error {
		found, err := k.lookup(ctx, n)
		if err == nil {
			s = keys.Status{Newest: found.Latest, Oldest: found.oldest()}
		}
		return err
	})
	return s, err
}

// Trim is keys.Epochs's. Raising the minimum for unwrapping alone could be taken
// back; only the trim that follows destroys, and nil is said once Vault has
// reported it done.
func (k *Keyring) Trim(ctx context.Context, tenant string, oldest keys.Version) error {
	return k.change(ctx, "trim", tenant, func(ctx context.Context, n names) error {
		found, err := k.lookup(ctx, n)
		if err != nil {
			return err
		}
		if oldest > found.Latest {
			return fmt.Errorf("version %d is past the newest: %w", oldest, blobd.ErrInvalid)
		}
		if oldest <= max(found.MinAvailable, 1) {
			return nil
		}
		raised := fmt.Sprintf(`{"min_decryption_version":%d,"min_encryption_version":%d}`,
			max(oldest, found.MinDecryption), max(oldest, found.MinEncryption, found.MinDecryption))
		if err := k.write(ctx, k.keyPath(n.kek)+"/config", raised); err != nil {
			return err
		}
		if err := k.write(ctx, k.keyPath(n.kek)+"/trim", fmt.Sprintf(`{"min_available_version":%d}`, oldest)); err != nil {
			return err
		}
		after, err := k.lookup(ctx, n)
		if err != nil {
			return err
		}
		if after.MinAvailable < oldest {
			return errStrange(verbRead, k.keyPath(n.kek), 200)
		}
		return nil
	})
}

func (k *Keyring) write(ctx context.Context, path, body string) error {
	_, err := k.call(ctx, verbWrite, path, []byte(body))
	return unabsent(verbWrite, path, err)
}

// Destroy is keys.Epochs's. The marker comes first: from then on nobody creates
// the tenant's KEK, and a Destroy that was cut short is completed by the next.
func (k *Keyring) Destroy(ctx context.Context, tenant string) error {
	return k.change(ctx, "destroy", tenant, func(ctx context.Context, n names) error {
		if err := k.proveOnce(ctx); err != nil {
			return err
		}
		if _, err := k.makeKey(ctx, n.marker); err != nil {
			return err
		}
		return k.deleteKey(ctx, n)
	})
}

// deleteKey deletes the KEK of a tenant whose marker is there, and returns nil
// once Vault says that it is gone, whoever deleted it.
func (k *Keyring) deleteKey(ctx context.Context, n names) error {
	_, err := k.lookup(ctx, n)
	if err == nil {
		err = k.write(ctx, k.keyPath(n.kek)+"/config", `{"deletion_allowed":true}`)
		if err == nil {
			_, err = k.call(ctx, verbDelete, k.keyPath(n.kek), nil)
		}
		if err != nil && !badRequest(err) && !errors.Is(err, errAbsent) {
			return unabsent(verbDelete, k.keyPath(n.kek), err)
		}
		failed := err
		if _, err = k.lookup(ctx, n); err == nil {
			return errors.Join(fmt.Errorf("the key is still there: %w", blobd.ErrConflict), failed)
		}
	}
	if errors.Is(err, blobd.ErrErased) {
		return nil
	}
	return err
}

// Tenants is keys.Epochs's.
func (k *Keyring) Tenants(ctx context.Context) ([]string, error) {
	ctx, cancel, err := k.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	defer cancel()
	tenants, err := k.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	return tenants, nil
}

func (k *Keyring) list(ctx context.Context) ([]string, error) {
	path := k.mount + "/keys"
	a, err := k.call(ctx, verbList, path, nil)
	if errors.Is(err, errAbsent) { // an empty list
		return nil, k.prove(ctx)
	}
	if err != nil {
		return nil, err
	}
	var read struct {
		Data struct {
			Keys []string `json:"keys"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &read); err != nil || len(read.Data.Keys) == 0 {
		return nil, errStrange(verbList, path, a.status)
	}
	return living(read.Data.Keys), nil
}

// living picks the tenants with a KEK and without a marker.
func living(all []string) []string {
	destroyed := make(map[string]bool)
	for _, name := range all {
		if tenant, ok := tenantOf(name, markerPrefix); ok {
			destroyed[tenant] = true
		}
	}
	var tenants []string
	for _, name := range all {
		if tenant, ok := tenantOf(name, kekPrefix); ok && !destroyed[tenant] {
			tenants = append(tenants, tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}

// change runs one method on one tenant, within its time.
func (k *Keyring) change(ctx context.Context, op, tenant string, run func(context.Context, names) error) error {
	n, err := namesOf(tenant)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	ctx, cancel, err := k.begin(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	defer cancel()
	if err := run(ctx, n); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
