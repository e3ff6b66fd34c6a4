package cluster

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// peek looks into a deployment's database behind the nodes' back.
type peek struct {
	t *testing.T
	c *pgx.Conn
}

func (d *deployment) peek() peek {
	d.t.Helper()
	c, err := pgx.Connect(d.t.Context(), d.world.postgres.URL(d.database))
	must(d.t, err)
	d.t.Cleanup(func() { _ = c.Close(d.t.Context()) })
	return peek{d.t, c}
}

// number returns the one number that a query answers.
func (p peek) number(query string, args ...any) (n int64) {
	p.t.Helper()
	must(p.t, p.c.QueryRow(p.t.Context(), query, args...).Scan(&n))
	return n
}

// exec changes something.
func (p peek) exec(statement string, args ...any) {
	p.t.Helper()
	_, err := p.c.Exec(p.t.Context(), statement, args...)
	must(p.t, err)
}

// text returns the one text that a query answers.
func (p peek) text(query string, args ...any) (s string) {
	p.t.Helper()
	must(p.t, p.c.QueryRow(p.t.Context(), query, args...).Scan(&s))
	return s
}

// leases counts the erasures that a node has in hand.
func (p peek) leases() int64 {
	p.t.Helper()
	return p.number("SELECT count(*) FROM erasures WHERE lease_owner IS NOT NULL")
}

// endLeases lets the time of every lease be over.
func (p peek) endLeases() {
	p.t.Helper()
	p.exec("UPDATE erasures SET lease_until = fenced_at WHERE lease_owner IS NOT NULL")
}

// wantErasedOnce: every erasure is finished, and the evidence says so of each
// once.
func (p peek) wantErasedOnce() {
	p.t.Helper()
	all := p.number("SELECT count(*) FROM erasures")
	if n := p.number("SELECT count(*) FROM erasures WHERE state = 'erased'"); n != all {
		p.t.Errorf("%d of %d erasures are finished", n, all)
	}
	const steps = ` FROM (SELECT convert_from(body, 'UTF8')::json ->> 'erasure' AS erasure FROM evidence
		WHERE kind = 'erasure' AND convert_from(body, 'UTF8')::json ->> 'step' = 'erased') s`
	said, distinct := p.number("SELECT count(*)"+steps), p.number("SELECT count(DISTINCT erasure)"+steps)
	if said != all || distinct != all {
		p.t.Errorf("%d entries say that %d of %d erasures are finished", said, distinct, all)
	}
}
