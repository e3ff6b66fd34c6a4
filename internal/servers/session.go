package servers

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Session is a set of temporary credentials.
type Session struct{ AccessKey, SecretKey, Token string }

// Session returns credentials of the root user that a policy limits (JSON of at
// most 2,048 bytes). MinIO alone gives them.
func (s *S3) Session(t testing.TB, policy string) Session {
	t.Helper()
	c := sts.New(sts.Options{
		BaseEndpoint: &s.Endpoint, Region: s.Region,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	role := "arn:xxx:xxx:xxx:xxxx" // the server takes any that is long enough
	out, err := c.AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &role, Policy: &policy})
	if err != nil {
		t.Fatalf("assume a role: %v", err)
	}
	return Session{*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, *out.Credentials.SessionToken}
}

// Environ returns the session as variables that every SDK reads.
func (s Session) Environ() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_SESSION_TOKEN": s.Token,
	}
}
