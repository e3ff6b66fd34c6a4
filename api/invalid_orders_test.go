package api_test

import (
	"strings"

	"github.com/blobd/blobd/api/wire"
)

// badOrders are refused requests about holds, restrictions, suppressions, decisions
// and reports.
func badOrders() []bad {
	const hold = `"matter":"m","reason":"r","owner":"o"`
	x := `"scope":{"executionId":"x"}`
	rows := []struct {
		name, role, method, path, body string
		code                           wire.Code
	}{
		{"hold without a scope", "holds", "POST", "/v1/holds", `{` + hold + `}`, wire.CodeInvalid},
		{"hold of two scopes", "holds", "POST", "/v1/holds", `{"scope":{"class":"a","executionId":"x"},` + hold + `}`, wire.CodeInvalid},
		{"hold of null refs", "holds", "POST", "/v1/holds", `{"scope":{"executionId":"x","refs":null},` + hold + `}`, wire.CodeInvalid},
		{"hold of no refs", "holds", "POST", "/v1/holds", `{"scope":{"executionId":"x","refs":[]},` + hold + `}`, wire.CodeInvalid},
		{"hold of a date alone", "holds", "POST", "/v1/holds", `{"scope":{"capturedBefore":"2026-01-01T00:00:00Z"},` + hold + `}`, wire.CodeInvalid},
		{"hold without a matter", "holds", "POST", "/v1/holds", `{` + x + `,"reason":"r","owner":"o"}`, wire.CodeInvalid},
		{"hold without a reason", "holds", "POST", "/v1/holds", `{` + x + `,"matter":"m","owner":"o"}`, wire.CodeInvalid},
		{"hold without an owner", "holds", "POST", "/v1/holds", `{` + x + `,"matter":"m","reason":"r"}`, wire.CodeInvalid},
		{"hold with a long matter", "holds", "POST", "/v1/holds", `{` + x + `,"matter":"` + strings.Repeat("m", 1025) + `","reason":"r","owner":"o"}`, wire.CodeInvalid},
		{"hold reviewed in the past", "holds", "POST", "/v1/holds", `{` + x + `,` + hold + `,"reviewAt":"2020-01-01T00:00:00Z"}`, wire.CodeInvalid},
		{"hold with an unknown field", "holds", "POST", "/v1/holds", `{` + x + `,` + hold + `,"expiresAt":"2999-01-01T00:00:00Z"}`, wire.CodeUnknownField},
		{"hold with a bad key", "holds", "POST", "/v1/holds", `[]`, wire.CodeInvalid},
		{"state of a hold", "holds", "GET", "/v1/holds?state=lifted", "", wire.CodeInvalid},
		{"cursor of holds", "holds", "GET", "/v1/holds?cursor=" + b64("x"), "", wire.CodeInvalid},
		{"release with an unknown field", "holds", "DELETE", "/v1/holds/x", `{"why":"r"}`, wire.CodeUnknownField},
		{"release with a long reason", "holds", "DELETE", "/v1/holds/x", `{"reason":"` + strings.Repeat("r", 1025) + `"}`, wire.CodeInvalid},
		{"restriction without a reason", "dpo", "POST", "/v1/restrictions", `{` + x + `}`, wire.CodeInvalid},
		{"restriction with an empty purpose", "dpo", "POST", "/v1/restrictions", `{` + x + `,"reason":"r","purposes":[""]}`, wire.CodeInvalid},
		{"state of a restriction", "dpo", "GET", "/v1/restrictions?state=released", "", wire.CodeInvalid},
		{"suppression of an execution", "dpo", "POST", "/v1/suppressions", `{` + x + `,"reason":"r"}`, wire.CodeInvalid},
		{"suppression of nobody", "dpo", "POST", "/v1/suppressions", `{"scope":{"subjects":[]},"reason":"r"}`, wire.CodeInvalid},
		{"suppression without subjects", "dpo", "POST", "/v1/suppressions", `{"reason":"r"}`, wire.CodeInvalid},
		{"suppression of subjects twice", "dpo", "POST", "/v1/suppressions", `{"scope":{"subjects":["` + canarySubject + `"]},"subjects":["a"],"reason":"r"}`, wire.CodeInvalid},
		{"suppression without a reason", "dpo", "POST", "/v1/suppressions", `{"subjects":["` + canarySubject + `"]}`, wire.CodeInvalid},
		{"suppression that ended", "dpo", "POST", "/v1/suppressions", `{"subjects":["a"],"reason":"r","expiresAt":"2020-01-01T00:00:00Z"}`, wire.CodeInvalid},
		{"approval without a digest", "approver", "POST", "/v1/erasures/x/approve", `{}`, wire.CodeInvalid},
		{"approval without a body", "approver", "POST", "/v1/erasures/x/approve", ``, wire.CodeInvalid},
		{"approval of half a digest", "approver", "POST", "/v1/erasures/x/approve", `{"planDigest":"` + strings.Repeat("a", 63) + `"}`, wire.CodeInvalid},
		{"approval in upper case", "approver", "POST", "/v1/erasures/x/approve", `{"planDigest":"` + strings.Repeat("A", 64) + `"}`, wire.CodeInvalid},
		{"denial code", "approver", "POST", "/v1/erasures/x/deny", `{"code":"BECAUSE"}`, wire.CodeInvalid},
		{"denial with an unknown field", "approver", "POST", "/v1/erasures/x/deny", `{"planDigest":"x"}`, wire.CodeUnknownField},
		{"cancellation with a list", "dpo", "POST", "/v1/erasures/x/cancel", `[]`, wire.CodeInvalid},
		{"ref to explain", "dpo", "GET", "/v1/blobs/sha256:0/explain", "", wire.CodeInvalid},
		{"execution to explain", "dpo", "GET", "/v1/blobs/" + anyRef + "/explain?executionId=..", "", wire.CodeInvalid},
		{"span of a report", "dpo", "GET", "/v1/reports/erasures?from=yesterday", "", wire.CodeInvalid},
		{"span that ends before it begins", "dpo", "GET", "/v1/reports/holds?from=2026-02-01&to=2026-01-01", "", wire.CodeInvalid},
		{"limit of a report", "dpo", "GET", "/v1/reports/sweeps?limit=1", "", wire.CodeInvalid},
		{"regime of a listing", "dpo", "GET", "/v1/erasures?regime=none", "", wire.CodeInvalid},
		{"due date of a listing", "dpo", "GET", "/v1/erasures?dueBefore=soon", "", wire.CodeInvalid},
		{"limit of a listing as CSV", "dpo", "GET", "/v1/erasures?limit=0", "", wire.CodeInvalid},
		{"approvals below 0", "admin", "PUT", "/v1/tenants/default/approvals", `{"erasures":-1}`, wire.CodeInvalid},
		{"approvals of too many", "admin", "PUT", "/v1/tenants/default/approvals", `{"erasures":17}`, wire.CodeInvalid},
		{"approvals of nothing", "admin", "PUT", "/v1/tenants/default/approvals", `{}`, wire.CodeInvalid},
		{"end with a member", "runtime", "POST", "/v1/executions/x/end", `{"endedAt":"2026-01-01T00:00:00Z"}`, wire.CodeUnknownField},
		{"end with a list", "runtime", "POST", "/v1/executions/x/end", `[]`, wire.CodeInvalid},
		{"policy deleted with a member", "dpo", "DELETE", "/v1/policies/reasoning", `{"existing":true}`, wire.CodeUnknownField},
		{"tenant deleted with a member", "admin", "DELETE", "/v1/tenants/none", `{"dryRun":true}`, wire.CodeUnknownField},
		{"token deleted with a member", "admin", "DELETE", "/v1/tokens/none", `{"dryRun":true}`, wire.CodeUnknownField},
		{"clock confirmed with a member", "operator", "POST", "/v1/clock/confirm", `{"now":"2026-01-01T00:00:00Z"}`, wire.CodeUnknownField},
		{"approvals of a bad tenant", "admin", "PUT", "/v1/tenants/A/approvals", `{"erasures":1}`, wire.CodeInvalid},
	}
	var out []bad
	for _, r := range rows {
		var headers []string
		if strings.Contains(r.name, "as CSV") {
			headers = []string{"Accept", "text/csv"}
		}
		out = append(out, bad{r.name, r.role, r.method, r.path, r.body, headers, 400, r.code})
	}
	many := strings.TrimSuffix(strings.Repeat(`"p",`, 33), ",")
	return append(out,
		bad{"too many purposes", "dpo", "POST", "/v1/restrictions", `{` + x + `,"reason":"r","purposes":[` + many + `]}`, nil, 413, wire.CodeTooLarge},
		bad{"too many subjects", "dpo", "POST", "/v1/suppressions", `{"subjects":[` + strings.TrimSuffix(strings.Repeat(`"p",`, 257), ",") + `],"reason":"r"}`, nil, 413, wire.CodeTooLarge},
		bad{"unknown hold", "holds", "GET", "/v1/holds/none", "", nil, 404, wire.CodeNotFound},
		bad{"unknown hold to release", "holds", "DELETE", "/v1/holds/none", "", nil, 404, wire.CodeNotFound},
		bad{"unknown restriction", "dpo", "DELETE", "/v1/restrictions/none", "", nil, 404, wire.CodeNotFound},
		bad{"unknown suppression", "dpo", "GET", "/v1/suppressions/none", "", nil, 404, wire.CodeNotFound},
		bad{"unknown erasure to approve", "approver", "POST", "/v1/erasures/none/approve", `{"planDigest":"` + strings.Repeat("a", 64) + `"}`, nil, 404, wire.CodeNotFound},
		bad{"unknown erasure to deny", "approver", "POST", "/v1/erasures/none/deny", `{"code":"DUPLICATE"}`, nil, 404, wire.CodeNotFound},
		bad{"unknown erasure to cancel", "dpo", "POST", "/v1/erasures/none/cancel", "", nil, 404, wire.CodeNotFound},
		bad{"unknown ref to explain", "dpo", "GET", "/v1/blobs/" + anyRef + "/explain", "", nil, 404, wire.CodeNotFound},
		bad{"approvals of an unknown tenant", "admin", "PUT", "/v1/tenants/none/approvals", `{"erasures":1}`, nil, 404, wire.CodeNotFound},
		bad{"unknown report", "dpo", "GET", "/v1/reports/texts", "", nil, 404, wire.CodeNoSuchRoute},
	)
}
