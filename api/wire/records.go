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
	DryRun       bool       `json:"dryRun,omitzero" doc:"only a preview; nothing is changed"`
	GraceSeconds *int64     `json:"graceSeconds,omitempty" minimum:"0" maximum:"2592000" doc:"how long it can be cancelled and everything comes back; reads are null meanwhile; default 0"`
	Callback     *string    `json:"callback,omitempty" maxLength:"2048" doc:"a URL, as of a webhook, that is told of this erasure alone; not of a whole tenant"`
}

// MaxGraceSeconds bounds EraseRequest.GraceSeconds: thirty days.
const MaxGraceSeconds = 30 * 24 * 60 * 60

// Regimes lists the words of EraseRequest.Regime.
func Regimes() []string { return []string{"gdpr", "uk", "ccpa", "lgpd", "custom"} }

// Scope is what an erasure, a hold, a restriction or a suppression covers, in
// exactly one of five forms: executionId; refs and executionId; subjects; class
// and capturedBefore (of a hold or a restriction class alone too); tenant.
type Scope struct {
	ExecutionID    *string    `json:"executionId,omitempty"`
	Refs           []string   `json:"refs,omitzero" maxItems:"1000"`
	Subjects       []string   `json:"subjects,omitzero" maxItems:"256" doc:"what is tagged with any of them"`
	Class          *string    `json:"class,omitempty"`
	CapturedBefore *time.Time `json:"capturedBefore,omitempty" doc:"not included"`
	Tenant         *bool      `json:"tenant,omitempty" enum:"true"`
}

// DryRun is the preview of an erasure: what it would meet, and what would stay.
type DryRun struct {
	Plan     Plan             `json:"plan"`
	Classes  map[string]int64 `json:"classes,omitzero" doc:"blobs in scope per class; absent where they were not looked at one by one"`
	Oldest   *time.Time       `json:"oldest" doc:"first capture in scope; null likewise"`
	Newest   *time.Time       `json:"newest" doc:"last capture in scope; null likewise"`
	Coverage *Coverage        `json:"coverage" doc:"of subjects: what a search by subject can find at all; null: not asked, or not counted in time"`
	Sample   []SampleBlob     `json:"sample" doc:"metadata of some of what is in scope, never a text"`
	Kept     []KeptBlob       `json:"kept" doc:"some of what would stay, and why"`
	Holds    []string         `json:"holds" doc:"ids of open holds that keep something in scope"`
}

// Coverage says how much of what is live is tagged with a subject. What is not
// tagged is not found by one, whomever it names.
type Coverage struct {
	Blobs    int64 `json:"blobs" doc:"live blobs of the tenant"`
	Tagged   int64 `json:"tagged"`
	Untagged int64 `json:"untagged"`
}

// SampleBlob is the metadata of a blob in scope.
type SampleBlob struct {
	ExecutionID *string   `json:"executionId"`
	Ref         string    `json:"ref"`
	Class       string    `json:"class"`
	Size        int64     `json:"size" doc:"readable bytes"`
	CreatedAt   time.Time `json:"createdAt"`
	Held        bool      `json:"held,omitzero"`
	Shared      bool      `json:"shared,omitzero" doc:"it is tagged with another subject too"`
	Erased      bool      `json:"erased,omitzero"`
}

// KeptBlob is a blob that an erasure leaves, and why.
type KeptBlob struct {
	ExecutionID *string    `json:"executionId"`
	Ref         string     `json:"ref"`
	Outcome     Outcome    `json:"outcome" enum:"LEGAL_HOLD,LEGAL_FLOOR"`
	Until       *time.Time `json:"until" doc:"of a floor: its end; null: not known yet"`
}

// Plan counts what a scope holds. What is held, under a floor or shared is among
// blobs too.
type Plan struct {
	Digest        string `json:"digest" doc:"64 hex digits: names the scope and what protects something in it"`
	Executions    int64  `json:"executions"`
	Blobs         int64  `json:"blobs"`
	Bytes         int64  `json:"bytes"`
	Held          int64  `json:"held" doc:"a hold keeps it"`
	Floor         int64  `json:"floor" doc:"a legal floor keeps it"`
	Shared        int64  `json:"shared" doc:"tagged with another subject too; it is erased all the same"`
	AlreadyErased int64  `json:"alreadyErased"`
	NotFound      int64  `json:"notFound"`
}

// Delta counts what an erasure took of its scope, or left in it protected, beyond its
// plan: what joined the scope after the plan was counted, less what left it.
type Delta struct {
	Executions int64 `json:"executions" doc:"negative: so many left the scope"`
	Blobs      int64 `json:"blobs" doc:"likewise"`
	Bytes      int64 `json:"bytes" doc:"likewise; readable"`
}

// Progress counts what was destroyed so far.
type Progress struct {
	KeysDestroyed   int64 `json:"keysDestroyed"`
	ObjectsDeleted  int64 `json:"objectsDeleted"`
	VersionsDeleted int64 `json:"versionsDeleted"`
	Failed          int64 `json:"failed"`
	Remaining       int64 `json:"remaining"`
}

// Outcome is what became of a thing in the scope of an erasure: a closed list.
type Outcome string

// The outcomes.
const (
	OutcomeErased        Outcome = "ERASED"         // its key is destroyed, its object read back as absent
	OutcomeAlreadyErased Outcome = "ALREADY_ERASED" // an earlier erasure did it
	OutcomeNoMatch       Outcome = "NO_MATCH"       // there was nothing
	OutcomeLegalHold     Outcome = "LEGAL_HOLD"     // a hold keeps it; its release completes the erasure
	OutcomeLegalFloor    Outcome = "LEGAL_FLOOR"    // a legal floor keeps it; its end completes the erasure
	OutcomeShared        Outcome = "SHARED_SUBJECT" // it named another person too, and was erased
	OutcomeStoreRefused  Outcome = "STORE_REFUSED"  // its key is destroyed, the object store keeps the sealed bytes
)

// DenialCodes lists why an erasure is denied.
func DenialCodes() []string {
	return []string{
		"ART17_3_A", "ART17_3_B", "ART17_3_C", "ART17_3_D", "ART17_3_E", "LEGAL_FLOOR", "LEGAL_HOLD", "ID_UNVERIFIED",
		"UNFOUNDED_12_5", "NO_MATCH", "SHARED_SUBJECT", "DUPLICATE", "OUT_OF_SCOPE", "CCPA_105_D", "BLOCKED_ES32",
	}
}

// ApproveRequest approves an erasure as it was previewed.
type ApproveRequest struct {
	PlanDigest string `json:"planDigest" pattern:"^[0-9a-f]{64}$" doc:"digest of the plan that is approved; another than the erasure's is 409 plan_drift"`
}

// DenyRequest says why an erasure is denied.
type DenyRequest struct {
	Code   string `json:"code,omitempty" enum:"ART17_3_A,ART17_3_B,ART17_3_C,ART17_3_D,ART17_3_E,LEGAL_FLOOR,LEGAL_HOLD,ID_UNVERIFIED,UNFOUNDED_12_5,NO_MATCH,SHARED_SUBJECT,DUPLICATE,OUT_OF_SCOPE,CCPA_105_D,BLOCKED_ES32"`
	Reason string `json:"reason,omitempty" maxLength:"1024"`
}

// Erasure is an erasure and how far it is.
type Erasure struct {
	ID          string            `json:"id"`
	State       string            `json:"state" enum:"awaiting_approval,grace,running,deferred,erased,partial,denied,cancelled"`
	Scope       Covered           `json:"scope"`
	Plan        Plan              `json:"plan"`
	Delta       *Delta            `json:"delta,omitempty" doc:"what joined the scope after its plan was counted, less what left it; absent while something in it is neither erased nor seen to be protected, and where nothing was planned before"`
	Progress    Progress          `json:"progress"`
	Outcomes    map[Outcome]int64 `json:"outcomes" doc:"how many blobs had which outcome so far"`
	RequestedBy string            `json:"requestedBy" doc:"token id"`
	Approvals   int               `json:"approvals" doc:"how many people must approve"`
	ApprovedBy  []string          `json:"approvedBy" doc:"token ids"`
	DecidedBy   *string           `json:"decidedBy" doc:"token id of who denied or cancelled it"`
	DecidedAt   *time.Time        `json:"decidedAt" doc:"when it was denied or cancelled; null: it was not, or when was not kept yet"`
	Code        *string           `json:"code" doc:"why it was denied"`
	Regime      *string           `json:"regime"`
	ExternalRef *string           `json:"externalRef"`
	RequestedAt time.Time         `json:"requestedAt" doc:"when it was asked for here"`
	ReceivedAt  *time.Time        `json:"receivedAt"`
	DueAt       *time.Time        `json:"dueAt"`
	GraceUntil  *time.Time        `json:"graceUntil" doc:"until then it can be cancelled and everything comes back"`
	ErasedAt    *time.Time        `json:"erasedAt"`
	Clock       *Clock            `json:"clock,omitempty" doc:"absent in a listing, and where there is neither a regime nor a due date"`
	Items       []ErasureItem     `json:"items,omitzero" doc:"what is in scope; absent in a listing"`
	// CallbackSecret is what deliveries to the callback are signed with.
	CallbackSecret string `json:"callbackSecret,omitempty" doc:"whsec_ and base64, where a callback was asked for; in the answer to that request only"`
}

// ErasureItem is one thing in an erasure's scope: all of the scope, or a blob of
// it where Ref is set.
type ErasureItem struct {
	ExecutionID *string `json:"executionId"`
	Tenant      bool    `json:"tenant,omitzero" doc:"the whole tenant"`
	Ref         string  `json:"ref,omitempty"`
	State       string  `json:"state" enum:"awaiting_approval,grace,running,deferred,erased,partial,denied,cancelled"`
	Outcome     Outcome `json:"outcome,omitempty" enum:"ERASED,ALREADY_ERASED,NO_MATCH,LEGAL_HOLD,LEGAL_FLOOR,SHARED_SUBJECT,STORE_REFUSED" doc:"absent while it is open"`
	// Count stands for so many blobs that are not told one by one.
	Count int64 `json:"count,omitzero" doc:"so many blobs, not told one by one"`
	// Of an object that the store keeps: the store's code for why, which version,
	// and until when, if it said so. Of a floor: its end.
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

// Approvals says how many people must approve an act.
type Approvals struct {
	Erasures *int `json:"erasures" minimum:"0" maximum:"16" doc:"0: an erasure needs nobody's approval"`
}

// MaxApprovals bounds Approvals.
const MaxApprovals = 16

// Tenant is a tenant.
type Tenant struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Approvals Approvals `json:"approvals"`
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
