package transit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/keys"
)

const (
	maxPlaintext  = 512
	maxCiphertext = 1024
	// smallest is a nonce, one byte and a tag.
	smallest = 12 + 1 + 16

	// wholeBatch is the status that is asked for when some items of a batch
	// fail: the SDK keeps the body of a 400 in memory that nobody wipes.
	wholeBatch = 207
)

// Wrap is keys.Wrapper's, by one call to Vault.
func (k *Keyring) Wrap(ctx context.Context, tenant string, plaintexts [][]byte) ([]keys.Wrapped, error) {
	for i, p := range plaintexts {
		if len(p) < 1 || len(p) > maxPlaintext {
			return nil, fmt.Errorf("wrap: plaintext %d: want 1 to %d bytes: %w", i, maxPlaintext, blobd.ErrInvalid)
		}
	}
	var wrapped []keys.Wrapped
	err := k.change(ctx, "wrap", tenant, func(ctx context.Context, n names) (err error) {
		wrapped, err = k.wrap(ctx, n, plaintexts)
		return err
	})
	return wrapped, err
}

func (k *Keyring) wrap(ctx context.Context, n names, plaintexts [][]byte) ([]keys.Wrapped, error) {
	if len(plaintexts) == 0 {
		_, err := k.lookup(ctx, n)
		return nil, err
	}
	if err := k.proveOnce(ctx); err != nil {
		return nil, err
	}
	body := encryptBody(plaintexts)
	defer clear(body)
	path := k.mount + "/encrypt/" + n.kek
	a, err := k.call(ctx, verbWrite, path, body)
	if err != nil {
		return nil, k.unwrapped(ctx, n, unabsent(verbWrite, path, err))
	}
	results, err := parseBatch(path, a, len(plaintexts))
	if err != nil {
		return nil, err
	}
	wrapped := make([]keys.Wrapped, len(results))
	for i, r := range results {
		c, err := parseCiphertext([]byte(r.Ciphertext))
		if r.Error != "" || err != nil || len(r.Ciphertext) > maxCiphertext {
			return nil, errStrange(verbWrite, path, a.status)
		}
		wrapped[i] = keys.Wrapped{Version: c.version, Ciphertext: []byte(r.Ciphertext)}
	}
	return wrapped, nil
}

// unwrapped explains why wrapping failed: Vault answers for a missing key with a
// 400 or, under a policy that forbids to make one, with a 403.
func (k *Keyring) unwrapped(ctx context.Context, n names, failed error) error {
	if !badRequest(failed) && !refused(failed) {
		return failed
	}
	_, err := k.lookup(ctx, n)
	if errors.Is(err, blobd.ErrNotFound) || errors.Is(err, blobd.ErrErased) {
		return err
	}
	return failed
}

// encryptBody writes the request by hand, so that no copy of a key stays in a
// buffer that is not ours. A type that Transit does not know keeps it from
// making a missing key, whatever the policy allows: it looks at the type only
// then.
func encryptBody(plaintexts [][]byte) []byte {
	size := 64
	for _, p := range plaintexts {
		size += base64.StdEncoding.EncodedLen(len(p)) + 20
	}
	b := append(make([]byte, 0, size), `{"type":"none","batch_input":[`...)
	for i, p := range plaintexts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"plaintext":"`...)
		b = base64.StdEncoding.AppendEncode(b, p)
		b = append(b, `"}`...)
	}
	return append(b, `]}`...)
}

// Unwrap is keys.Wrapper's, by one call to Vault; a second looks for the reason
// where items fail. A KEK version that Vault never had, though the ciphertext
// names it, is ErrKeyMissing: Vault was restored from before it was made.
func (k *Keyring) Unwrap(ctx context.Context, tenant string, items []keys.Wrapped) ([]keys.Unwrapped, error) {
	var answers []keys.Unwrapped
	err := k.change(ctx, "unwrap", tenant, func(ctx context.Context, n names) (err error) {
		answers, err = k.unwrap(ctx, n, items)
		return err
	})
	return answers, err
}

func (k *Keyring) unwrap(ctx context.Context, n names, items []keys.Wrapped) ([]keys.Unwrapped, error) {
	answers := make([]keys.Unwrapped, len(items))
	var sent []int
	for i, item := range items {
		if answers[i].Err = checkItem(item); answers[i].Err == nil {
			sent = append(sent, i)
		}
	}
	if len(sent) == 0 { // what is left to say is whether the tenant has a KEK
		return k.judge(ctx, n, answers, items, nil)
	}
	path := k.mount + "/decrypt/" + n.kek
	a, err := k.call(ctx, verbWrite, path, decryptBody(items, sent))
	defer a.wipe()
	if err != nil && !badRequest(err) {
		return nil, unabsent(verbWrite, path, err)
	}
	results, parseErr := parseBatch(path, a, len(sent))
	if parseErr != nil && err == nil {
		return nil, parseErr
	}
	if parseErr != nil { // a 400 about no item: no such key, above all
		return k.judge(ctx, n, answers, items, err)
	}
	failed := false
	for j, i := range sent {
		answers[i].Plaintext = results[j].Plaintext
		if results[j].Error != "" || len(results[j].Plaintext) == 0 {
			clear(results[j].Plaintext)
			answers[i] = keys.Unwrapped{Err: errItem}
			failed = true
		}
	}
	if !failed {
		return answers, nil
	}
	return k.judge(ctx, n, answers, items, nil)
}

// errItem marks an item that Vault did not open, until judge says why.
var errItem = fmt.Errorf("the ciphertext does not authenticate: %w", blobd.ErrCorrupt)

// judge looks at the KEK to say why items failed. Where whole is set, the whole
// request was refused and no item answered.
func (k *Keyring) judge(ctx context.Context, n names, answers []keys.Unwrapped, items []keys.Wrapped, whole error) ([]keys.Unwrapped, error) {
	found, err := k.lookup(ctx, n)
	switch {
	case errors.Is(err, blobd.ErrErased):
		for i := range answers {
			if answers[i].Plaintext == nil {
				answers[i].Err = err
			}
		}
		return answers, nil
	case err != nil:
		wipeAll(answers)
		return nil, err
	case whole != nil:
		return nil, whole
	}
	for i := range answers {
		if answers[i].Err != nil && errors.Is(answers[i].Err, errItem) {
			if why := found.refuses(items[i].Version); why != nil {
				answers[i].Err = why
			}
		}
	}
	return answers, nil
}

func wipeAll(answers []keys.Unwrapped) {
	for _, a := range answers {
		clear(a.Plaintext)
	}
}

// ciphertext is "vault:v<version>:<base64 of nonce, sealed bytes and tag>".
type ciphertext struct{ version keys.Version }

var errForm = fmt.Errorf("not a ciphertext of Transit: %w", blobd.ErrCorrupt)

func parseCiphertext(b []byte) (ciphertext, error) {
	rest, ok := bytes.CutPrefix(b, []byte("vault:v"))
	number, encoded, ok2 := bytes.Cut(rest, []byte(":"))
	if !ok || !ok2 {
		return ciphertext{}, errForm
	}
	v, err := strconv.ParseUint(string(number), 10, 31)
	if err != nil || v == 0 || strconv.FormatUint(v, 10) != string(number) {
		return ciphertext{}, errForm
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(nil, encoded)
	if err != nil || len(raw) < smallest || bytes.ContainsAny(encoded, "\r\n") {
		return ciphertext{}, errForm
	}
	return ciphertext{keys.Version(v)}, nil
}

// checkItem refuses what no Wrap returned, so that what goes to Vault can be
// written into a request as it is.
func checkItem(item keys.Wrapped) error {
	c, err := parseCiphertext(item.Ciphertext)
	if err != nil {
		return err
	}
	if c.version != item.Version {
		return fmt.Errorf("wrapped under another KEK version than it says: %w", blobd.ErrCorrupt)
	}
	return nil
}

func decryptBody(items []keys.Wrapped, sent []int) []byte {
	b := fmt.Appendf(nil, `{"partial_failure_response_code":%d,"batch_input":[`, wholeBatch)
	for j, i := range sent {
		if j > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"ciphertext":"`...)
		b = append(b, items[i].Ciphertext...)
		b = append(b, `"}`...)
	}
	return append(b, `]}`...)
}

// result is one item of a batch. encoding/json decodes the base64 of a plaintext
// straight out of the body, so no other copy of it is made.
type result struct {
	Ciphertext string `json:"ciphertext"`
	Plaintext  []byte `json:"plaintext"`
	Error      string `json:"error"`
}

// parseBatch wants exactly as many results as items were sent.
func parseBatch(path string, a answer, want int) ([]result, error) {
	var read struct {
		Data struct {
			Results []result `json:"batch_results"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &read); err != nil || len(read.Data.Results) != want {
		for _, r := range read.Data.Results {
			clear(r.Plaintext)
		}
		return nil, errStrange(verbWrite, path, a.status)
	}
	return read.Data.Results, nil
}
