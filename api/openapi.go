package api

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
)

// openAPI makes the OpenAPI 3.1 document of a table of routes.
func openAPI(table []route, version string) ([]byte, error) {
	d := newDocument(version)
	for _, r := range table {
		d.add(r)
	}
	d.finish()
	return d.api.MarshalJSON()
}

// document is an OpenAPI document in the making.
type document struct {
	api      *huma.OpenAPI
	registry huma.Registry
	problem  *huma.Schema
}

func newDocument(version string) *document {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[blobd.Principal](), reflect.TypeFor[principal]())
	return &document{
		registry: registry,
		problem:  registry.Schema(reflect.TypeFor[wire.Problem](), true, ""),
		api: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "blobd", Version: version,
				Description: "A content store and erasure service for AI reasoning text.",
			},
			Paths: make(map[string]*huma.PathItem),
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "A token belongs to one tenant and carries roles."},
				},
			},
		},
	}
}

// principal is blobd.Principal as a request may spell it.
type principal struct {
	Tenant     string  `json:"tenant"`
	Actor      string  `json:"actor"`
	OnBehalfOf *string `json:"onBehalfOf,omitempty" nullable:"true"`
}

func (d *document) add(r route) {
	op := &huma.Operation{
		OperationID: r.id, Summary: r.about, Tags: []string{tagOf(r.path)},
		Parameters: parametersOf(r), Responses: make(map[string]*huma.Response),
	}
	if r.roles != 0 {
		op.Description = "Roles: " + strings.Join(r.roles.names(), ", ") + "."
		op.Security = []map[string][]string{{"token": {}}}
	}
	if r.request != nil {
		op.RequestBody = &huma.RequestBody{Required: !r.optionalBody, Content: d.content(r.request)}
	}
	for _, answer := range r.answers {
		op.Responses[strconv.Itoa(answer.status)] = d.response(answer)
	}
	if r.act == nil {
		op.Responses["501"] = d.problems("not in this version")
	}
	op.Responses["default"] = d.problems("an RFC 9457 problem")
	path := strings.Replace(r.path, "...}", "}", 1)
	item := d.api.Paths[path]
	if item == nil {
		item = new(huma.PathItem)
		d.api.Paths[path] = item
	}
	place(item, r.method, op)
}

func place(item *huma.PathItem, method string, op *huma.Operation) {
	switch method {
	case http.MethodGet:
		item.Get = op
	case http.MethodHead:
		item.Head = op
	case http.MethodPost:
		item.Post = op
	case http.MethodPut:
		item.Put = op
	case http.MethodDelete:
		item.Delete = op
	}
}

// tagOf groups routes by the first word after the version.
func tagOf(path string) string {
	words := strings.Split(strings.TrimPrefix(path, "/v1"), "/")
	if !strings.HasPrefix(path, "/v1/") {
		return "operations"
	}
	return words[1]
}

func parametersOf(r route) []*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	var out []*huma.Param
	for _, segment := range strings.Split(r.path, "/") {
		name, ok := strings.CutPrefix(segment, "{")
		if !ok {
			continue
		}
		name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
		out = append(out, &huma.Param{Name: name, In: "path", Required: true, Schema: text, Description: aboutPath(name)})
	}
	for _, p := range r.query {
		out = append(out, &huma.Param{Name: p.name, In: "query", Schema: text, Description: p.about})
	}
	headers := r.headers
	if strings.Contains(r.path, "{executionId}") {
		headers = append(headers[:len(headers):len(headers)],
			param{wire.HeaderExecutionID, "base64url of the id, where the path has - in its place"})
	}
	if r.roles != 0 && !r.deployment {
		headers = append(headers[:len(headers):len(headers)], param{wire.HeaderTenant, "the tenant; for admin tokens only"})
	}
	for _, p := range headers {
		out = append(out, &huma.Param{Name: p.name, In: "header", Schema: text, Description: p.about})
	}
	return out
}

func aboutPath(name string) string {
	switch name {
	case "executionId":
		return "1 to 256 bytes of UTF-8, percent-encoded"
	case "ref":
		return "sha256: and 64 lowercase hex digits"
	}
	return ""
}

func (d *document) response(a reply) *huma.Response {
	r := &huma.Response{Description: http.StatusText(a.status), Headers: make(map[string]*huma.Param)}
	text := &huma.Schema{Type: huma.TypeString}
	for _, name := range append([]string{wire.HeaderRequestID}, a.headers...) {
		r.Headers[name] = &huma.Param{Schema: text}
	}
	if a.body != nil {
		r.Content = d.content(a.body)
	}
	return r
}

func (d *document) problems(about string) *huma.Response {
	return &huma.Response{
		Description: about,
		Content:     map[string]*huma.MediaType{wire.TypeProblem: {Schema: d.problem}},
	}
}

func (d *document) content(body any) map[string]*huma.MediaType {
	switch b := body.(type) {
	case rawBody:
		return map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	case textBody:
		return map[string]*huma.MediaType{string(b): {Schema: &huma.Schema{Type: huma.TypeString}}}
	case orCSV:
		both := d.content(b.body)
		both[wire.TypeCSV] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		return both
	}
	schema := d.registry.Schema(reflect.TypeOf(body), true, "")
	return map[string]*huma.MediaType{wire.TypeJSON: {Schema: schema}}
}

// finish says what the type of a field cannot: a struct that may be null.
func (d *document) finish() {
	for _, f := range []struct{ schema, field string }{
		{"Captured", "event"}, {"DryRun", "coverage"}, {"Explanation", "rule"}, {"Explanation", "lastSweep"},
	} {
		schema := d.registry.Map()[f.schema]
		field := schema.Properties[f.field]
		schema.Properties[f.field] = &huma.Schema{
			Description: field.Description,
			AnyOf:       []*huma.Schema{{Ref: field.Ref}, {Type: "null"}},
		}
	}
}
