package wire

import "time"

// Execution is an execution's metadata.
type Execution struct {
	ExecutionID *string    `json:"executionId" doc:"null for an erased execution that is known only by its fence"`
	State       string     `json:"state" enum:"open,closed,erased"`
	CloseReason string     `json:"closeReason,omitempty" enum:"erasure_pending,restricted"`
	Blobs       int64      `json:"blobs" doc:"live blobs"`
	Bytes       int64      `json:"bytes" doc:"readable bytes of live blobs"`
	CreatedAt   time.Time  `json:"createdAt"`
	EndedAt     *time.Time `json:"endedAt"`
	ErasedAt    *time.Time `json:"erasedAt"`
}

// ExecutionSummary is an execution with what only a count can tell.
type ExecutionSummary struct {
	Execution
	Classes map[string]int64 `json:"classes" doc:"live blobs per class"`
	Steps   int64            `json:"steps"`
	NextDue *time.Time       `json:"nextDue" doc:"earliest end of a maximum period; null: none"`
	Holds   []string         `json:"holds" doc:"ids of the holds that protect it"`
}

// Executions is one page of executions, newest first.
type Executions struct {
	Items []Execution `json:"items"`
	Next  *string     `json:"next"`
}

// EraseRequest asks for an erasure.
type EraseRequest struct {
	Scope        *Scope     `json:"scope"`
	Reason       string     `json:"reason" minLength:"1" maxLength:"1024"`
	LegalBasis   string     `json:"legalBasis,omitempty" maxLength:"1024"`
	Regime       string     `json:"regime,omitempty" enum:"gdpr,uk,ccpa,lgpd,custom"`
	ReceivedAt   *time.Time `json:"receivedAt,omitempty" doc:"default now; not in the future"`
	DueAt        *time.Time `json:"dueAt,omitempty" doc:"not before receivedAt"`
	ExternalRef  string     `json:"externalRef,omitempty" maxLength:"1024"`
	DryRun       bool       `json:"dryRun,omitzero"`
	GraceSeconds *int64     `json:"graceSeconds,omitempty" minimum:"0" doc:"this version: 0 only"`
	Callback     *string    `json:"callback,omitempty" doc:"not in this version"`
}

// Regimes lists the words of EraseRequest.Regime.
func Regimes() []string { return []string{"gdpr", "uk", "ccpa", "lgpd", "custom"} }

// Scope is what an erasure covers, in exactly one of five forms: executionId;
// refs and executionId; subjects; class and capturedBefore; tenant. This
// version serves the first two and the last.
type Scope struct {
	ExecutionID    *string    `json:"executionId,omitempty"`
	Refs           []string   `json:"refs,omitzero" maxItems:"1000"`
	Subjects       []string   `json:"subjects,omitzero" maxItems:"256"`
	Class          *string    `json:"class,omitempty"`
	CapturedBefore *time.Time `json:"capturedBefore,omitempty"`
	Tenant         *bool      `json:"tenant,omitempty"`
}

// DryRun is the answer to an erasure that only asks.
type DryRun struct {
	Plan Plan `json:"plan"`
}

// Plan counts what a scope holds.
type Plan struct {
	Digest        string `json:"digest" doc:"names the scope and these counts"`
	Executions    int64  `json:"executions"`
	Blobs         int64  `json:"blobs"`
	Bytes         int64  `json:"bytes"`
	Held          int64  `json:"held"`
	Floor         int64  `json:"floor"`
	Shared        int64  `json:"shared"`
	AlreadyErased int64  `json:"alreadyErased"`
	NotFound      int64  `json:"notFound"`
}

// Progress counts what was destroyed so far.
type Progress struct {
	KeysDestroyed   int64 `json:"keysDestroyed"`
	ObjectsDeleted  int64 `json:"objectsDeleted"`
	VersionsDeleted int64 `json:"versionsDeleted"`
	Failed          int64 `json:"failed"`
	Remaining       int64 `json:"remaining"`
}

// Erasure is an erasure and how far it is.
type Erasure struct {
	ID          string        `json:"id"`
	State       string        `json:"state" enum:"awaiting_approval,grace,running,deferred,erased,partial,denied,cancelled"`
	Plan        Plan          `json:"plan"`
	Progress    Progress      `json:"progress"`
	RequestedBy string        `json:"requestedBy" doc:"token id"`
	ApprovedBy  []string      `json:"approvedBy"`
	ReceivedAt  *time.Time    `json:"receivedAt"`
	DueAt       *time.Time    `json:"dueAt"`
	ErasedAt    *time.Time    `json:"erasedAt"`
	Items       []ErasureItem `json:"items,omitzero" doc:"what is in scope; absent in a listing"`
}

// ErasureItem is one thing in an erasure's scope: an execution, or a blob of
// one where Ref is set.
type ErasureItem struct {
	ExecutionID *string `json:"executionId"`
	Tenant      bool    `json:"tenant,omitzero" doc:"the whole tenant"`
	Ref         string  `json:"ref,omitempty"`
	State       string  `json:"state" enum:"awaiting_approval,grace,running,deferred,erased,partial,denied,cancelled"`
	// Of an object that the store keeps: the store's code for why, which version,
	// and until when, if it said so.
	Reason  string     `json:"reason,omitempty"`
	Version string     `json:"version,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
}

// Erasures is one page of erasures, newest first.
type Erasures struct {
	Items []Erasure `json:"items"`
	Next  *string   `json:"next"`
}

// NewTenant asks for a tenant.
type NewTenant struct {
	ID string `json:"id" pattern:"^[a-z][a-z0-9-]{0,62}$"`
}

// Tenant is a tenant.
type Tenant struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// Of a tenant that was off-boarded: when, by which erasure, and, where one
	// tenant is asked for, how far that is.
	OffboardedAt *time.Time `json:"offboardedAt,omitempty"`
	ErasureID    string     `json:"erasureId,omitempty"`
	ErasureState string     `json:"erasureState,omitempty" enum:"running,partial,erased"`
}

// Tenants is one page of tenants, by id.
type Tenants struct {
	Items []Tenant `json:"items"`
	Next  *string  `json:"next"`
}

// NewToken asks for a token of the request's tenant.
type NewToken struct {
	Name      string     `json:"name,omitempty" maxLength:"256"`
	Roles     []string   `json:"roles" minItems:"1"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"in the future; absent: never"`
	// Tenant names the tenant as the header Blobd-Tenant does.
	Tenant string `json:"tenant,omitempty"`
}

// Token is a token without its secret.
type Token struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`
	Name      string     `json:"name"`
	Roles     []string   `json:"roles"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
	RevokedAt *time.Time `json:"revokedAt"`
}

// CreatedToken is a new token with its secret, shown once.
type CreatedToken struct {
	Token
	Secret string `json:"token" doc:"shown once"`
}

// Tokens is one page of a tenant's tokens, by id.
type Tokens struct {
	Items []Token `json:"items"`
	Next  *string `json:"next"`
}
