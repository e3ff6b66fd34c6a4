package transit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/vault/api"
)

const (
	// loginTimeout bounds a login and a renewal.
	loginTimeout = 3 * time.Second
	// loginPause is the shortest time between two logins, so that neither a
	// Vault that is down nor a missing policy makes a storm of them.
	loginPause = time.Second
	// maxLoginPause bounds the wait after logins that keep failing.
	maxLoginPause = 30 * time.Second
)

// session keeps a live token in the SDK's client.
type session struct {
	login  Login
	client *api.Client // used with the token, by all calls
	logins *api.Client // used without one
	now    func() time.Time
	log    *slog.Logger

	turn chan struct{} // holds one item while nobody logs in

	mu      sync.Mutex
	secret  *api.Secret   // guarded by mu; nil before the first login
	number  uint64        // guarded by mu; of the login that made secret
	changed chan struct{} // guarded by mu; closed by the next login
	tried   time.Time     // guarded by mu; when a login was last tried
	failed  error         // guarded by mu; what came of it
}

func newSession(o Options, client, logins *api.Client) *session {
	s := &session{
		login: o.Login, client: client, logins: logins, now: o.Now, log: o.Log,
		turn: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	s.turn <- struct{}{}
	return s
}

// enter returns the number of the login in use; it logs in if there was none.
func (s *session) enter(ctx context.Context) (uint64, error) {
	if _, number, _ := s.current(); number != 0 {
		return number, nil
	}
	return s.relogin(ctx, 0)
}

func (s *session) current() (*api.Secret, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secret, s.number, s.changed
}

// renewed is asked after a 403 under a login, and reports whether there is a
// newer one to try. A token that can still look at itself is alive: then the
// policy refuses, and another login would not help.
func (s *session) renewed(ctx context.Context, used uint64) (bool, error) {
	if _, number, _ := s.current(); number != used {
		return true, nil
	}
	_, err := s.client.Auth().Token().LookupSelfWithContext(ctx)
	if err == nil {
		return false, nil
	}
	if err = classify(verbRead, "auth/token/lookup-self", err); !refused(err) {
		return false, err
	}
	number, err := s.relogin(ctx, used)
	return number != used, err
}

// relogin logs in unless somebody else has since the login that was used, and
// returns the number of the newest login. Within loginPause of the last try it
// does not try again.
func (s *session) relogin(ctx context.Context, used uint64) (uint64, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return used, classifyContext(ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	if number, done, err := s.recent(used); done {
		return number, err
	}
	secret, err := s.login.login(ctx, s.logins)
	return s.took(ctx, used, secret, err)
}

func (s *session) recent(used uint64) (number uint64, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.now().Sub(s.tried)
	switch {
	case s.number != used:
		return s.number, true, nil
	case !s.tried.IsZero() && since >= 0 && since < loginPause:
		return used, true, s.failed
	}
	return used, false, nil
}

// took notes what came of a login. One that its caller gave up does not count.
func (s *session) took(ctx context.Context, used uint64, secret *api.Secret, err error) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			s.tried, s.failed = s.now(), err
		}
		return used, err
	}
	s.tried, s.failed = s.now(), nil
	if s.login.given && s.secret != nil && s.secret.Auth.ClientToken == secret.Auth.ClientToken {
		return used, nil // no other token to be had
	}
	s.client.SetToken(secret.Auth.ClientToken)
	s.secret = secret
	s.number++
	close(s.changed)
	s.changed = make(chan struct{})
	return s.number, nil
}

// run renews the token, and logs in again where it cannot be renewed any more.
func (s *session) run(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = loginPause, maxLoginPause
	var over uint64 // the login that is near its end and not replaced yet
	for ctx.Err() == nil {
		began := time.Now()
		err := s.hold(ctx, &over)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("login to Vault", "error", err)
		}
		if err == nil && time.Since(began) > loginPause {
			wait.Reset()
			continue
		}
		pause(ctx, wait.NextBackOff())
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// hold keeps one login alive until it is replaced; at its end, or where that was
// near already, it logs in again. A token that was handed to us is never over:
// there may be no other, and it may be renewed yet.
func (s *session) hold(ctx context.Context, over *uint64) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	secret, number, changed := s.current()
	if *over != number {
		ending, err := s.watch(ctx, secret, changed)
		if err != nil || !ending {
			return err
		}
	}
	if !s.login.given {
		*over = number
	}
	_, err := s.relogin(ctx, number)
	return err
}

// watchable completes a secret by what the watcher wants to know: how long the
// token lives and whether it can be renewed. Nil: it lives for ever.
func (s *session) watchable(ctx context.Context, secret *api.Secret) (*api.Secret, error) {
	if !s.login.given {
		return endless(secret), nil
	}
	self, err := s.client.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		return nil, classify(verbRead, "auth/token/lookup-self", err)
	}
	ttl, err := self.TokenTTL()
	if err != nil {
		return nil, errStrange(verbRead, "auth/token/lookup-self", 0)
	}
	renewable, err := self.TokenIsRenewable()
	if err != nil {
		return nil, errStrange(verbRead, "auth/token/lookup-self", 0)
	}
	return endless(&api.Secret{Auth: &api.SecretAuth{
		ClientToken: secret.Auth.ClientToken, LeaseDuration: int(ttl / time.Second), Renewable: renewable,
	}}), nil
}

func endless(secret *api.Secret) *api.Secret {
	if secret.Auth.LeaseDuration <= 0 {
		return nil
	}
	return secret
}

// watch renews a token as long as it can be, and reports whether its end is
// near. It returns false when ctx ends or another login was made.
func (s *session) watch(ctx context.Context, secret *api.Secret, changed <-chan struct{}) (ending bool, err error) {
	watched, err := s.watchable(ctx, secret)
	if err != nil {
		return false, err
	}
	if watched == nil {
		select {
		case <-ctx.Done():
		case <-changed:
		}
		return false, nil
	}
	watcher, err := s.logins.NewLifetimeWatcher(&api.LifetimeWatcherInput{Secret: watched})
	if err != nil {
		return false, classify("watch", s.login.name, err)
	}
	var running sync.WaitGroup
	running.Go(watcher.Start)
	defer running.Wait() // a renewal under way is bounded by loginTimeout
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-changed:
			return false, nil
		case <-watcher.RenewCh():
		case <-watcher.DoneCh():
			return true, nil
		}
	}
}
