package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
	backendfaulty "github.com/blobd/blobd/backends/faulty"
	"github.com/blobd/blobd/ledger"
	"github.com/blobd/blobd/resolver"
	"github.com/blobd/blobd/store"
)

// scene is a text in one of the states, beside a live one in its execution.
type scene struct {
	*node
	execution string
	text      string
	ref       blobd.Ref
	digest    blobd.Digest
	beside    store.Stored
}

const besideText = "a text that stays"

func newScene(t *testing.T) *scene {
	s := &scene{node: memParts(t).start(t), execution: "run", text: "because of that"}
	s.beside = s.mustPut(t, s.execution, besideText)
	stored := s.mustPut(t, s.execution, s.text)
	s.ref, s.digest = stored.Ref, stored.Digest
	return s
}

func (s *scene) restart(t *testing.T) { s.node = s.parts.start(t) }

func (s *scene) objectName(t *testing.T) string {
	t.Helper()
	for _, name := range s.sealedObjects(t, s.execution) {
		if p, _ := backends.ParseBlobName(name); p.Ref == s.ref {
			return name
		}
	}
	t.Fatal("the object is not there")
	return ""
}

func (s *scene) removeObject(t *testing.T) {
	t.Helper()
	if _, err := s.parts.objects.Erase(t.Context(), backends.Scope{Names: []string{s.objectName(t)}}); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) close(t *testing.T, why ledger.CloseReason) {
	t.Helper()
	now := s.clock.Now()
	scope := ledger.Scope{Tenant: tenant, Tag: s.tag(t, s.execution), ExecutionID: s.execution}
	var err error
	if why == ledger.ClosedRestricted {
		o := ledger.Order{ID: "restriction", Kind: ledger.OrderRestriction, Scope: scope, PlacedAt: now}
		_, _, err = s.parts.ledger.PlaceOrder(t.Context(), o, ledger.Entry{Tenant: tenant, Kind: ledger.EntryOrder, At: now, Body: []byte(`{}`)})
	} else {
		grace := now.Add(time.Hour)
		_, _, err = s.parts.ledger.Fence(t.Context(), ledger.Fence{ID: "in-grace", Scope: scope, At: now, RunAt: grace, GraceUntil: grace})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The answers of a runtime.
const (
	isText = "text"
	isNull = "null"
)

// answers is one row of the table "States and answers".
type answers struct {
	state string
	make  func(t *testing.T, s *scene)
	// resolve is isText, isNull or an error; a batch with the text beside is the
	// same, the whole of it where it is an error.
	resolve any
	read    resolver.Status // with the caller's events
	records resolver.Status // from our own records; "": no part
	put     any             // sameRef, newRef or an error
	capture any             // likewise, or a ledger.PartStatus
	// besideNull: the whole execution is null.
	besideNull bool
}

type putAnswer string

const (
	sameRef putAnswer = "same ref"
	newRef  putAnswer = "new ref"
)

func statesAndAnswers() []answers {
	return []answers{
		{
			state: "live", make: func(*testing.T, *scene) {},
			resolve: isText, read: resolver.StatusOK, records: resolver.StatusOK, put: sameRef, capture: sameRef,
		},
		{
			state: "past its maximum",
			make: func(t *testing.T, s *scene) {
				e := ledger.Entry{Tenant: tenant, Kind: ledger.EntryPolicy, At: s.clock.Now(), Body: []byte(`{}`)}
				if err := s.parts.ledger.SetPolicy(t.Context(), ledger.Policy{
					Tenant: tenant, Class: reason, Existing: true, Rule: ledger.Rule{Maximum: ledger.Period{Time: time.Hour}},
				}, e); err != nil {
					t.Fatal(err)
				}
				s.clock.advance(time.Hour)
			},
			resolve: isNull, read: resolver.StatusExpired, records: resolver.StatusExpired, put: newRef, capture: newRef, besideNull: true,
		},
		{
			state: "swept, its object not gone yet",
			make: func(t *testing.T, s *scene) {
				s.setMaximum(t, time.Hour)
				s.clock.advance(time.Hour)
				s.startSweep(t)
				s.objects.Fail("erase", 0, backendfaulty.Before, errDown)
				if _, err := s.sweeps.RunOne(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.restart(t)
			},
			resolve: isNull, read: resolver.StatusExpired, records: resolver.StatusExpired, put: newRef, capture: newRef, besideNull: true,
		},
		{
			state: "swept",
			make: func(t *testing.T, s *scene) {
				s.setMaximum(t, time.Hour)
				s.clock.advance(time.Hour)
				s.sweep(t)
			},
			resolve: isNull, read: resolver.StatusExpired, records: resolver.StatusExpired, put: newRef, capture: newRef, besideNull: true,
		},
		{
			state: "closed: restricted", make: func(t *testing.T, s *scene) { s.close(t, ledger.ClosedRestricted) },
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrRestricted, capture: blobd.ErrRestricted, besideNull: true,
		},
		{
			state: "closed: grace or deferred", make: func(t *testing.T, s *scene) { s.close(t, ledger.ClosedErasure) },
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "refs restricted",
			make: func(t *testing.T, s *scene) {
				if _, err := s.store.Restrict(t.Context(), store.OrderRequest{Tenant: tenant, ExecutionID: s.execution, Refs: []blobd.Ref{s.ref}}); err != nil {
					t.Fatal(err)
				}
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrRestricted, capture: blobd.ErrRestricted,
		},
		{
			state: "refs closed: grace",
			make: func(t *testing.T, s *scene) {
				s.mustEraseBy(t, func(r *store.EraseRequest) {
					r.ExecutionID, r.Refs, r.Grace = s.execution, []blobd.Ref{s.ref}, time.Hour
				})
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed,
		},
		{
			state: "restricted, and refs closed: the closing is told",
			make: func(t *testing.T, s *scene) {
				s.close(t, ledger.ClosedRestricted)
				s.mustEraseBy(t, func(r *store.EraseRequest) {
					r.ExecutionID, r.Refs, r.Grace = s.execution, []blobd.Ref{s.ref}, time.Hour
				})
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "class closed: grace",
			make: func(t *testing.T, s *scene) {
				s.mustEraseBy(t, func(r *store.EraseRequest) { r.Class, r.Grace = reason, time.Hour })
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "tenant closed: grace",
			make: func(t *testing.T, s *scene) {
				s.mustEraseBy(t, func(r *store.EraseRequest) { r.WholeTenant, r.Grace = true, time.Hour })
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "erased, but for what is held",
			make: func(t *testing.T, s *scene) {
				s.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = s.execution, []blobd.Ref{s.ref} })
				s.mustErase(t, s.execution)
				s.work(t)
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrClosed, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "erased beside what is held",
			make: func(t *testing.T, s *scene) {
				s.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID, r.Refs = s.execution, []blobd.Ref{s.beside.Ref} })
				s.mustErase(t, s.execution)
				s.work(t)
			},
			resolve: isNull, read: resolver.StatusRestricted, records: resolver.StatusRestricted,
			put: blobd.ErrBlobErased, capture: blobd.ErrClosed, besideNull: true,
		},
		{
			state: "cancelled in its grace",
			make: func(t *testing.T, s *scene) {
				e := s.mustEraseBy(t, func(r *store.EraseRequest) { r.ExecutionID, r.Grace = s.execution, time.Hour })
				if _, err := s.store.Cancel(t.Context(), tenant, e.ID, "dpo", "a mistake"); err != nil {
					t.Fatal(err)
				}
			},
			resolve: isText, read: resolver.StatusOK, records: resolver.StatusOK, put: sameRef, capture: sameRef,
		},
		{
			state: "held, not past its maximum", make: func(t *testing.T, s *scene) {
				s.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = s.execution })
			},
			resolve: isText, read: resolver.StatusOK, records: resolver.StatusOK, put: sameRef, capture: sameRef,
		},
		{
			state: "held, past its maximum, swept",
			make: func(t *testing.T, s *scene) {
				s.mustHold(t, func(r *store.OrderRequest) { r.ExecutionID = s.execution })
				s.setMaximum(t, time.Hour)
				s.clock.advance(time.Hour)
				s.sweep(t)
			},
			resolve: isNull, read: resolver.StatusOK, records: resolver.StatusOK, put: newRef, capture: newRef, besideNull: true,
		},
		{
			state: "blob erased in a living execution, job open", make: func(t *testing.T, s *scene) { s.mustErase(t, s.execution, s.ref) },
			resolve: isNull, read: resolver.StatusErased, records: resolver.StatusErased,
			put: blobd.ErrBlobErased, capture: ledger.PartOmitted,
		},
		{
			state:   "blob erased in a living execution, job done",
			make:    func(t *testing.T, s *scene) { s.mustErase(t, s.execution, s.ref); s.runJobs(t) },
			resolve: isNull, read: resolver.StatusErased, records: resolver.StatusErased,
			put: blobd.ErrBlobErased, capture: ledger.PartOmitted,
		},
		{
			state: "execution erased, job open", make: func(t *testing.T, s *scene) { s.mustErase(t, s.execution) },
			resolve: isNull, read: resolver.StatusErased, records: resolver.StatusErased,
			put: blobd.ErrErased, capture: blobd.ErrErased, besideNull: true,
		},
		{
			state: "execution erased, job done", make: func(t *testing.T, s *scene) { s.mustErase(t, s.execution); s.runJobs(t) },
			resolve: isNull, read: resolver.StatusErased, records: resolver.StatusErased,
			put: blobd.ErrErased, capture: blobd.ErrErased, besideNull: true,
		},
		{
			state: "object missing", make: func(t *testing.T, s *scene) { s.removeObject(t); s.restart(t) },
			resolve: blobd.ErrMissing, read: resolver.StatusMissing, records: resolver.StatusMissing, put: sameRef, capture: sameRef,
		},
		{
			state: "object damaged",
			make: func(t *testing.T, s *scene) {
				name := s.objectName(t)
				s.removeObject(t)
				if err := s.parts.objects.Put(t.Context(), name, []byte("not what was sealed")); err != nil {
					t.Fatal(err)
				}
				s.restart(t)
			},
			resolve: blobd.ErrCorrupt, read: resolver.StatusMismatch, records: resolver.StatusMismatch, put: sameRef, capture: sameRef,
		},
		{
			// Nothing can be restored without the key: the put is an error too.
			state: "key missing",
			make: func(t *testing.T, s *scene) {
				s.restart(t) // nothing in memory any more
				if err := s.parts.keys.Destroy(t.Context(), tenant); err != nil {
					t.Fatal(err)
				}
			},
			resolve: blobd.ErrKeyMissing, read: resolver.StatusMissing, records: resolver.StatusMissing,
			put: blobd.ErrKeyMissing, capture: blobd.ErrKeyMissing,
		},
		{
			state: "loss accepted",
			make: func(t *testing.T, s *scene) {
				s.removeObject(t)
				if err := s.store.AcceptLoss(t.Context(), tenant, s.execution, []blobd.Ref{s.ref}, "token"); err != nil {
					t.Fatal(err)
				}
			},
			resolve: isNull, read: resolver.StatusLost, records: resolver.StatusLost, put: newRef, capture: newRef,
		},
		{
			state: "row entered as missing",
			make: func(t *testing.T, s *scene) {
				s.ref = blobd.RefOf([]byte("an object of a lost row"))
				s.text = "a text of a lost row"
				s.digest = blobd.DigestOf([]byte(s.text))
				p := ledger.Position{Tag: s.tag(t, s.execution), Ref: s.ref}
				if n, err := s.parts.ledger.EnterMissing(t.Context(), []ledger.Position{p}, s.clock.Now()); n != 1 || err != nil {
					t.Fatalf("enter missing: %d, %v", n, err)
				}
			},
			resolve: blobd.ErrMissing, read: resolver.StatusMissing, records: resolver.StatusMissing, put: newRef, capture: newRef,
		},
		{
			state: "never stored",
			make: func(t *testing.T, s *scene) {
				s.ref = blobd.RefOf([]byte("nobody's"))
				s.text = "a text that nobody put"
				s.digest = blobd.DigestOf([]byte(s.text))
			},
			resolve: isNull, read: resolver.StatusMismatch, put: newRef, capture: newRef,
		},
		{
			state: "sealed to another execution",
			make: func(t *testing.T, s *scene) {
				s.text = "a text of another execution"
				other := s.mustPut(t, "another", s.text)
				s.ref, s.digest = other.Ref, other.Digest
			},
			resolve: isNull, read: resolver.StatusMismatch, put: newRef, capture: newRef,
		},
		{
			state: "sealed to another tenant",
			make: func(t *testing.T, s *scene) {
				s.createTenant(t, "other")
				s.text = "a text of another tenant"
				a := attempt(s.execution)
				a.Tenant = "other"
				other, err := s.store.Put(t.Context(), store.PutRequest{Attempt: a, Content: store.Content{
					Class: reason, Kind: blobd.KindText, ContentType: plain, Text: blobd.TextOf([]byte(s.text)),
				}})
				if err != nil {
					t.Fatal(err)
				}
				s.ref, s.digest = other.Ref, other.Digest
			},
			resolve: isNull, read: resolver.StatusMismatch, put: newRef, capture: newRef,
		},
	}
}

// TestStatesAndAnswers is the table "States and answers", row by row.
func TestStatesAndAnswers(t *testing.T) {
	for _, row := range statesAndAnswers() {
		t.Run(row.state, func(t *testing.T) {
			make := func(t *testing.T) *scene {
				s := newScene(t)
				row.make(t, s)
				return s
			}
			t.Run("resolve", func(t *testing.T) { row.checkResolve(t, make(t)) })
			t.Run("batch", func(t *testing.T) { row.checkBatch(t, make(t)) })
			t.Run("expected digest", func(t *testing.T) { row.checkDigest(t, make(t)) })
			t.Run("read with events", func(t *testing.T) { row.checkEvents(t, make(t)) })
			t.Run("read from records", func(t *testing.T) { row.checkRecords(t, make(t)) })
			t.Run("put", func(t *testing.T) { row.checkPut(t, make(t)) })
			t.Run("capture", func(t *testing.T) { row.checkCapture(t, make(t)) })
		})
	}
}

func (row answers) checkResolve(t *testing.T, s *scene) {
	switch want := row.resolve.(type) {
	case error:
		_, err := s.resolve(t.Context(), s.execution, s.ref)
		wantErr(t, err, want)
		var about *blobd.RefsError
		if !errors.As(err, &about) || len(about.Refs) != 1 || about.Refs[0] != s.ref {
			t.Errorf("%v does not name the ref", err)
		}
	case string:
		if want == isText {
			s.wantText(t, s.execution, s.ref, s.text)
			return
		}
		s.wantNull(t, s.execution, s.ref)
	}
}

// checkBatch: one null does not hide the text beside it; one error hides all.
func (row answers) checkBatch(t *testing.T, s *scene) {
	got, err := s.resolve(t.Context(), s.execution, s.beside.Ref, s.ref)
	if want, isErr := row.resolve.(error); isErr {
		wantErr(t, err, want)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if beside := got[0]; (beside == nil) != row.besideNull || beside != nil && *beside != besideText {
		t.Errorf("the text beside is %v, want null: %v", beside, row.besideNull)
	}
	if (got[1] == nil) != (row.resolve == isNull) || got[1] != nil && *got[1] != s.text {
		t.Errorf("the part is %v, want %v", got[1], row.resolve)
	}
}

// checkDigest: another digest than the expected one is a null, and never makes
// a text or an error of a null.
func (row answers) checkDigest(t *testing.T, s *scene) {
	another := blobd.DigestOf([]byte("another text"))
	ask := func(d blobd.Digest) (bool, error) {
		a, err := s.resolver.Resolve(t.Context(), resolver.Request{
			Tenant: tenant, ExecutionID: s.execution, Wants: []resolver.Want{{Ref: s.ref, Digest: &d}},
		})
		return err == nil && a.Parts[0].Null, err
	}
	null, err := ask(s.digest)
	switch want := row.resolve.(type) {
	case error:
		wantErr(t, err, want)
		return
	case string:
		if err != nil || null != (want == isNull) {
			t.Errorf("the right digest: null %v, error %v, want %v", null, err, want)
		}
	}
	if null, err := ask(another); err != nil || !null {
		t.Errorf("another digest: null %v, error %v, want null", null, err)
	}
}

func (row answers) checkEvents(t *testing.T, s *scene) {
	size := int64(len(s.text))
	a, err := s.resolver.Read(t.Context(), resolver.ReadRequest{
		Tenant: tenant, ExecutionID: s.execution, Actor: "auditor", Purpose: "a check",
		Events: []resolver.Event{{StepID: "step", Attempt: 1, Parts: []resolver.EventPart{
			{Kind: blobd.KindText, Ref: &s.ref, Digest: &s.digest, Size: &size},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Parts) != 1 {
		t.Fatalf("%d parts, want 1", len(a.Parts))
	}
	row.checkRead(t, s, a.Parts[0], row.read)
}

func (row answers) checkRecords(t *testing.T, s *scene) {
	a, err := s.resolver.Read(t.Context(), resolver.ReadRequest{
		Tenant: tenant, ExecutionID: s.execution, Actor: "auditor", Purpose: "a check",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Parts {
		if p.Ref != nil && *p.Ref == s.ref {
			row.checkRead(t, s, p, row.records)
			return
		}
	}
	if row.records != "" {
		t.Errorf("no part of our records names the ref, want %s", row.records)
	}
}

func (row answers) checkRead(t *testing.T, s *scene, p resolver.ReadPart, want resolver.Status) {
	t.Helper()
	if p.Status != want {
		t.Errorf("status %s, want %s", p.Status, want)
	}
	hasText := p.Text != nil && string(p.Text.Bytes()) == s.text
	if (p.Text != nil) != (want == resolver.StatusOK) || p.Text != nil && !hasText {
		t.Errorf("a text is there: %v, it is the right one: %v, with status %s", p.Text != nil, hasText, p.Status)
	}
}

func (row answers) checkPut(t *testing.T, s *scene) {
	stored, err := s.putText(t.Context(), s.execution, s.text)
	if want, isErr := row.put.(error); isErr {
		wantErr(t, err, want)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	row.checkStored(t, s, stored, row.put)
}

func (row answers) checkCapture(t *testing.T, s *scene) {
	parts, err := s.captureTexts(t.Context(), s.execution, s.text)
	if want, isErr := row.capture.(error); isErr {
		wantErr(t, err, want)
		return
	}
	if err != nil || len(parts) != 1 {
		t.Fatalf("%d parts, error %v", len(parts), err)
	}
	if want, isStatus := row.capture.(ledger.PartStatus); isStatus {
		if parts[0].Status != want {
			t.Errorf("the part's status is %d, want %d", parts[0].Status, want)
		}
		return
	}
	row.checkStored(t, s, parts[0].Stored, row.capture)
}

// checkStored: whatever ref the answer names, it resolves to the text.
func (row answers) checkStored(t *testing.T, s *scene, stored store.Stored, want any) {
	t.Helper()
	if same := stored.Ref == s.ref; same != (want == sameRef) {
		t.Errorf("the same ref: %v, want %v", same, want)
	}
	if stored.Created != (want == newRef) {
		t.Errorf("created: %v, want %v", stored.Created, want)
	}
	s.wantText(t, s.execution, stored.Ref, s.text)
	s.restart(t)
	s.wantText(t, s.execution, stored.Ref, s.text)
}
