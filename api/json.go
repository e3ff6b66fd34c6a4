package api

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/blobd/blobd/api/wire"
)

// decodeJSON reads exactly one JSON value that begins with opens into v: every
// field known, none twice, in the case of the contract, with the types of the
// contract, in valid UTF-8, with no list longer than limits say, and nothing after
// it. what names the place in the
// error, which never repeats input: field names are the caller's too.
func decodeJSON(what string, b []byte, opens byte, v any, limits *json.Unmarshalers) error {
	if !utf8.Valid(b) {
		return refuse(wire.CodeInvalidUTF8, "%s: not valid UTF-8", what)
	}
	if start := bytes.TrimLeft(b, " \t\r\n"); len(start) == 0 || start[0] != opens {
		return refuse(wire.CodeInvalid, "%s: want JSON that begins with %c", what, opens)
	}
	err := json.Unmarshal(b, v, json.RejectUnknownMembers(true), json.WithUnmarshalers(limits))
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	var tooLong *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLong):
		return tooLong
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return refuse(wire.CodeUnknownField, "%s: unknown field at byte %d", what, semantic.ByteOffset)
	case errors.As(err, &syntactic):
		if loneSurrogate(b, syntactic.ByteOffset) {
			return refuse(wire.CodeInvalidUTF8, "%s: a lone surrogate at byte %d", what, syntactic.ByteOffset)
		}
		return refuse(wire.CodeInvalid, "%s: not one well-formed JSON value, at byte %d", what, syntactic.ByteOffset)
	case errors.As(err, &semantic):
		return refuse(wire.CodeInvalid, "%s: a value of the wrong type or range at byte %d", what, semantic.ByteOffset)
	}
	return refuse(wire.CodeInvalid, "%s: not the JSON of the contract", what)
}

// loneSurrogate reports whether b, which is valid UTF-8, is refused at offset
// only for a surrogate without its other half: a reader that lets such pass gets
// past the place.
func loneSurrogate(b []byte, offset int64) bool {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowInvalidUTF8(true))
	_, err := d.ReadValue()
	if err == nil {
		return d.InputOffset() > offset
	}
	var syntactic *jsontext.SyntacticError
	return errors.As(err, &syntactic) && syntactic.ByteOffset > offset
}
