-- +goose Up
-- The versions of policies. Periods are ISO 8601; '' is none. No version is ever
-- changed or deleted.
CREATE TABLE policy_versions (
    version     INTEGER PRIMARY KEY,
    tenant      TEXT    NOT NULL REFERENCES tenants (id),
    class       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    existing    INTEGER NOT NULL,
    removed     INTEGER NOT NULL,
    set_by      TEXT    NOT NULL,
    start_event INTEGER NOT NULL,
    maximum     TEXT    NOT NULL,
    floor       TEXT    NOT NULL,
    legal_basis TEXT    NOT NULL,
    slack       TEXT    NOT NULL,
    on_expiry   INTEGER NOT NULL
) STRICT;
-- What stood before versions did governed everything. Parts of a second are
-- rounded up, as a period is whole seconds.
INSERT INTO policy_versions (tenant, class, at, existing, removed, set_by, start_event, maximum, floor, legal_basis, slack, on_expiry)
    SELECT tenant, class, 0, 1, 0, '', 0, 'PT' || ((maximum + 999999999) / 1000000000) || 'S', '', '', '', 0
    FROM policies WHERE maximum > 0;
DROP TABLE policies;

-- Every class of a tenant that was ever put.
CREATE TABLE classes (
    n      INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX classes_name ON classes (tenant, name);
INSERT INTO classes (tenant, name)
    SELECT DISTINCT e.tenant, b.class FROM blobs b JOIN executions e ON e.tag = b.execution_tag WHERE b.class <> '';

-- What a sweep reads instead of all rows: the rows of each class that hold
-- content or whose objects are not known to be gone, by capture time. It is a
-- table and not an index of blobs, whose rows know no tenant and never grow. A put
-- appends at the end of its class; a tombstone takes its row out.
CREATE TABLE due (
    class      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    blob       INTEGER NOT NULL,
    PRIMARY KEY (class, created_at, blob)
) STRICT, WITHOUT ROWID;
INSERT INTO due (class, created_at, blob)
    SELECT c.n, b.created_at, b.n FROM blobs b JOIN executions e ON e.tag = b.execution_tag
    JOIN classes c ON c.tenant = e.tenant AND c.name = b.class
    WHERE b.state IN (1, 4, 6) ORDER BY c.n, b.created_at, b.n;

-- What a sweep expired and has not buried yet.
CREATE INDEX blobs_expired ON blobs (n) WHERE state = 7 AND class <> '';

-- A sweep's row is also its job.
CREATE TABLE sweeps (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    tenant       TEXT    NOT NULL REFERENCES tenants (id),
    state        TEXT    NOT NULL,
    trigger      TEXT    NOT NULL,
    requested_by TEXT    NOT NULL,
    confirm      INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    planned      INTEGER NOT NULL DEFAULT 0,
    scanned      INTEGER NOT NULL DEFAULT 0,
    plan_erase   INTEGER NOT NULL DEFAULT 0,
    plan_held    INTEGER NOT NULL DEFAULT 0,
    plan_floor   INTEGER NOT NULL DEFAULT 0,
    plan_review  INTEGER NOT NULL DEFAULT 0,
    plan_waiting INTEGER NOT NULL DEFAULT 0,
    plan_bytes   INTEGER NOT NULL DEFAULT 0,
    erased       INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    late_until   INTEGER,
    details      BLOB,             -- refused objects, JSON; NULL: none
    last_error   TEXT    NOT NULL DEFAULT '',
    attempts     INTEGER NOT NULL DEFAULT 0,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    run_at       INTEGER NOT NULL,
    term         INTEGER NOT NULL DEFAULT 0,
    lease_owner  TEXT,             -- NULL: not leased
    lease_until  INTEGER
) STRICT;
CREATE UNIQUE INDEX sweeps_open ON sweeps (tenant) WHERE state = 'running';
CREATE INDEX sweeps_newest ON sweeps (tenant, started_at, id);
CREATE INDEX sweeps_due ON sweeps (run_at, seq) WHERE state = 'running';
