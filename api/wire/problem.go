package wire

// Problem is an RFC 9457 problem document.
type Problem struct {
	Type      string `json:"type" doc:"urn:blobd:problem: and the code"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      Code   `json:"code"`
	Detail    string `json:"detail" doc:"what is wrong with the request; never repeats any of it"`
	RequestID string `json:"requestId"`
	// Refs are the blobs that a corrupt, blob_missing, key_missing or blob_erased
	// problem is about.
	Refs []string `json:"refs,omitempty"`
	// Checks say which dependency keeps /readyz?verbose from being ready.
	Checks []Check `json:"checks,omitempty"`
}

// ProblemTypePrefix begins the type of every problem.
const ProblemTypePrefix = "urn:blobd:problem:"

// Ready is the answer of /readyz while everything answers.
type Ready struct {
	Status string  `json:"status" enum:"ready"`
	Checks []Check `json:"checks,omitempty" doc:"with ?verbose"`
	// Warnings are words for what is degraded though everything answers.
	Warnings []string `json:"warnings,omitempty" doc:"clock_suspect: see GET /v1/clock"`
}

// Check is one dependency.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Error is a word of the closed set, empty while OK.
	Error string `json:"error,omitempty"`
}
