package faulty

import (
	"context"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/ledger"
)

// Claim implements ledger.Jobs.
func (l *Ledger) Claim(ctx context.Context, owner string, at, until time.Time) (ledger.Job, error) {
	return get(l, "claim", func() (ledger.Job, error) { return l.inner.Claim(ctx, owner, at, until) })
}

// Postpone implements ledger.Jobs.
func (l *Ledger) Postpone(ctx context.Context, lease ledger.Lease, due time.Time, p ledger.Progress, e []ledger.Entry) error {
	return l.do("postpone", func() error { return l.inner.Postpone(ctx, lease, due, p, e) })
}

// Renew implements ledger.Jobs.
func (l *Ledger) Renew(ctx context.Context, lease ledger.Lease, until time.Time) error {
	return l.do("renew", func() error { return l.inner.Renew(ctx, lease, until) })
}

// Tombstone implements ledger.Jobs.
func (l *Ledger) Tombstone(ctx context.Context, lease ledger.Lease, limit int) (int, error) {
	return get(l, "tombstone", func() (int, error) { return l.inner.Tombstone(ctx, lease, limit) })
}

// Finish implements ledger.Jobs.
func (l *Ledger) Finish(ctx context.Context, lease ledger.Lease, p ledger.Progress, at time.Time, e []ledger.Entry) error {
	return l.do("finish", func() error { return l.inner.Finish(ctx, lease, p, at, e) })
}

// Mark implements ledger.Journal.
func (l *Ledger) Mark(ctx context.Context, at time.Time) (ledger.Record, error) {
	return get(l, "mark", func() (ledger.Record, error) { return l.inner.Mark(ctx, at) })
}

// Unpublished implements ledger.Journal.
func (l *Ledger) Unpublished(ctx context.Context, limit int) ([]ledger.Record, error) {
	return get(l, "unpublished", func() ([]ledger.Record, error) { return l.inner.Unpublished(ctx, limit) })
}

// Published implements ledger.Journal.
func (l *Ledger) Published(ctx context.Context, seqs []int64) error {
	return l.do("published", func() error { return l.inner.Published(ctx, seqs) })
}

// Head implements ledger.Journal.
func (l *Ledger) Head(ctx context.Context) (ledger.Record, error) {
	return get(l, "head", func() (ledger.Record, error) { return l.inner.Head(ctx) })
}

// HasRecord implements ledger.Journal.
func (l *Ledger) HasRecord(ctx context.Context, r ledger.Record) (bool, error) {
	return get(l, "hasrecord", func() (bool, error) { return l.inner.HasRecord(ctx, r) })
}

// Replay implements ledger.Journal.
func (l *Ledger) Replay(ctx context.Context, rs []ledger.Record) error {
	return l.do("replay", func() error { return l.inner.Replay(ctx, rs) })
}

// Identity implements ledger.Deployment.
func (l *Ledger) Identity(ctx context.Context, id string) (ledger.Identity, error) {
	return get(l, "identity", func() (ledger.Identity, error) { return l.inner.Identity(ctx, id) })
}

// ConfirmIdentity implements ledger.Deployment.
func (l *Ledger) ConfirmIdentity(ctx context.Context) error {
	return l.do("confirmidentity", func() error { return l.inner.ConfirmIdentity(ctx) })
}

// SetRecovery implements ledger.Deployment.
func (l *Ledger) SetRecovery(ctx context.Context, s ledger.RecoveryState, e ledger.Entry) error {
	return l.do("setrecovery", func() error { return l.inner.SetRecovery(ctx, s, e) })
}

// Check implements ledger.Deployment.
func (l *Ledger) Check(ctx context.Context) error {
	return l.do("check", func() error { return l.inner.Check(ctx) })
}

// Begin implements ledger.Requests.
func (l *Ledger) Begin(ctx context.Context, r ledger.Request, notBefore time.Time) (ledger.Request, bool, error) {
	return get2(l, "begin", func() (ledger.Request, bool, error) { return l.inner.Begin(ctx, r, notBefore) })
}

// Complete implements ledger.Requests.
func (l *Ledger) Complete(ctx context.Context, r ledger.Request) error {
	return l.do("complete", func() error { return l.inner.Complete(ctx, r) })
}

// Abandon implements ledger.Requests.
func (l *Ledger) Abandon(ctx context.Context, r ledger.Request) error {
	return l.do("abandon", func() error { return l.inner.Abandon(ctx, r) })
}

// Append implements ledger.Audit.
func (l *Ledger) Append(ctx context.Context, e ledger.Entry) error {
	return l.do("append", func() error { return l.inner.Append(ctx, e) })
}

// Entries implements ledger.Audit.
func (l *Ledger) Entries(ctx context.Context, after int64, limit int) ([]ledger.StoredEntry, error) {
	return get(l, "entries", func() ([]ledger.StoredEntry, error) { return l.inner.Entries(ctx, after, limit) })
}

// ScanBlobs implements ledger.Maintenance.
func (l *Ledger) ScanBlobs(ctx context.Context, after ledger.Position, limit int) ([]ledger.ScannedBlob, error) {
	return get(l, "scanblobs", func() ([]ledger.ScannedBlob, error) { return l.inner.ScanBlobs(ctx, after, limit) })
}

// EnterMissing implements ledger.Maintenance.
func (l *Ledger) EnterMissing(ctx context.Context, objects []ledger.Position, at time.Time) (int, error) {
	return get(l, "entermissing", func() (int, error) { return l.inner.EnterMissing(ctx, objects, at) })
}

// AcceptLoss implements ledger.Maintenance.
func (l *Ledger) AcceptLoss(ctx context.Context, tag blobd.ExecutionTag, ref blobd.Ref, at time.Time, e ledger.Entry) error {
	return l.do("acceptloss", func() error { return l.inner.AcceptLoss(ctx, tag, ref, at, e) })
}

// Collect implements ledger.Maintenance.
func (l *Ledger) Collect(ctx context.Context, p ledger.Position, at time.Time) error {
	return l.do("collect", func() error { return l.inner.Collect(ctx, p, at) })
}

// Settle implements ledger.Maintenance.
func (l *Ledger) Settle(ctx context.Context) ([]string, error) {
	return get(l, "settle", func() ([]string, error) { return l.inner.Settle(ctx) })
}

// Stats implements ledger.Maintenance.
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	return get(l, "stats", func() (ledger.Stats, error) { return l.inner.Stats(ctx) })
}

// Close implements ledger.Maintenance.
func (l *Ledger) Close() error {
	return l.do("close", func() error { return l.inner.Close() })
}

// DropKeys implements ledger.Jobs.
func (l *Ledger) DropKeys(ctx context.Context, lease ledger.Lease, limit int) (ledger.Plan, bool, error) {
	return get2(l, "dropkeys", func() (ledger.Plan, bool, error) { return l.inner.DropKeys(ctx, lease, limit) })
}
