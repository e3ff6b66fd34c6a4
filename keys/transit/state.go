package transit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

// kek is what Vault says of a KEK.
type kek struct {
	Type          string       `json:"type"`
	Latest        keys.Version `json:"latest_version"`
	MinAvailable  keys.Version `json:"min_available_version"`
	MinDecryption keys.Version `json:"min_decryption_version"`
	MinEncryption keys.Version `json:"min_encryption_version"`
	Exportable    bool         `json:"exportable"`
	Derived       bool         `json:"derived"`
}

// oldest is the oldest version that still unwraps.
func (k kek) oldest() keys.Version { return max(k.MinAvailable, k.MinDecryption, 1) }

// refuses says why a version does not unwrap, or nil if it can.
func (k kek) refuses(v keys.Version) error {
	switch {
	case v > k.Latest:
		// The version was made, since something is wrapped by it: this Vault is
		// older than that.
		return fmt.Errorf("KEK version %d is not in Vault, whose newest is %d: was it restored? %w", v, k.Latest, blobd.ErrKeyMissing)
	case v < k.MinAvailable:
		return fmt.Errorf("KEK version %d was trimmed: %w", v, blobd.ErrErased)
	case v < k.MinDecryption && k.MinEncryption >= k.MinDecryption:
		// A trim raises both minimums, and destroys in its next step. Where an
		// operator did, it can be had back; the core says key_missing either way, and
		// nobody reads it as a null.
		return fmt.Errorf("KEK version %d is being trimmed: %w", v, blobd.ErrErased)
	case v < k.MinDecryption:
		return fmt.Errorf("KEK version %d is forbidden by min_decryption_version: %w", v, blobd.ErrDenied)
	}
	return nil
}

func (k *Keyring) keyPath(name string) string { return k.mount + "/keys/" + name }

// readKey reads one Transit key: errAbsent if Vault says that there is none.
func (k *Keyring) readKey(ctx context.Context, name string) (kek, error) {
	path := k.keyPath(name)
	a, err := k.call(ctx, verbRead, path, nil)
	if err != nil {
		return kek{}, err
	}
	return parseKey(verbRead, path, a)
}

func parseKey(verb, path string, a answer) (kek, error) {
	var read struct {
		Data *kek `json:"data"`
	}
	if err := json.Unmarshal(a.body, &read); err != nil || read.Data == nil || read.Data.Latest == 0 || read.Data.Type == "" {
		return kek{}, errStrange(verb, path, a.status)
	}
	return *read.Data, nil
}

// lookup returns a tenant's KEK. ErrErased: it is gone and its marker is there.
// ErrNotFound: neither is there, said by a Transit engine.
func (k *Keyring) lookup(ctx context.Context, n names) (kek, error) {
	found, err := k.readKey(ctx, n.kek)
	if !errors.Is(err, errAbsent) {
		return found, err
	}
	switch err := k.marked(ctx, n); {
	case err == nil:
		return kek{}, fmt.Errorf("tenant's KEK was destroyed: %w", blobd.ErrErased)
	case !errors.Is(err, errAbsent):
		return kek{}, err
	}
	return kek{}, fmt.Errorf("tenant has no KEK: %w", blobd.ErrNotFound)
}

// marked returns nil if the tenant's KEK was destroyed, errAbsent if it is
// proved that it was not.
func (k *Keyring) marked(ctx context.Context, n names) error {
	_, err := k.readKey(ctx, n.marker)
	if !errors.Is(err, errAbsent) {
		return err
	}
	if notProved := k.prove(ctx); notProved != nil {
		return notProved
	}
	return err
}

// proveOnce is prove, asked of Vault until it succeeded once. No key is sent
// before: another engine at that path might store it.
func (k *Keyring) proveOnce(ctx context.Context) error {
	if k.proved.Load() {
		return nil
	}
	return k.prove(ctx)
}

// prove asks for a setting that only a Transit engine has.
func (k *Keyring) prove(ctx context.Context) error {
	path := k.mount + "/config/keys"
	k.proved.Store(false)
	a, err := k.call(ctx, verbRead, path, nil)
	if errors.Is(err, errAbsent) {
		return errStrange(verbRead, path, 404)
	}
	if err != nil {
		return err
	}
	var read struct {
		Data struct {
			DisableUpsert *bool `json:"disable_upsert"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &read); err != nil || read.Data.DisableUpsert == nil {
		return errStrange(verbRead, path, a.status)
	}
	k.proved.Store(true)
	return nil
}

// Check is keys.Wrapper's: the mount is a Transit engine that answers, and the
// token may wrap and unwrap there. It costs two calls, whatever is stored.
func (k *Keyring) Check(ctx context.Context) error {
	ctx, cancel, err := k.begin(ctx)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	defer cancel()
	if err := k.prove(ctx); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if err := k.permitted(ctx); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

func (k *Keyring) permitted(ctx context.Context) error {
	const path = "sys/capabilities-self"
	asked := []string{k.mount + "/encrypt/" + probeName, k.mount + "/decrypt/" + probeName}
	body, err := json.Marshal(map[string][]string{"paths": asked})
	if err != nil {
		return err
	}
	a, err := k.call(ctx, verbWrite, path, body)
	if errors.Is(err, errAbsent) {
		return errStrange(verbWrite, path, 404)
	}
	if err != nil {
		return err
	}
	var read struct {
		Data map[string][]string `json:"data"`
	}
	if err := json.Unmarshal(a.body, &read); err != nil || len(read.Data) == 0 {
		return errStrange(verbWrite, path, a.status)
	}
	for _, p := range asked {
		if !allows(read.Data[p]) {
			return fmt.Errorf("the token's policies do not allow updates of %s: %w", p, blobd.ErrDenied)
		}
	}
	return nil
}

// probeName stands for any KEK where permissions are asked for.
const probeName = kekPrefix + "probe" + nameSuffix

func allows(capabilities []string) bool {
	for _, c := range capabilities {
		if c == "update" || c == "root" {
			return true
		}
	}
	return false
}
