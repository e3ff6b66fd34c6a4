package api

import (
	"github.com/blobd/blobd/api/wire"
)

// route is one row of the table: all that is known of one method of one path.
type route struct {
	method string
	path   string // a ServeMux pattern without its method
	id     string // operation id
	about  string
	roles  roleSet // who may; 0: everyone, without a token
	// deployment: acts on the whole deployment and not on one tenant.
	deployment bool
	// tenantInBody: the body may name the tenant as Blobd-Tenant does.
	tenantInBody bool
	query        []param // at most maxQuery
	headers      []param
	request      any // a wire type, rawBody, or nil
	// optionalBody: a request without a body is one with an empty object.
	optionalBody bool
	answers      []reply
	// ownDeadline: the core bounds the whole call by itself.
	ownDeadline bool
	// needs is what this server must have for it, said before anything about the
	// request is; nil: nothing.
	needs func(*API) error
	act   func(*API, *call) error // nil: not in this version
}

// maxQuery bounds the query keys of one route.
const maxQuery = 6

// param is a query key or a header.
type param struct{ name, about string }

// reply is one answer that is not a problem. body is a wire type, rawBody, a
// media type of ours, or nil.
type reply struct {
	status  int
	body    any
	headers []string
}

// rawBody stands for the exact bytes of a blob.
type rawBody struct{}

// textBody stands for an answer that is neither JSON nor a blob.
type textBody string

// orCSV is an answer in JSON that Accept: text/csv has as CSV.
type orCSV struct{ body any }

// roleSet is a set of roles.
type roleSet uint8

const (
	runtimeRole roleSet = 1 << iota
	auditorRole
	dpoRole
	holdsRole
	approverRole
	operatorRole
	adminRole

	tenantRoles = runtimeRole | auditorRole | dpoRole | holdsRole | approverRole | operatorRole
	anyRole     = tenantRoles | adminRole
)

// roleBits gives the bit of each word.
func roleBits() map[string]roleSet {
	bits := make(map[string]roleSet)
	for i, name := range wire.Roles() {
		bits[name] = 1 << i
	}
	return bits
}

// names lists the roles of a set.
func (s roleSet) names() []string {
	var out []string
	for i, name := range wire.Roles() {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Paths that several routes share.
const (
	pathExecution = "/v1/executions/{executionId}"
	pathBlobs     = pathExecution + "/blobs"
	pathBlob      = pathBlobs + "/{ref}"
	pathErasures  = "/v1/erasures"
	pathErasure   = pathErasures + "/{id}"
	pathTenants   = "/v1/tenants"
	pathTenant    = pathTenants + "/{id}"
	pathTokens    = "/v1/tokens"
	pathToken     = pathTokens + "/{id}"
)

// routes is the table of routes: these, and those that this version does not
// have yet.
func routes() []route {
	var table []route
	for _, part := range [][]route{
		blobRoutes(), recordRoutes(), erasureRoutes(), clockRoutes(), orderRoutes(), reportRoutes(), adminRoutes(), retentionRoutes(), ledgerClockRoutes(),
		evidenceRoutes(), webhookRoutes(), openRoutes(), laterRoutes(),
	} {
		table = append(table, part...)
	}
	return table
}

func blobRoutes() []route {
	resolve := route{
		path: pathBlob, about: "the exact bytes of a blob, or the definitive null", roles: runtimeRole,
		query: []param{
			{"stepId", "recorded, never deciding"},
			{"origin", "recorded, never deciding"},
		},
		headers: []param{
			{wire.HeaderExpectDigest, "hex digest that the caller expects; another is a null"},
			{wire.HeaderPrincipal, "base64url JSON principal"},
		},
		answers: []reply{{200, rawBody{}, []string{wire.HeaderReprDigest, wire.HeaderKind, wire.HeaderClass}}},
		act:     (*API).resolveOne, ownDeadline: true,
	}
	get, head := resolve, resolve
	get.method, get.id = "GET", "resolveBlob"
	head.method, head.id = "HEAD", "probeBlob"
	return []route{
		{
			method: "POST", path: pathBlobs, id: "putBlob", about: "keep one text", roles: runtimeRole,
			query: []param{
				{"stepId", "0 to 512 bytes"},
				{"attempt", "0 or more; default 1"},
				{"class", "default reasoning"},
				{"kind", "text (default) or summary"},
				{"provider", ""},
				{"model", ""},
			},
			headers: []param{
				{wire.HeaderReprDigest, "RFC 9530; another digest stores nothing"},
				{wire.HeaderSubjects, "structured-field list of strings"},
				{wire.HeaderAudience, "base64url JSON array of principals"},
			},
			request: rawBody{}, act: (*API).put, ownDeadline: true,
			answers: []reply{
				{201, wire.Stored{}, []string{headerLocation}},
				{200, wire.Stored{}, []string{headerLocation}},
			},
		},
		get, head,
		{
			method: "POST", path: pathExecution + "/captures", id: "capture", roles: runtimeRole,
			about:   "keep the reasoning of one model call, all or nothing",
			request: wire.CaptureRequest{}, act: (*API).capture, answers: []reply{{201, wire.Captured{}, nil}},
		},
		{
			method: "POST", path: pathExecution + "/resolve", id: "resolveBatch", roles: runtimeRole,
			about:   "bytes or null for every part, or one error for all",
			request: wire.ResolveRequest{}, act: (*API).resolveBatch, ownDeadline: true,
			answers: []reply{{200, wire.Resolved{}, nil}},
		},
		{
			method: "POST", path: pathExecution + "/reasoning/read", id: "readReasoning", roles: auditorRole,
			about:   "read reasoning as a person; who read what is recorded first",
			request: wire.ReadRequest{}, act: (*API).readReasoning, ownDeadline: true,
			answers: []reply{{200, wire.ReadAnswer{}, nil}},
		},
	}
}

func recordRoutes() []route {
	return []route{
		{
			method: "GET", path: pathExecution, id: "getExecution", roles: auditorRole,
			about: "metadata of an execution", act: (*API).execution, answers: []reply{{200, wire.ExecutionSummary{}, nil}},
		},
		{
			method: "GET", path: "/v1/executions", id: "listExecutions", roles: auditorRole,
			about: "executions, newest first", act: (*API).listExecutions,
			query:   append(listQuery(), param{"state", "open, closed or erased"}, param{"class", "has a live blob of it"}),
			answers: []reply{{200, wire.Executions{}, nil}},
		},
	}
}

func adminRoutes() []route {
	return []route{
		{
			method: "POST", path: pathTenants, id: "createTenant", roles: adminRole, deployment: true,
			about: "make a tenant", request: wire.NewTenant{}, act: (*API).createTenant,
			answers: []reply{{201, wire.Tenant{}, []string{headerLocation}}},
		},
		{
			method: "GET", path: pathTenants, id: "listTenants", roles: adminRole, deployment: true,
			about: "tenants, by id", query: listQuery(), act: (*API).listTenants,
			answers: []reply{{200, wire.Tenants{}, nil}},
		},
		{
			method: "GET", path: pathTenant, id: "getTenant", roles: adminRole, deployment: true,
			about: "one tenant", act: (*API).tenant, answers: []reply{{200, wire.Tenant{}, nil}},
		},
		{
			method: "DELETE", path: pathTenant, id: "offboardTenant", roles: adminRole, deployment: true,
			about: "off-board a tenant: erase all of it, for ever; 202 once the fence is committed and journalled",
			query: []param{{"dryRun", "true: count what would be erased, and do nothing"}}, act: (*API).offboardTenant,
			answers: []reply{{202, wire.Erasure{}, []string{headerLocation}}, {200, wire.DryRun{}, nil}},
		},
		{
			method: "PUT", path: pathTenant + "/approvals", id: "setApprovals", roles: adminRole, deployment: true,
			about:   "how many people must approve an erasure of the tenant; those asked for before keep theirs",
			request: wire.Approvals{}, act: (*API).setApprovals, answers: []reply{{200, wire.Tenant{}, nil}},
		},
		{
			method: "POST", path: pathTokens, id: "createToken", roles: adminRole,
			about:   "make a token; it is shown once",
			headers: []param{{wire.HeaderIdempotencyKey, "1 to 255 visible ASCII characters"}},
			request: wire.NewToken{}, tenantInBody: true, act: (*API).createToken,
			answers: []reply{{201, wire.CreatedToken{}, []string{headerLocation}}},
		},
		{
			method: "GET", path: pathTokens, id: "listTokens", roles: adminRole,
			about: "a tenant's tokens, by id", query: listQuery(), act: (*API).listTokens,
			answers: []reply{{200, wire.Tokens{}, nil}},
		},
		{
			method: "GET", path: pathToken, id: "getToken", roles: adminRole,
			about: "one token", act: (*API).token, answers: []reply{{200, wire.Token{}, nil}},
		},
		{
			method: "DELETE", path: pathToken, id: "revokeToken", roles: adminRole,
			about: "revoke a token", act: (*API).revokeToken, answers: []reply{{204, nil, nil}},
		},
	}
}

func openRoutes() []route {
	return []route{
		{
			method: "GET", path: "/livez", id: "livez", about: "the process serves",
			act: (*API).livez, answers: []reply{{200, textBody("text/plain"), nil}},
		},
		{
			method: "GET", path: "/readyz", id: "readyz", about: "every dependency answers",
			query: []param{{"verbose", "name the dependencies"}},
			act:   (*API).readyz, answers: []reply{{200, wire.Ready{}, nil}},
		},
		{
			method: "GET", path: "/metrics", id: "metrics", about: "Prometheus metrics",
			act: (*API).serveMetrics, answers: []reply{{200, textBody("text/plain"), nil}},
		},
		{
			method: "GET", path: "/openapi.json", id: "openapi", about: "this document",
			act: (*API).openAPI, answers: []reply{{200, map[string]any{}, nil}},
		},
		{
			method: "GET", path: "/docs", id: "docs", about: "this document, for people",
			act: (*API).serveDocs, answers: []reply{{200, textBody("text/html"), nil}},
		},
	}
}

func listQuery() []param {
	return []param{{"limit", "1 to 1000; default 100"}, {"cursor", "next of the page before"}}
}
