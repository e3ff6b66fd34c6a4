package transit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/hashicorp/vault/api"
	"github.com/hashicorp/vault/api/auth/approle"
	"github.com/hashicorp/vault/api/auth/kubernetes"

	"github.com/blobd/blobd"
)

// Login is a way to get a token: Token, TokenFile, AppRole or Kubernetes. What
// it reads from files it reads again at each login. It never prints itself.
type Login struct {
	name string
	// get returns a secret whose Auth has a token.
	get func(ctx context.Context, c *api.Client) (*api.Secret, error)
	// given: the token is handed to us, so there may be no other.
	given bool
}

// Token logs in with a token as it is. Once it has died there is no other.
func Token(token string) Login {
	return Login{name: "token", given: true, get: func(context.Context, *api.Client) (*api.Secret, error) {
		return tokenSecret(token)
	}}
}

// TokenFile logs in with the token in a file, as an agent of Vault keeps one.
func TokenFile(path string) Login {
	return Login{name: "token file", given: true, get: func(context.Context, *api.Client) (*api.Secret, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("token file: %w", err)
		}
		return tokenSecret(string(b))
	}}
}

// AppRole logs in with a role id and the secret id in a file.
func AppRole(roleID, secretIDFile string) Login {
	return Login{name: "approle", get: func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		method, err := approle.NewAppRoleAuth(roleID, &approle.SecretID{FromFile: secretIDFile})
		if err != nil {
			return nil, err
		}
		return method.Login(ctx, c)
	}}
}

// ServiceAccountToken is where Kubernetes puts a pod's token.
const ServiceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// Kubernetes logs in with a role and a service account's token in a file; "":
// ServiceAccountToken.
func Kubernetes(role, tokenFile string) Login {
	if tokenFile == "" {
		tokenFile = ServiceAccountToken
	}
	return Login{name: "kubernetes", get: func(ctx context.Context, c *api.Client) (*api.Secret, error) {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("service account token: %w", err)
		}
		// The SDK's own reading of a file would look at the usual place too.
		method, err := kubernetes.NewKubernetesAuth(role, kubernetes.WithServiceAccountToken(strings.TrimSpace(string(b))))
		if err != nil {
			return nil, err
		}
		return method.Login(ctx, c)
	}}
}

func (l Login) valid() bool { return l.get != nil }

// Format hides the token from every verb of package fmt.
func (l Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[login]") }

// LogValue hides the token from package log/slog.
func (l Login) LogValue() slog.Value { return slog.StringValue("[login]") }

var errNoToken = errors.New("the token is empty")

func tokenSecret(token string) (*api.Secret, error) {
	token = strings.TrimSpace(token)
	if token == "" {
		return nil, errNoToken
	}
	return &api.Secret{Auth: &api.SecretAuth{ClientToken: token}}, nil
}

// login gets a token. What Vault refuses with a 400 is a login refused: a wrong
// role or secret id.
func (l Login) login(ctx context.Context, c *api.Client) (*api.Secret, error) {
	secret, err := l.get(ctx, c)
	if err != nil {
		err = classify("log in by", l.name, err)
		if badRequest(err) {
			return nil, fmt.Errorf("%w: %w", blobd.ErrDenied, err)
		}
		return nil, err
	}
	if secret == nil || secret.Auth == nil || secret.Auth.ClientToken == "" {
		return nil, errStrange("log in by", l.name, 0)
	}
	return secret, nil
}
