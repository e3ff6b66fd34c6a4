package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/blobd/blobd/api/wire"
)

// Certificate returns the certificate of an erasure, as it is to be verified.
func (c *Client) Certificate(ctx context.Context, id string) ([]byte, error) {
	return c.bytes(ctx, "certificate", "/v1/erasures/"+segment(id)+"/certificate", wire.TypeJSON)
}

// CertificatePDF returns the certificate of an erasure for people.
func (c *Client) CertificatePDF(ctx context.Context, id string) ([]byte, error) {
	return c.bytes(ctx, "certificate", "/v1/erasures/"+segment(id)+"/certificate", wire.TypePDF)
}

// EvidenceKey returns the public key of the evidence log, "name+hash+base64".
func (c *Client) EvidenceKey(ctx context.Context) (string, error) {
	b, err := c.bytes(ctx, "evidence key", "/v1/evidence/key", "")
	return strings.TrimSpace(string(b)), err
}

// Signed returns the newest signed checkpoint of the evidence log.
func (c *Client) Signed(ctx context.Context) ([]byte, error) {
	return c.bytes(ctx, "checkpoint", "/v1/evidence/checkpoint", "")
}

// Tile returns what the evidence log has under tile/<path>.
func (c *Client) Tile(ctx context.Context, path string) ([]byte, error) {
	return c.bytes(ctx, "tile", "/v1/evidence/tile/"+path, "")
}

func (c *Client) bytes(ctx context.Context, op, path, accept string) ([]byte, error) {
	r := request{method: http.MethodGet, path: path, safe: true, header: make(http.Header)}
	if accept != "" {
		r.header.Set("Accept", accept)
	}
	var out []byte
	if _, err := c.do(ctx, r, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}
