-- +goose Up
-- Refs of the execution were erased since it got its key.
ALTER TABLE executions ADD COLUMN lost_blob INTEGER NOT NULL DEFAULT 0;

-- The newest KEK version under which a backup may hold what was erased.
ALTER TABLE erasures ADD COLUMN wrap INTEGER NOT NULL DEFAULT 0;
-- Of what was erased before this column the version is not known any more: the
-- tenant's minimum, since no epoch had been run.
UPDATE erasures SET wrap = ifnull((SELECT minimum_wrap FROM tenants WHERE id = erasures.tenant), 0);
UPDATE executions SET lost_blob = 1 WHERE state <> 3
    AND EXISTS (SELECT 1 FROM blobs b WHERE b.execution_tag = executions.tag AND b.state = 2);

-- A key epoch's row is also its job.
CREATE TABLE epochs (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    tenant       TEXT    NOT NULL REFERENCES tenants (id),
    state        INTEGER NOT NULL,
    from_version INTEGER NOT NULL DEFAULT 0,
    version      INTEGER NOT NULL DEFAULT 0,
    total        INTEGER NOT NULL DEFAULT 0,
    rewrapped    INTEGER NOT NULL DEFAULT 0,
    rekeyed      INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT    NOT NULL DEFAULT '',
    attempts     INTEGER NOT NULL DEFAULT 0,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    trim_at      INTEGER,
    trimmed_at   INTEGER,
    run_at       INTEGER NOT NULL,
    term         INTEGER NOT NULL DEFAULT 0,
    lease_owner  TEXT,             -- NULL: not leased
    lease_until  INTEGER
) STRICT;
CREATE UNIQUE INDEX epochs_open ON epochs (tenant) WHERE state IN (1, 2);
CREATE INDEX epochs_newest ON epochs (tenant, started_at, id);
CREATE INDEX epochs_due ON epochs (run_at, seq) WHERE state <> 4;
