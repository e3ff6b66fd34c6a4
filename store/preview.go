package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// MaxSample bounds Preview.Sample.
const MaxSample = 100

// Preview is what an erasure would do, before it does it.
type Preview struct {
	Plan ledger.Plan
	// Digest names the scope and what protects something in it: how many rows are
	// held and under a floor, and by which holds. Rows that join the scope do not
	// change it; a hold or a floor more or less does.
	Digest [32]byte
	// Classes counts blobs by class; nil where the rows were not looked at one by one.
	Classes        map[string]int64
	Oldest, Newest time.Time // captures; zero: none, or likewise
	// Coverage, for subjects only; nil: not known in time.
	Coverage *ledger.Coverage
	Sample   []ledger.ScopeRow // at most MaxSample
	Kept     []ledger.Kept     // what is protected, at most ledger.MaxKept
	Holds    []string          // ids of the open holds that keep something, sorted
}

// coverageTime bounds the wait for Preview.Coverage, whose time grows with what is
// stored.
const coverageTime = 2 * time.Second

// PreviewErasure counts what Erase would erase, and changes nothing. Of a whole
// execution, refs or a whole tenant it looks at rows only where something can be
// protected or people must approve; of a person or a class always, so that its time
// grows with the scope.
func (s *Store) PreviewErasure(ctx context.Context, r EraseRequest) (Preview, error) {
	p, err := s.preview(ctx, r)
	if err != nil {
		return Preview{}, fmt.Errorf("preview an erasure: %w", err)
	}
	return p, nil
}

func (s *Store) preview(ctx context.Context, r EraseRequest) (Preview, error) {
	t, scope, err := s.scope(ctx, r.target())
	if err != nil {
		return Preview{}, err
	}
	now := micro(s.Now())
	must, err := s.mustSurvey(ctx, t, scope)
	if err != nil {
		return Preview{}, err
	}
	if !must {
		return s.glance(ctx, scope, now)
	}
	v, err := s.survey(ctx, scope, now, now)
	if err != nil {
		return Preview{}, err
	}
	if scope.Form() == ledger.ScopeSubjects {
		v.Coverage, err = s.coverage(ctx, t.ID)
	}
	return v.Preview, err
}

// mustSurvey reports whether what an erasure of a scope does can only be said row by
// row.
func (s *Store) mustSurvey(ctx context.Context, t ledger.Tenant, scope ledger.Scope) (bool, error) {
	if !scope.Form().Fenceable() || t.Approvals > 0 && !t.Fenced() {
		return true, nil
	}
	holds, err := s.Ledger.ListOrders(ctx, ledger.OrderQuery{Tenant: t.ID, Kind: ledger.OrderHold, Open: true, Limit: 1})
	if err != nil || len(holds) > 0 {
		return true, err
	}
	classes, err := s.classes(ctx, t.ID)
	return slices.ContainsFunc(classes, func(c ledger.Class) bool { return ledger.Floors(c.Policies) }), err
}

// glance is the preview of a scope in which nothing can be protected: counts that the
// ledger keeps, and the first rows.
func (s *Store) glance(ctx context.Context, scope ledger.Scope, now time.Time) (Preview, error) {
	plan, err := s.Ledger.Plan(ctx, scope)
	if err != nil {
		return Preview{}, err
	}
	rows, next, err := s.Ledger.ScopeRows(ctx, scope, ledger.ScopeCursor{}, MaxSample)
	if err != nil {
		return Preview{}, err
	}
	v := newSurvey(scope, nil, now, now)
	for i := range rows {
		v.add(&rows[i])
	}
	p := Preview{Plan: plan, Digest: planDigest(scope, 0, 0, nil), Sample: v.Sample}
	if next == (ledger.ScopeCursor{}) { // that was all
		p.Classes, p.Oldest, p.Newest = v.Classes, v.Oldest, v.Newest
	}
	return p, nil
}

// coverage is nil where it is not known in time.
func (s *Store) coverage(ctx context.Context, tenant string) (*ledger.Coverage, error) {
	within, cancel := context.WithTimeout(ctx, coverageTime)
	defer cancel()
	c, err := s.Ledger.Coverage(within, tenant)
	switch {
	case err == nil:
		return &c, nil
	case within.Err() != nil && ctx.Err() == nil:
		return nil, nil
	}
	return nil, err
}

// planDigest names a scope and its protection: SHA-256 over a fixed list of fields,
// each with its length before it.
func planDigest(scope ledger.Scope, held, floor int64, holds []string) [32]byte {
	h := sha256.New()
	field := func(values ...string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(values)))
		_, _ = h.Write(n[:])
		for _, v := range values {
			writeField(h, v)
		}
	}
	before := ""
	if !scope.CapturedBefore.IsZero() {
		before = strconv.FormatInt(scope.CapturedBefore.UnixMicro(), 10)
	}
	field("blobd/v2/plan", scope.Tenant, strconv.Itoa(int(scope.Form())), scope.Tag.String(), scope.Class, before)
	field(texts(scope.Refs, func(r blobd.Ref) string { return string(r[:]) })...)
	field(texts(scope.Subjects, func(t [32]byte) string { return string(t[:]) })...)
	field(strconv.FormatInt(held, 10), strconv.FormatInt(floor, 10))
	field(holds...)
	return [32]byte(h.Sum(nil))
}

func texts[T any](all []T, text func(T) string) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = text(v)
	}
	return out
}
