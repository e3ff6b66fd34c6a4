package integration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// object is a decoded JSON object of a provider.
type object = map[string]any

// texts gathers readable reasoning texts in wire order; the deltas of one part
// share a key and are joined as they stand.
type texts struct {
	order []string
	parts map[string]*strings.Builder
}

func (x *texts) add(key string, text any) {
	s, ok := text.(string)
	if !ok || s == "" {
		return
	}
	if x.parts[key] == nil {
		x.order = append(x.order, key)
		x.parts[key] = new(strings.Builder)
	}
	x.parts[key].WriteString(s)
}

func (x *texts) list() []string {
	out := []string{}
	for _, key := range x.order {
		out = append(out, x.parts[key].String())
	}
	return out
}

// extract returns the readable reasoning texts of one recorded body.
func extract(t *testing.T, provider, shape string, body []byte) []string {
	t.Helper()
	x := &texts{parts: make(map[string]*strings.Builder)}
	one := map[string]func(*texts, bool, object){
		"anthropic": anthropic, "gemini": gemini, "bedrock": bedrock, "openai-responses": responses,
		"openai-compatible": chat, "deepseek": chat, "think-tags": anyShape,
	}[provider]
	if one == nil {
		t.Fatalf("no extractor for provider %q", provider)
	}
	stream := shape != "request-json" && shape != "response-json" && shape != "error-json"
	for _, document := range documents(t, shape, body) {
		one(x, stream, document)
	}
	return x.list()
}

// documents cuts a body into its JSON documents.
func documents(t *testing.T, shape string, body []byte) []object {
	t.Helper()
	var raw [][]byte
	switch shape {
	case "request-json", "response-json", "error-json":
		raw = [][]byte{body}
	case "response-jsonl":
		raw = bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	case "response-jsonarray":
		var items []json.RawMessage
		must(t, json.Unmarshal(body, &items))
		for _, item := range items {
			raw = append(raw, item)
		}
	case "response-sse":
		for line := range bytes.Lines(body) {
			data, ok := bytes.CutPrefix(line, []byte("data:"))
			if data = bytes.TrimSpace(data); ok && string(data) != "[DONE]" && len(data) > 0 {
				raw = append(raw, data)
			}
		}
	case "eventstream":
		raw = eventstream(t, body)
	default:
		t.Fatalf("no reader for shape %q", shape)
	}
	out := make([]object, len(raw))
	for i, b := range raw {
		if err := json.Unmarshal(b, &out[i]); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
	}
	return out
}

// eventstream returns the payloads of AWS event stream messages: total length,
// header length, prelude CRC, headers, payload, message CRC.
func eventstream(t *testing.T, b []byte) [][]byte {
	t.Helper()
	var payloads [][]byte
	for len(b) > 0 {
		if len(b) < 16 {
			t.Fatal("event stream: a short message")
		}
		total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		payloads = append(payloads, b[12+headers:total-4])
		b = b[total:]
	}
	return payloads
}

func anthropic(x *texts, stream bool, d object) {
	blocks := func(where string, content any) {
		for i, b := range list(content) {
			if b["type"] == "thinking" {
				x.add(fmt.Sprint(where, i), b["thinking"])
			}
		}
	}
	blocks("content", d["content"])
	for m, message := range list(d["messages"]) {
		blocks(fmt.Sprint("message", m, "/"), message["content"])
	}
	block, delta := get(d, "content_block"), get(d, "delta")
	if block["type"] == "thinking" {
		x.add(fmt.Sprint("block", d["index"]), block["thinking"])
	}
	if delta["type"] == "thinking_delta" {
		x.add(fmt.Sprint("block", d["index"]), delta["thinking"])
	}
}

func gemini(x *texts, stream bool, d object) {
	parts := func(where string, content object) {
		for i, p := range list(content["parts"]) {
			if p["thought"] != true {
				continue
			}
			key := fmt.Sprint(where, i)
			if stream { // the chunks of a stream carry one thought on
				key = where
			}
			x.add(key, p["text"])
		}
	}
	for i, c := range list(d["candidates"]) {
		parts(fmt.Sprint("candidate", i, "/"), get(c, "content"))
	}
	for i, c := range list(d["contents"]) {
		parts(fmt.Sprint("content", i, "/"), c)
	}
}

func bedrock(x *texts, stream bool, d object) {
	blocks := func(where string, content any) {
		for i, b := range list(content) {
			x.add(fmt.Sprint(where, i), get(b, "reasoningContent", "reasoningText")["text"])
		}
	}
	blocks("output", get(d, "output", "message")["content"])
	for m, message := range list(d["messages"]) {
		blocks(fmt.Sprint("message", m, "/"), message["content"])
	}
	x.add(fmt.Sprint("block", d["contentBlockIndex"]), get(d, "delta", "reasoningContent")["text"])
}

func responses(x *texts, stream bool, d object) {
	items := func(where string, all any) {
		for i, item := range list(all) {
			if item["type"] != "reasoning" {
				continue
			}
			for _, field := range []string{"summary", "content"} {
				for j, part := range list(item[field]) {
					x.add(fmt.Sprint(where, i, field, j), part["text"])
				}
			}
		}
	}
	items("output", d["output"])
	items("input", d["input"])
	switch d["type"] {
	case "response.reasoning_summary_text.delta":
		x.add(fmt.Sprint(d["item_id"], "summary", d["summary_index"]), d["delta"])
	case "response.reasoning_text.delta":
		x.add(fmt.Sprint(d["item_id"], "content", d["content_index"]), d["delta"])
	}
}

func chat(x *texts, stream bool, d object) {
	for i, c := range list(d["choices"]) {
		chatMessage(x, fmt.Sprint("choice", i), get(c, "message"))
		chatMessage(x, fmt.Sprint("choice", i), get(c, "delta"))
	}
	for i, m := range list(d["messages"]) {
		chatMessage(x, fmt.Sprint("message", i), m)
	}
}

// chatMessage takes the most exact of the fields that repeat one another.
func chatMessage(x *texts, where string, m object) {
	for _, b := range list(m["content"]) {
		for _, part := range list(b["thinking"]) {
			x.add(where+"thinking", part["text"])
		}
	}
	if details := list(m["reasoning_details"]); len(details) > 0 {
		for _, d := range details {
			x.add(fmt.Sprint(where, d["type"], d["index"]), d["text"])
			x.add(fmt.Sprint(where, d["type"], d["index"]), d["summary"])
		}
		return
	}
	if m["reasoning_content"] != nil {
		x.add(where+"reasoning", m["reasoning_content"])
		return
	}
	x.add(where+"reasoning", m["reasoning"])
}

func anyShape(x *texts, stream bool, d object) {
	anthropic(x, stream, d)
	bedrock(x, stream, d)
	chat(x, stream, d)
}

// visible returns a response's answer text as it stands on the wire, tags and
// all, and its reasoning field if that is where the tags are.
func visible(t *testing.T, shape string, body []byte) string {
	t.Helper()
	var out strings.Builder
	for _, d := range documents(t, shape, body) {
		for _, b := range append(list(d["content"]), list(get(d, "output", "message")["content"])...) {
			write(&out, b["text"])
		}
		write(&out, get(d, "delta")["text"])
		for _, c := range list(d["choices"]) {
			for _, m := range []object{get(c, "message"), get(c, "delta")} {
				if m["reasoning"] != nil {
					write(&out, m["reasoning"])
					continue
				}
				write(&out, m["content"])
			}
		}
	}
	return out.String()
}

func write(out *strings.Builder, v any) {
	if s, ok := v.(string); ok {
		out.WriteString(s)
	}
}

// inband returns the raw text between think tags.
func inband(text string) string {
	open := regexp.MustCompile(`<(?:think|thinking|reasoning)(?: [^>]*)?>`).FindStringIndex(text)
	end := regexp.MustCompile(`</(?:think|thinking|reasoning)>`).FindStringIndex(text)
	switch {
	case open == nil && end == nil:
		return ""
	case open == nil:
		return text[:end[0]]
	case end == nil:
		return text[open[1]:]
	}
	return text[open[1]:end[0]]
}

// get descends through objects; a missing step is an empty object.
func get(v any, path ...string) object {
	o, _ := v.(object)
	for _, p := range path {
		o, _ = o[p].(object)
	}
	return o
}

// list returns the objects of an array, and nothing for anything else.
func list(v any) []object {
	items, _ := v.([]any)
	out := make([]object, 0, len(items))
	for _, item := range items {
		o, _ := item.(object)
		out = append(out, o)
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
