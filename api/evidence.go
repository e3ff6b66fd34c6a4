package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/evidence"
	"github.com/blobd/blobd/ledger"
)

// Evidence is what the API needs of the evidence log.
type Evidence interface {
	Checkpoint(ctx context.Context) (evidence.Checkpoint, error)
	Verifier(ctx context.Context) (string, error)
	Tile(ctx context.Context, path string) ([]byte, error)
	Entries(ctx context.Context, from, to int64) ([]ledger.LoggedEntry, error)
	Inclusion(ctx context.Context, index int64) (evidence.Proof, error)
	Consistency(ctx context.Context, size int64) (evidence.Proof, error)
	Stats() evidence.LogStats
}

// Certifier makes certificates of erasures.
type Certifier interface {
	Certificate(ctx context.Context, tenant, erasure, planDigest string) ([]byte, error)
}

// evidenceRoutes are the routes of the log and of certificates.
func evidenceRoutes() []route {
	const roles = auditorRole | operatorRole
	return []route{
		{
			method: "GET", path: "/v1/evidence/checkpoint", id: "evidenceCheckpoint", roles: roles,
			about: "the newest signed checkpoint of the evidence log", act: (*API).evidenceCheckpoint,
			answers: []reply{{200, textBody(wire.TypeCheckpoint), nil}},
		},
		{
			method: "GET", path: "/v1/evidence/tile/{path...}", id: "evidenceTile", roles: roles,
			about: "a tile of the evidence log; bundles of entries are for operators", act: (*API).evidenceTile,
			answers: []reply{{200, textBody(wire.TypeOctets), nil}},
		},
		{
			method: "GET", path: "/v1/evidence/entries", id: "evidenceEntries", roles: roles,
			about: "entries of the evidence log, by index: the tenant's own whole, of others the hash; operators see all",
			query: append(listQuery(), param{"from", "first index; default 0"}, param{"to", "index after the last; default: the end"}),
			act:   (*API).evidenceEntries, answers: []reply{{200, wire.EvidenceEntries{}, nil}},
		},
		{
			method: "GET", path: "/v1/evidence/proof", id: "evidenceProof", roles: roles,
			about: "proof that the newest checkpoint covers an entry, or continues an older tree",
			query: []param{{"index", "of an entry"}, {"oldSize", "entries of an older tree, in place of index"}},
			act:   (*API).evidenceProof, answers: []reply{{200, wire.EvidenceProof{}, nil}},
		},
		{
			method: "GET", path: "/v1/evidence/key", id: "evidenceKey", roles: roles,
			about: "the public key of the evidence log, name+hash+base64", act: (*API).evidenceKey,
			answers: []reply{{200, textBody(wire.TypeCheckpoint), nil}},
		},
		{
			method: "GET", path: pathErasure + "/certificate", id: "erasureCertificate", roles: dpoRole | auditorRole,
			about: "the certificate of an erasure, once what became of it is in the log; a PDF by Accept", act: (*API).certificate,
			answers: []reply{{200, map[string]any{}, nil}},
		},
	}
}

func errNoLog() error {
	return refuse(wire.CodeNotImplemented, "this server keeps no evidence log")
}

// evidenceCheckpoint answers GET /v1/evidence/checkpoint.
func (a *API) evidenceCheckpoint(c *call) error {
	if a.Evidence == nil {
		return errNoLog()
	}
	checkpoint, err := a.Evidence.Checkpoint(c.r.Context())
	if err != nil {
		return err
	}
	c.write(http.StatusOK, a.shared.text, checkpoint.Note)
	return nil
}

// evidenceKey answers GET /v1/evidence/key.
func (a *API) evidenceKey(c *call) error {
	if a.Evidence == nil {
		return errNoLog()
	}
	key, err := a.Evidence.Verifier(c.r.Context())
	if err != nil {
		return err
	}
	c.write(http.StatusOK, a.shared.text, []byte(key+"\n"))
	return nil
}

// evidenceTile answers GET /v1/evidence/tile/….
func (a *API) evidenceTile(c *call) error {
	if a.Evidence == nil {
		return errNoLog()
	}
	path := c.r.PathValue("path")
	if evidence.IsBundle(path) && c.who.roles&operatorRole == 0 {
		return refuse(wire.CodeForbidden, "bundles hold every tenant's entries: they are for operators")
	}
	tile, err := a.Evidence.Tile(c.r.Context(), path)
	if err != nil {
		return err
	}
	c.write(http.StatusOK, []string{wire.TypeOctets}, tile)
	return nil
}

// evidenceEntries answers GET /v1/evidence/entries.
func (a *API) evidenceEntries(c *call) error {
	if a.Evidence == nil {
		return errNoLog()
	}
	p, err := c.paging()
	if err != nil {
		return err
	}
	from, err := c.intParam("from", 0, 0, tlogMax)
	if err != nil {
		return err
	}
	to, err := c.intParam("to", tlogMax, 0, tlogMax)
	if err != nil {
		return err
	}
	if p.after != "" {
		if from, err = strconv.ParseInt(p.after, 10, 64); err != nil || from < 0 || from > tlogMax {
			return errCursor()
		}
	}
	p.limit = min(p.limit, maxEntries)
	if err := c.hold(c.r.Context(), int64(p.limit)*entryRoom); err != nil {
		return err
	}
	es, err := a.Evidence.Entries(c.r.Context(), from, min(to, from+int64(p.limit)+1))
	if err != nil {
		return err
	}
	es, next := cut(es, p.limit, func(e ledger.LoggedEntry) string { return strconv.FormatInt(e.Index+1, 10) })
	out := &wire.EvidenceEntries{Items: make([]wire.EvidenceEntry, len(es)), Next: next}
	for i, e := range es {
		whole := c.who.roles&operatorRole != 0 || e.Tenant == c.who.tenant
		out.Items[i] = entryOf(e, whole)
	}
	return c.reply(http.StatusOK, out)
}

// One page holds at most maxEntries whatever limit asks for: the entry of a large
// batch of puts names thousands of refs. entryRoom is what one is charged.
const (
	maxEntries = 100
	entryRoom  = 128 << 10
)

// tlogMax bounds indexes and sizes of the log.
const tlogMax = 1 << 48

func entryOf(e ledger.LoggedEntry, whole bool) wire.EvidenceEntry {
	out := wire.EvidenceEntry{Index: e.Index}
	if len(e.Hashes) > 0 {
		out.LeafHash = e.Hashes[0][:]
	}
	if whole {
		out.Leaf, out.Body = evidence.LeafOf(e.Entry), e.Body
		out.Tenant, out.Kind, out.At = e.Tenant, string(e.Kind), timeOrNull(e.At)
	}
	return out
}

// evidenceProof answers GET /v1/evidence/proof.
func (a *API) evidenceProof(c *call) error {
	if a.Evidence == nil {
		return errNoLog()
	}
	index, err := c.intParam("index", -1, 0, tlogMax)
	if err != nil {
		return err
	}
	old, err := c.intParam("oldSize", -1, 1, tlogMax)
	if err != nil {
		return err
	}
	if (index < 0) == (old < 0) {
		return refuse(wire.CodeInvalid, "want index or oldSize")
	}
	if old > 0 {
		p, err := a.Evidence.Consistency(c.r.Context(), old)
		if err != nil {
			return err
		}
		out := proofOf(p)
		out.OldSize = &old
		return c.reply(http.StatusOK, out)
	}
	p, err := a.Evidence.Inclusion(c.r.Context(), index)
	if err != nil {
		return err
	}
	out := proofOf(p)
	out.Index, out.LeafHash = &index, p.Leaf[:]
	return c.reply(http.StatusOK, out)
}

func proofOf(p evidence.Proof) *wire.EvidenceProof {
	out := &wire.EvidenceProof{TreeSize: p.Size, RootHash: p.Root[:], Proof: hashBytes(p.Hashes), Checkpoint: string(p.Note)}
	return out
}

func hashBytes(hs []tlog.Hash) [][]byte {
	out := make([][]byte, len(hs))
	for i, h := range hs {
		out[i] = h[:]
	}
	return out
}

// certificate answers GET /v1/erasures/{id}/certificate.
func (a *API) certificate(c *call) error {
	if a.Certifier == nil {
		return errNoLog()
	}
	id := c.r.PathValue("id")
	if err := blobd.CheckName("id", id); err != nil {
		return invalid(err)
	}
	if err := a.Store.Serving(); err != nil {
		return err
	}
	e, err := a.Ledger.Erasure(c.r.Context(), c.who.tenant, id)
	if err != nil {
		return err
	}
	digest := planDigest(&e)
	b, err := a.Certifier.Certificate(c.r.Context(), c.who.tenant, id, hex.EncodeToString(digest[:]))
	if err != nil {
		return err
	}
	if !c.prefers(wire.TypePDF) {
		c.write(http.StatusOK, a.shared.json, b)
		return nil
	}
	doc, err := evidence.PDF(b)
	if err != nil {
		return fmt.Errorf("%w: %w", blobd.ErrUnavailable, err)
	}
	c.write(http.StatusOK, []string{wire.TypePDF}, doc)
	return nil
}
