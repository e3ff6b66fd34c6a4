package minio

import (
	"context"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/replication"

	"github.com/blobd/blobd/backends"
)

func (e exam) versioning(ctx context.Context) backends.Finding {
	const check = "versioning"
	v, err := try(ctx, e.Store, "get versioning", func(ctx context.Context) (minio.BucketVersioningConfiguration, error) {
		return e.client.GetBucketVersioning(ctx, e.bucket)
	})
	switch {
	case err != nil:
		return backends.Warned(check, "cannot tell, so versions are looked for always: %s", why(err))
	case v.MFADelete == "Enabled":
		return backends.NoErasure(check, "deleting a version needs a second factor (MFA delete)")
	case v.Status == "":
		return backends.Passed(check, "off")
	}
	return backends.Passed(check, "%s", strings.ToLower(v.Status))
}

// defaultLock is how a bucket locks new objects.
type defaultLock struct {
	enabled string
	mode    *minio.RetentionMode
	length  *uint
	unit    *minio.ValidityUnit
}

func (e exam) lock(ctx context.Context) backends.Finding {
	const check = "lock"
	l, err := try(ctx, e.Store, "get lock", func(ctx context.Context) (l defaultLock, err error) {
		l.enabled, l.mode, l.length, l.unit, err = e.client.GetObjectLockConfig(ctx, e.bucket)
		return l, err
	})
	switch {
	case unset(err):
		return backends.Passed(check, "off")
	case err != nil:
		return backends.Warned(check, "cannot tell: %s", why(err))
	case l.enabled != "Enabled":
		return backends.Passed(check, "off")
	case l.mode != nil && l.length != nil && *l.length > 0:
		return backends.NoErasure(check, "every new object is locked (%s, %d %s)", *l.mode, *l.length, strings.ToLower(l.unit.String()))
	}
	return backends.Warned(check, "objects can be locked, none is by default: an erasure waits for whoever locks one")
}

// unset reports that a bucket has no configuration of a kind, or that the server
// knows no such kind.
func unset(err error) bool {
	switch code(err) {
	case "ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration", "NoSuchLifecycleConfiguration",
		"ReplicationConfigurationNotFoundError":
		return true
	}
	return unsupported(err)
}

// lifecycle looks for rules that act on our objects behind our back.
func (e exam) lifecycle(ctx context.Context) backends.Finding {
	const check = "lifecycle"
	c, err := try(ctx, e.Store, "get lifecycle", func(ctx context.Context) (*lifecycle.Configuration, error) {
		return e.client.GetBucketLifecycle(ctx, e.bucket)
	})
	if unset(err) {
		return backends.Passed(check, "no rules")
	}
	if err != nil {
		return backends.Warned(check, "cannot tell: %s", why(err))
	}
	moves := ""
	for _, r := range c.Rules {
		if r.Status != "Enabled" || !e.touches(lifecyclePrefix(r)) {
			continue
		}
		if deletes(r) {
			return backends.Failed(check, "rule %q deletes objects that the ledger calls live", r.ID)
		}
		if !r.Transition.IsNull() {
			moves = r.ID
		}
	}
	if moves != "" {
		return backends.Warned(check, "rule %q moves objects to another storage class, from where they may not be readable at once", moves)
	}
	return backends.Passed(check, "no rule deletes our objects")
}

// deletes reports a rule that ends what is current; blobd wants no older
// versions and no markers anyway.
func deletes(r lifecycle.Rule) bool {
	return r.Expiration.Days > 0 || !r.Expiration.Date.IsZero() || r.AllVersionsExpiration.Days > 0
}

func lifecyclePrefix(r lifecycle.Rule) string {
	for _, prefix := range []string{r.RuleFilter.And.Prefix, r.RuleFilter.Prefix} {
		if prefix != "" {
			return prefix
		}
	}
	return r.Prefix
}

// replication looks for rules that copy our objects where no erasure goes.
func (e exam) replication(ctx context.Context) backends.Finding {
	const check = "replication"
	c, err := try(ctx, e.Store, "get replication", func(ctx context.Context) (replication.Config, error) {
		return e.client.GetBucketReplication(ctx, e.bucket)
	})
	if unset(err) {
		return backends.Passed(check, "none")
	}
	if err != nil {
		return backends.Warned(check, "cannot tell: %s", why(err))
	}
	for _, r := range c.Rules {
		if r.Status == replication.Enabled && e.touches(r.Prefix()) {
			return backends.NoErasure(check, "rule %q copies our objects to another bucket, where no erasure reaches them", r.ID)
		}
	}
	return backends.Passed(check, "no rule copies our objects")
}

// touches reports whether a rule for a prefix meets keys of ours. A rule that
// also asks for a tag is taken to meet them: blobd sets none, others may.
func (e exam) touches(prefix string) bool {
	return strings.HasPrefix(e.root, prefix) || strings.HasPrefix(prefix, e.root)
}
