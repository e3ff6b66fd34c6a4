package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestMainJobOnRecordedTraffic: every readable reasoning text of the recorded
// provider traffic is captured, resolved byte for byte, one by one and in a
// batch, also after a restart, and null once it is erased.
func TestMainJobOnRecordedTraffic(t *testing.T) {
	t.Parallel()
	all := recordings(t)
	dir := t.TempDir()
	s := start(t, dir)
	refs := make(map[string][]string)
	for _, r := range all {
		r.check(t)
		if len(r.texts) > 0 {
			refs[r.file] = captureRecording(s, r)
		}
	}
	for _, r := range all {
		resolveRecording(s, r, refs)
	}
	s.stop()
	wantVerified(t, dir)

	s = start(t, dir)
	for _, r := range all {
		resolveRecording(s, r, refs)
	}
	var ids []string
	for _, r := range all {
		if refs[r.file] == nil {
			continue
		}
		ids = append(ids, s.mustErase(r.file).ID)
		wantNulls(s, r, refs[r.file])
	}
	for _, id := range ids {
		s.waitErased(id)
	}
	for _, r := range all {
		if refs[r.file] != nil {
			wantNulls(s, r, refs[r.file])
		}
	}
	s.stop()
	wantVerified(t, dir)
}

// captureRecording captures a recording as one execution, and checks digests
// and sizes against the index.
func captureRecording(s *server, r recording) []string {
	s.t.Helper()
	type part struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	parts := make([]part, len(r.texts))
	for i, text := range r.texts {
		parts[i] = part{r.kinds[i], text}
	}
	provider, _, _ := strings.Cut(r.file, "/")
	a := s.post(execution(r.file)+"/captures", map[string]any{
		"stepId": "turn:1:model", "attempt": 1, "provider": provider, "model": r.model, "reasoning": parts,
	})
	if a.status != http.StatusCreated {
		s.t.Fatalf("%s: capture: %d %s %v", r.file, a.status, a.problem().Code, a.err)
	}
	var out struct {
		Parts []struct {
			Type, Kind, TextRef, Digest string
			Omitted                     bool
		} `json:"parts"`
		Event struct {
			Parts []struct {
				Kind, Ref, Digest string
				Size              int
			} `json:"parts"`
		} `json:"event"`
	}
	must(s.t, json.Unmarshal(a.body, &out))
	if len(out.Parts) != len(parts) || len(out.Event.Parts) != len(parts) {
		s.t.Fatalf("%s: %d parts and %d in the event, want %d", r.file, len(out.Parts), len(out.Event.Parts), len(parts))
	}
	refs := make([]string, len(parts))
	for i, p := range out.Parts {
		e := out.Event.Parts[i]
		if p.Type != "reasoning" || p.Kind != r.kinds[i] || p.Omitted || p.Digest != r.facts[i].SHA256 ||
			e.Ref != p.TextRef || e.Digest != p.Digest || e.Size != r.facts[i].Bytes || e.Kind != p.Kind {
			s.t.Errorf("%s: part %d is %+v, its event %+v, the index says %+v", r.file, i, p, e, r.facts[i])
		}
		refs[i] = p.TextRef
	}
	for _, text := range r.texts {
		if strings.Contains(string(a.body), text) && len(text) > 20 {
			s.t.Errorf("%s: the answer to a capture repeats a text", r.file)
		}
	}
	return refs
}

func resolveRecording(s *server, r recording, refs map[string][]string) {
	s.t.Helper()
	mine := refs[r.file]
	if mine == nil {
		return
	}
	for i, ref := range mine {
		a := s.resolve(r.file, ref)
		if a.status != http.StatusOK || string(a.body) != r.texts[i] || a.header.Get("Blobd-Kind") != r.kinds[i] {
			s.t.Errorf("%s: text %d: %d %s, %d bytes", r.file, i, a.status, a.problem().Code, len(a.body))
		}
	}
	b, a := s.batch(r.file, mine...)
	if a.status != http.StatusOK || a.err != nil || b.FirstHole != nil || len(b.Parts) != len(mine) {
		s.t.Fatalf("%s: batch: %d %s %v", r.file, a.status, a.problem().Code, a.err)
	}
	for i, p := range b.Parts {
		if p.Status != "ok" || p.Text == nil || *p.Text != r.texts[i] || p.Digest != r.facts[i].SHA256 || p.Size != int64(r.facts[i].Bytes) {
			s.t.Errorf("%s: text %d of the batch is %s", r.file, i, p.Status)
		}
	}
	for other, theirs := range refs { // sealed to its execution
		if other != r.file && theirs[0] != mine[0] {
			s.wantNull(r.file, theirs[0])
			return
		}
	}
}

func wantNulls(s *server, r recording, refs []string) {
	s.t.Helper()
	for _, ref := range refs {
		s.wantNull(r.file, ref)
	}
	b, a := s.batch(r.file, refs...)
	if a.status != http.StatusOK || b.FirstHole == nil || *b.FirstHole != 0 {
		s.t.Fatalf("%s: batch: %d %s %v", r.file, a.status, a.problem().Code, a.err)
	}
	for _, p := range b.Parts {
		if p.Status != "null" || p.Text != nil || p.Base64 != nil {
			s.t.Errorf("%s: a part of the batch is %s", r.file, p.Status)
		}
	}
	if _, err := s.put(r.file, []byte(r.texts[0])); err != (refused{http.StatusGone, "execution_erased"}) {
		s.t.Errorf("%s: a put after the erasure: %v", r.file, err)
	}
}
