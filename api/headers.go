package api

import (
	"crypto/sha256"
	"mime"
	"strings"
	"unicode"

	"github.com/dunglas/httpsfv"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// defaultContentType is the Content-Type of a put that has none.
const defaultContentType = "text/plain; charset=utf-8"

// contentType reads the Content-Type to keep, and whether its bytes must be
// valid UTF-8.
func (c *call) contentType() (kept string, isText bool, err error) {
	kept, _, err = c.oneHeader(headerContentType)
	if err != nil {
		return "", false, err
	}
	switch kept {
	case "":
		return defaultContentType, true, nil
	case defaultContentType, "text/plain", "application/json":
		return kept, true, nil
	case "application/octet-stream":
		return kept, false, nil
	}
	if len(kept) > blobd.MaxContentType || strings.ContainsFunc(kept, unicode.IsControl) {
		return "", false, refuse(wire.CodeInvalid, "Content-Type: want at most %d bytes and no control character", blobd.MaxContentType)
	}
	media, _, err := mime.ParseMediaType(kept)
	if err != nil || !strings.Contains(media, "/") {
		return "", false, refuse(wire.CodeInvalid, "Content-Type: not a media type")
	}
	return kept, strings.HasPrefix(media, "text/") || media == "application/json", nil
}

// refuseEncoding answers 415 to a body with a Content-Encoding, whatever it is.
func (c *call) refuseEncoding() error {
	if _, given := c.r.Header["Content-Encoding"]; given {
		return refuse(wire.CodeUnsupportedEncoding, "send the body as it is, without a Content-Encoding")
	}
	return nil
}

// reprDigest reads the SHA-256 out of Repr-Digest. Other algorithms are not
// looked at; nil: there is none.
func (c *call) reprDigest() (*blobd.Digest, error) {
	values, given := c.r.Header[wire.HeaderReprDigest]
	if !given {
		return nil, nil
	}
	wrong := refuse(wire.CodeInvalid, "%s: want a dictionary such as sha-256=:<base64>:", wire.HeaderReprDigest)
	dict, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return nil, wrong
	}
	member, ok := dict.Get("sha-256")
	if !ok {
		return nil, nil
	}
	item, ok := member.(httpsfv.Item)
	if !ok {
		return nil, wrong
	}
	sum, ok := item.Value.([]byte)
	if !ok || len(sum) != sha256.Size {
		return nil, wrong
	}
	d := blobd.Digest(sum)
	return &d, nil
}

// subjects reads Blobd-Subjects. An error never repeats one.
func (c *call) subjects() ([]string, error) {
	values, given := c.r.Header[wire.HeaderSubjects]
	if !given {
		return nil, nil
	}
	wrong := refuse(wire.CodeInvalid, "%s: want a structured-field list of strings", wire.HeaderSubjects)
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil, wrong
	}
	out := make([]string, 0, len(list))
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok || item.Params != nil && len(item.Params.Names()) > 0 {
			return nil, wrong
		}
		switch v := item.Value.(type) {
		case string:
			out = append(out, v)
		case httpsfv.DisplayString: // how RFC 9651 writes what is not ASCII
			out = append(out, string(v))
		default:
			return nil, wrong
		}
	}
	return out, checkSubjects(out)
}

func checkSubjects(subjects []string) error {
	if len(subjects) > wire.MaxPeople {
		return refuse(wire.CodeTooLarge, "subjects: more than %d", wire.MaxPeople)
	}
	for _, s := range subjects {
		if err := blobd.CheckSubject(s); err != nil {
			return invalid(err)
		}
	}
	return nil
}

// audience reads Blobd-Audience.
func (c *call) audience() ([]blobd.Principal, error) {
	value, given, err := c.oneHeader(wire.HeaderAudience)
	if err != nil || !given {
		return nil, err
	}
	var audience []blobd.Principal
	if err := c.decodeHeaderJSON(wire.HeaderAudience, value, '[', &audience); err != nil {
		return nil, err
	}
	return audience, checkAudience(audience)
}

// principal reads Blobd-Principal; nil: there is none.
func (c *call) principal() (*blobd.Principal, error) {
	value, given, err := c.oneHeader(wire.HeaderPrincipal)
	if err != nil || !given {
		return nil, err
	}
	p := new(blobd.Principal)
	if err := c.decodeHeaderJSON(wire.HeaderPrincipal, value, '{', p); err != nil {
		return nil, err
	}
	return p, checkPrincipal(*p)
}

func (c *call) decodeHeaderJSON(name, value string, opens byte, v any) error {
	b, err := decodeBase64URL(value)
	if err != nil {
		return refuse(wire.CodeInvalid, "%s: want base64url", name)
	}
	return decodeJSON(name, b, opens, v, c.rt.api.lists)
}

func checkAudience(audience []blobd.Principal) error {
	if len(audience) > wire.MaxPeople {
		return refuse(wire.CodeTooLarge, "audience: more than %d principals", wire.MaxPeople)
	}
	for _, p := range audience {
		if err := checkPrincipal(p); err != nil {
			return err
		}
	}
	return nil
}

// checkPrincipal accepts a principal that names a tenant and an actor.
func checkPrincipal(p blobd.Principal) error {
	if p.Tenant == "" || p.Actor == "" {
		return refuse(wire.CodeInvalid, "principal: want a tenant and an actor")
	}
	if err := blobd.CheckName("principal: tenant", p.Tenant); err != nil {
		return invalid(err)
	}
	if err := blobd.CheckSubject(p.Actor); err != nil {
		return refuse(wire.CodeInvalid, "principal: actor: want at most %d bytes and no control character", blobd.MaxSubject)
	}
	if p.OnBehalfOf == nil {
		return nil
	}
	if err := blobd.CheckSubject(*p.OnBehalfOf); err != nil {
		return refuse(wire.CodeInvalid, "principal: onBehalfOf: want 1 to %d bytes and no control character", blobd.MaxSubject)
	}
	return nil
}

// expectDigest reads Blobd-Expect-Digest; nil: there is none.
func (c *call) expectDigest() (*blobd.Digest, error) {
	value, given, err := c.oneHeader(wire.HeaderExpectDigest)
	if err != nil || !given {
		return nil, err
	}
	d, err := blobd.ParseDigest(value)
	if err != nil {
		return nil, invalid(err)
	}
	return &d, nil
}
