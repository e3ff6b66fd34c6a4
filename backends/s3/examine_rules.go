package s3

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobd/blobd/backends"
)

// lifecycle looks for rules that act on our objects behind our back.
func (e exam) lifecycle(ctx context.Context) backends.Finding {
	const check = "lifecycle"
	var out *s3.GetBucketLifecycleConfigurationOutput
	err := e.do(ctx, func(ctx context.Context) (err error) {
		out, err = e.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &e.bucket})
		return err
	})
	if isUnset(err) {
		return backends.Passed(check, "no rules")
	}
	if err != nil {
		return backends.Warned(check, "cannot tell: %s", why(err))
	}
	moves := ""
	for _, r := range out.Rules {
		if r.Status != types.ExpirationStatusEnabled || !e.touches(lifecyclePrefix(r)) {
			continue
		}
		if deletes(r.Expiration) {
			return backends.Failed(check, "rule %q deletes objects that the ledger calls live", aws.ToString(r.ID))
		}
		if len(r.Transitions) > 0 {
			moves = aws.ToString(r.ID)
		}
	}
	if moves != "" {
		return backends.Warned(check, "rule %q moves objects to another storage class, from where they may not be readable at once", moves)
	}
	return backends.Passed(check, "no rule deletes our objects")
}

func deletes(x *types.LifecycleExpiration) bool {
	return x != nil && (aws.ToInt32(x.Days) > 0 || x.Date != nil)
}

func lifecyclePrefix(r types.LifecycleRule) string {
	switch {
	case r.Filter == nil:
		//lint:ignore SA1019 old rules have it still
		return aws.ToString(r.Prefix)
	case r.Filter.And != nil:
		return aws.ToString(r.Filter.And.Prefix)
	}
	return aws.ToString(r.Filter.Prefix)
}

// replication looks for rules that copy our objects where no erasure goes.
func (e exam) replication(ctx context.Context) backends.Finding {
	const check = "replication"
	var out *s3.GetBucketReplicationOutput
	err := e.do(ctx, func(ctx context.Context) (err error) {
		out, err = e.client.GetBucketReplication(ctx, &s3.GetBucketReplicationInput{Bucket: &e.bucket})
		return err
	})
	if isUnset(err) {
		return backends.Passed(check, "none")
	}
	if err != nil {
		return backends.Warned(check, "cannot tell: %s", why(err))
	}
	if out.ReplicationConfiguration == nil {
		return backends.Passed(check, "none")
	}
	for _, r := range out.ReplicationConfiguration.Rules {
		if r.Status == types.ReplicationRuleStatusEnabled && e.touches(replicationPrefix(r)) {
			return backends.NoErasure(check, "rule %q copies our objects to another bucket, where no erasure reaches them", aws.ToString(r.ID))
		}
	}
	return backends.Passed(check, "no rule copies our objects")
}

func replicationPrefix(r types.ReplicationRule) string {
	switch {
	case r.Filter == nil:
		//lint:ignore SA1019 old rules have it still
		return aws.ToString(r.Prefix)
	case r.Filter.And != nil:
		return aws.ToString(r.Filter.And.Prefix)
	}
	return aws.ToString(r.Filter.Prefix)
}

// touches reports whether a rule for a prefix meets keys of ours. A rule that
// also asks for a tag is taken to meet them: blobd sets none, others may.
func (e exam) touches(prefix string) bool {
	return strings.HasPrefix(e.root, prefix) || strings.HasPrefix(prefix, e.root)
}
