package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

var _ ledger.Timelines = (*Ledger)(nil)

// timeline names the history that the server writes: the WAL's timeline, which
// a promotion and a restore to a point in time raise, and when the server was
// started, since a copy of its files that was put back needs a start too; and the
// database, since another can be renamed into its place. On a replica it is an
// error.
const timeline = `(SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || '-' ||
	(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '-' ||
	(SELECT oid FROM pg_database WHERE datname = current_database()))`

// Timeline implements ledger.Timelines: it changes with every failover, restore
// and restart of the server, and with nothing else.
func (l *Ledger) Timeline(ctx context.Context) (string, error) {
	t, _, err := one(ctx, l, "timeline", pgx.RowTo[string], "SELECT "+timeline)
	return t, err
}

// Trust says that the journal was compared on a timeline. From then on Lookup,
// LookupRepeats, TokenByHash and every change but Identity, ConfirmIdentity,
// SetRecovery, Replay, Published and EnterMissing are ErrUnavailable on any
// other: a record made on a history that was not compared could take the number
// of one that it lost. An empty timeline trusts every one, as a ledger that was
// just opened does.
func (l *Ledger) Trust(timeline string) { l.trusted.Store(&timeline) }

// checkTimeline refuses an answer of a history that was not compared.
func (l *Ledger) checkTimeline(got string) error {
	want := l.trusted.Load()
	if want == nil || *want == "" || *want == got {
		return nil
	}
	return fmt.Errorf("the database is on timeline %s and %s is trusted: %w", got, *want, blobd.ErrUnavailable)
}
