package blobd

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
	"text/template"
)

// marker is what must never be seen: readable, and distinct in every encoding.
var marker = []byte("never-show-these-32-secret-bytes")

// shows says whether out holds the marker, or four bytes of it in a row, in any
// spelling that a printer may choose.
func shows(out string) bool {
	piece := marker[6:10]
	spellings := []string{
		string(piece), string(marker),
		hex.EncodeToString(piece), strings.ToUpper(hex.EncodeToString(piece)),
		base64.StdEncoding.EncodeToString(marker)[:20],
		strings.Trim(fmt.Sprintf("%d", piece), "[]"),
		strings.Trim(fmt.Sprintf("% x", piece), "[]"),
		strings.Trim(fmt.Sprintf("%#v", piece), "[]byte{}"),
		strings.ReplaceAll(strings.Trim(fmt.Sprintf("%d", piece), "[]"), " ", ","),
		strings.Trim(fmt.Sprintf("%b", piece), "[]"),
		strings.Trim(fmt.Sprintf("%o", piece), "[]"),
	}
	for _, s := range spellings {
		if strings.Contains(out, s) {
			return true
		}
	}
	return false
}

func secrets(t *testing.T) map[string]any {
	key, err := KeyFrom(marker)
	if err != nil {
		t.Fatal(err)
	}
	text, digest := TextOf(bytes.Clone(marker)), Digest(marker)
	return map[string]any{
		"Key": *key, "*Key": key, "Text": text, "*Text": &text, "Digest": digest, "*Digest": &digest,
	}
}

// holders are the places a secret is printed from.
func holders(v any) []any {
	return []any{
		v, &v, []any{v}, map[string]any{"k": v}, struct{ Field any }{v}, &struct{ Field any }{v},
	}
}

func TestShowsSees(t *testing.T) {
	for _, format := range []string{"%s", "%x", "%X", "% x", "%d", "%v", "%#v", "%b", "%o"} {
		if !shows(fmt.Sprintf(format, marker)) {
			t.Errorf("%s passes unseen", format)
		}
	}
	b, _ := json.Marshal(map[string]any{"slice": marker, "array": [32]byte(marker)})
	if !shows(string(b)) || !shows(string(marker)) {
		t.Error("JSON passes unseen")
	}
}

// One way round Format is not held here, for package fmt offers no hook: the
// verb %w on what is no error, which vet refuses.
func TestSecretsDoNotPrint(t *testing.T) {
	formats := []string{
		"%v", "%+v", "%#v", "%s", "%q", "%+q", "%#q", "%x", "%X", "% x", "%#x", "%d", "%o", "%O", "%b", "%c", "%U", "%e", "%g", "%t", "%z", "%64v", "%-3s", "%.2x",
	}
	for name, secret := range secrets(t) {
		for _, v := range holders(secret) {
			for _, format := range formats {
				if out := fmt.Sprintf(format, v); shows(out) {
					t.Errorf("%s in %T by %s: %s", name, v, format, out)
				}
			}
			if out := fmt.Sprint(v) + fmt.Sprintln(v) + fmt.Errorf("failed: %v", v).Error(); shows(out) {
				t.Errorf("%s in %T: %s", name, v, out)
			}
		}
		if out := fmt.Sprintf("%v %s", secret, secret); !strings.Contains(out, "[") {
			t.Errorf("%s prints %q, no placeholder", name, out)
		}
	}
}

func TestSecretsDoNotLog(t *testing.T) {
	for name, secret := range secrets(t) {
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			l := slog.New(h)
			l.Info("m", "v", secret)
			l.Info("m", slog.Group("g", "v", secret))
			l.With("v", secret).Info("m")
			l.WithGroup("g").Info("m", slog.Any("v", secret))
			l.Error("m", "err", fmt.Errorf("failed with %v", secret))
		}
		log.New(&out, "", 0).Println(secret)
		if shows(out.String()) {
			t.Errorf("%s: %s", name, out.String())
		}
		if err := template.Must(template.New("").Parse("{{.}} {{printf `%x` .}}")).Execute(&out, secret); err != nil || shows(out.String()) {
			t.Errorf("%s in a template: %v: %s", name, err, out.String())
		}
	}
}

// A key or a text refuses every encoder, wherever it stands. A digest does not:
// whoever encodes one shows it.
func TestSecretsDoNotMarshal(t *testing.T) {
	for name, secret := range secrets(t) {
		if strings.HasSuffix(name, "Digest") {
			continue
		}
		for _, v := range holders(secret) {
			if b, err := json.Marshal(v); !errors.Is(err, errSecret) || shows(string(b)) {
				t.Errorf("JSON of %s in %T: %s, %v", name, v, b, err)
			}
		}
		if b, err := json.Marshal(map[string]any{"v": secret}); err == nil {
			t.Errorf("JSON of %s: %s", name, b)
		}
		var out bytes.Buffer
		if err := gob.NewEncoder(&out).Encode(secret); err == nil || shows(out.String()) {
			t.Errorf("gob of %s: %v", name, err)
		}
		if err := gob.NewEncoder(&out).Encode(struct{ V any }{secret}); err == nil || shows(out.String()) {
			t.Errorf("gob of a struct with %s: %v", name, err)
		}
		out.Reset()
		if err := xml.NewEncoder(&out).Encode(struct {
			XMLName xml.Name `xml:"x"`
			V       any
		}{V: secret}); err == nil || shows(out.String()) {
			t.Errorf("XML of %s: %s, %v", name, out.String(), err)
		}
		if b, err := secret.(encoding.TextMarshaler).MarshalText(); err == nil || len(b) > 0 {
			t.Errorf("text of %s: %v", name, err)
		}
		if b, err := secret.(encoding.BinaryMarshaler).MarshalBinary(); err == nil || len(b) > 0 {
			t.Errorf("binary of %s: %v", name, err)
		}
		if _, ok := secret.(interface{ GobEncode() ([]byte, error) }); ok {
			t.Errorf("%s encodes itself for gob", name)
		}
	}
}

func TestKey(t *testing.T) {
	k, err := NewKey(bytes.NewReader(marker))
	if err != nil || !bytes.Equal(k.Bytes(), marker) {
		t.Fatalf("key from a source: %v", err)
	}
	source := bytes.Clone(marker)
	if k, err = KeyFrom(source); err != nil {
		t.Fatal(err)
	}
	clear(source)
	if !bytes.Equal(k.Bytes(), marker) {
		t.Error("KeyFrom kept the caller's memory")
	}
	lent := k.Bytes()
	if k.Wipe(); !bytes.Equal(lent, make([]byte, KeySize)) {
		t.Error("Wipe left bytes")
	}
	for _, n := range []int{0, 16, 31, 33, 64} {
		if k, err := KeyFrom(make([]byte, n)); !errors.Is(err, ErrCorrupt) || k != nil {
			t.Errorf("%d bytes: %v, want ErrCorrupt", n, err)
		}
	}
	broken := errors.New("broken")
	if k, err := NewKey(iotest.ErrReader(broken)); !errors.Is(err, broken) || k != nil {
		t.Errorf("%v, want the source's error", err)
	}
	if k, err := NewKey(bytes.NewReader(marker[1:])); !errors.Is(err, io.ErrUnexpectedEOF) || k != nil {
		t.Errorf("%v, want a short read", err)
	}
}

func TestText(t *testing.T) {
	b := bytes.Clone(marker)
	text := TextOf(b)
	if text.Len() != len(marker) || !bytes.Equal(text.Bytes(), marker) {
		t.Error("another text came out")
	}
	if text.Wipe(); !bytes.Equal(b, make([]byte, len(marker))) {
		t.Error("Wipe left bytes")
	}
	var none Text
	none.Wipe()
	if none.Len() != 0 || none.Bytes() != nil {
		t.Error("the zero text is not empty")
	}
}

// holder has secrets where package fmt cannot call their methods.
type holder struct {
	key  Key
	ref  *Key
	text Text
}

func TestSecretsDoNotPrintFromUnexportedFields(t *testing.T) {
	key, err := KeyFrom(marker)
	if err != nil {
		t.Fatal(err)
	}
	h := holder{*key, key, TextOf(bytes.Clone(marker))}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{h, &h, []holder{h}, map[string]holder{"h": h}} {
			if out := fmt.Sprintf(format, v); shows(out) {
				t.Errorf("%s of %T: %s", format, v, out)
			}
		}
	}
}
