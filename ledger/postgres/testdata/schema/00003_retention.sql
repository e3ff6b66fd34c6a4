-- +goose Up
-- The versions of policies. Periods are ISO 8601; '' is none. No version is ever
-- changed or deleted.
CREATE TABLE policy_versions (
    version     BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant      TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    class       TEXT COLLATE "C" NOT NULL,
    at          BIGINT   NOT NULL,
    existing    BOOLEAN  NOT NULL,
    removed     BOOLEAN  NOT NULL,
    set_by      TEXT     NOT NULL,
    start_event SMALLINT NOT NULL,
    maximum     TEXT     NOT NULL,
    floor       TEXT     NOT NULL,
    legal_basis BYTEA    NOT NULL,
    slack       TEXT     NOT NULL,
    on_expiry   SMALLINT NOT NULL
);
CREATE INDEX policy_versions_class ON policy_versions (tenant, class, version DESC);
-- What stood before versions did governed everything. Parts of a second are
-- rounded up, as a period is whole seconds.
INSERT INTO policy_versions (tenant, class, at, existing, removed, set_by, start_event, maximum, floor, legal_basis, slack, on_expiry)
    SELECT tenant, class, 0, TRUE, FALSE, '', 0, 'PT' || ((maximum + 999999999) / 1000000000) || 'S', '', '', '', 0
    FROM policies WHERE maximum > 0;
DROP TABLE policies;

-- Every class of a tenant that was ever put.
CREATE TABLE classes (
    n      BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    UNIQUE (tenant, name)
);
INSERT INTO classes (tenant, name)
    SELECT DISTINCT e.tenant, b.class FROM blobs b JOIN executions e ON e.tag = b.execution_tag WHERE b.class <> '';

-- What a sweep reads instead of all rows: those of each class that hold content or
-- whose objects are not known to be gone, by capture time. class_n is the number of
-- the tenant's class, n the row's own.
ALTER TABLE blobs ADD COLUMN n BIGINT GENERATED ALWAYS AS IDENTITY, ADD COLUMN class_n BIGINT;
UPDATE blobs b SET class_n = c.n FROM executions e, classes c
    WHERE e.tag = b.execution_tag AND c.tenant = e.tenant AND c.name = b.class;
CREATE INDEX blobs_due ON blobs (class_n, created_at, n) WHERE state IN (1, 4, 6, 7) AND class <> '';
-- What a sweep expired and has not buried yet.
CREATE INDEX blobs_expired ON blobs (n) WHERE state = 7 AND class <> '';

-- A sweep's row is also its job.
CREATE TABLE sweeps (
    seq          BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant       TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    state        TEXT COLLATE "C" NOT NULL,
    trigger      TEXT    NOT NULL,
    requested_by TEXT    NOT NULL,
    confirm      BIGINT  NOT NULL,
    at           BIGINT  NOT NULL,
    version      BIGINT  NOT NULL,
    planned      BOOLEAN NOT NULL DEFAULT FALSE,
    scanned      BIGINT  NOT NULL DEFAULT 0,
    plan_erase   BIGINT  NOT NULL DEFAULT 0,
    plan_held    BIGINT  NOT NULL DEFAULT 0,
    plan_floor   BIGINT  NOT NULL DEFAULT 0,
    plan_review  BIGINT  NOT NULL DEFAULT 0,
    plan_waiting BIGINT  NOT NULL DEFAULT 0,
    plan_bytes   BIGINT  NOT NULL DEFAULT 0,
    erased       BIGINT  NOT NULL DEFAULT 0,
    failed       BIGINT  NOT NULL DEFAULT 0,
    late_until   BIGINT,
    details      BYTEA,            -- refused objects, JSON; NULL: none
    last_error   TEXT    NOT NULL DEFAULT '',
    attempts     BIGINT  NOT NULL DEFAULT 0,
    started_at   BIGINT  NOT NULL,
    finished_at  BIGINT,
    run_at       BIGINT  NOT NULL,
    term         BIGINT  NOT NULL DEFAULT 0,
    lease_owner  TEXT,             -- NULL: not leased
    lease_until  BIGINT
);
CREATE UNIQUE INDEX sweeps_open ON sweeps (tenant) WHERE state = 'running';
CREATE INDEX sweeps_newest ON sweeps (tenant, started_at, id);
CREATE INDEX sweeps_due ON sweeps (run_at, seq) WHERE state = 'running';
