-- +goose Up
-- Times are microseconds since 1970 in UTC. Refs, tags and hashes are raw bytes,
-- so their order is byte order; text compares by its UTF-8 bytes.

-- The deployment's one row. The counters are kept here so that no metric scans.
CREATE TABLE deployment (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    id            TEXT    NOT NULL DEFAULT '',
    confirmed     INTEGER NOT NULL DEFAULT 0,
    recovery      INTEGER NOT NULL DEFAULT 0,
    checks        INTEGER NOT NULL DEFAULT 0,
    writes        INTEGER NOT NULL DEFAULT 0, -- blobs ever committed
    blobs         INTEGER NOT NULL DEFAULT 0, -- live
    bytes         INTEGER NOT NULL DEFAULT 0, -- readable bytes of live blobs
    executions    INTEGER NOT NULL DEFAULT 0, -- not erased
    records       INTEGER NOT NULL DEFAULT 0, -- newest number of an attempt record
    head          INTEGER NOT NULL DEFAULT 0, -- newest sequence number of a journal record
    head_evidence INTEGER NOT NULL DEFAULT 0  -- newest evidence entry at that record
) STRICT;
INSERT INTO deployment (one) VALUES (1);

CREATE TABLE tenants (
    id           TEXT    NOT NULL PRIMARY KEY,
    created_at   INTEGER NOT NULL,
    name_key     BLOB    NOT NULL,
    index_key    BLOB    NOT NULL,
    index_wrap   INTEGER NOT NULL,
    minimum_wrap INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    tenant  TEXT    NOT NULL REFERENCES tenants (id),
    class   TEXT    NOT NULL,
    maximum INTEGER NOT NULL, -- nanoseconds; 0 is none
    PRIMARY KEY (tenant, class)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL REFERENCES tenants (id),
    name       TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    roles      TEXT    NOT NULL, -- separated by spaces
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_tenant ON tokens (tenant, id);

-- Tables that grow with every put are numbered and appended to, so that a batch
-- of puts dirties few pages; their indexes have what is looked up.
CREATE TABLE executions (
    n           INTEGER PRIMARY KEY,
    tag         BLOB    NOT NULL UNIQUE,
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL, -- '' for a fence known only by its tag
    state       INTEGER NOT NULL,
    reason      INTEGER NOT NULL,
    key_id      BLOB,             -- NULL once erased
    key_version INTEGER,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    erased_at   INTEGER,
    blobs       INTEGER NOT NULL, -- live
    bytes       INTEGER NOT NULL  -- readable bytes of live blobs
) STRICT;
CREATE UNIQUE INDEX executions_id ON executions (tenant, id) WHERE id <> '';
CREATE INDEX executions_newest ON executions (tenant, created_at, tag);

-- Wrapped keys lie in this table and in blobs and nowhere else. secure_delete
-- zeroes what a page frees; so that nothing hangs on what it does where rows
-- move from page to page, the rows of both tables never move: they are appended
-- in the order of their numbers, never deleted, and no update makes one longer.
-- Whoever changes a statement that updates them keeps that.
CREATE TABLE execution_keys (
    n       INTEGER PRIMARY KEY, -- of the execution
    wrapped BLOB
) STRICT;

-- A tombstone is state 2 with an empty class. A row holds the attempt record of
-- the part that made it, with its own step, kind and time; what becomes a tombstone
-- hands it on to parts.
CREATE TABLE blobs (
    n             INTEGER PRIMARY KEY,
    execution_tag BLOB    NOT NULL,
    ref           BLOB    NOT NULL,
    state         INTEGER NOT NULL,
    class         TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    content_type  TEXT    NOT NULL,
    size          INTEGER NOT NULL,
    sealed_size   INTEGER NOT NULL,
    step_id       TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    repeat        BLOB, -- NULL once released
    wrapped       BLOB, -- NULL once dropped
    audience      BLOB, -- hashes of 32 bytes, joined
    record        INTEGER, -- number of the attempt record; NULL: none, and the next four too
    attempt       INTEGER,
    part_index    INTEGER,
    provider      TEXT,
    model         TEXT
) STRICT;
CREATE UNIQUE INDEX blobs_ref ON blobs (execution_tag, ref);
CREATE UNIQUE INDEX blobs_repeat ON blobs (execution_tag, repeat) WHERE repeat IS NOT NULL;

CREATE TABLE subjects (
    execution_tag BLOB NOT NULL,
    ref           BLOB NOT NULL,
    subject       BLOB NOT NULL,
    PRIMARY KEY (execution_tag, ref, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX subjects_subject ON subjects (subject);

-- Attempt records that no row of blobs holds; both share their numbers. An empty
-- ref is none.
CREATE TABLE parts (
    seq           INTEGER PRIMARY KEY,
    execution_tag BLOB    NOT NULL,
    step_id       TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    part_index    INTEGER NOT NULL,
    ref           BLOB    NOT NULL,
    kind          TEXT    NOT NULL,
    status        INTEGER NOT NULL,
    provider      TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    at            INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX parts_once ON parts (execution_tag, step_id, attempt, part_index, ref);

-- No row is ever deleted, so ids never come twice.
CREATE TABLE evidence (
    id     INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    body   BLOB    NOT NULL
) STRICT;
-- +goose StatementBegin
CREATE TRIGGER evidence_update BEFORE UPDATE ON evidence
BEGIN
    SELECT RAISE(ABORT, 'evidence is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER evidence_delete BEFORE DELETE ON evidence
BEGIN
    SELECT RAISE(ABORT, 'evidence is append-only');
END;
-- +goose StatementEnd

-- What a person wrote, apart from its entry so that it can be erased.
CREATE TABLE free_texts (
    evidence_id INTEGER PRIMARY KEY REFERENCES evidence (id),
    text        TEXT NOT NULL,
    salt        BLOB NOT NULL
) STRICT;

-- An erasure's row is also its job.
CREATE TABLE erasures (
    seq              INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    tenant           TEXT    NOT NULL,
    execution_tag    BLOB    NOT NULL,
    execution_id     TEXT    NOT NULL,
    of_refs          INTEGER NOT NULL,
    state            TEXT    NOT NULL,
    plan_executions  INTEGER NOT NULL,
    plan_blobs       INTEGER NOT NULL,
    plan_bytes       INTEGER NOT NULL,
    already_erased   INTEGER NOT NULL,
    not_found        INTEGER NOT NULL,
    keys_destroyed   INTEGER NOT NULL DEFAULT 0,
    objects_deleted  INTEGER NOT NULL DEFAULT 0,
    versions_deleted INTEGER NOT NULL DEFAULT 0,
    failed           INTEGER NOT NULL DEFAULT 0,
    remaining        INTEGER NOT NULL DEFAULT 0,
    settled          INTEGER NOT NULL DEFAULT 0,
    swept            INTEGER NOT NULL DEFAULT 0,
    last_error       TEXT    NOT NULL DEFAULT '',
    details          BLOB,             -- residuals and refused objects, JSON; NULL: none
    requested_by     TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    legal_basis      TEXT    NOT NULL,
    regime           TEXT    NOT NULL,
    external_ref     TEXT    NOT NULL,
    received_at      INTEGER,
    due_at           INTEGER,
    fenced_at        INTEGER NOT NULL,
    erased_at        INTEGER,
    attempts         INTEGER NOT NULL DEFAULT 0,
    record           INTEGER NOT NULL, -- its journal record
    run_at           INTEGER NOT NULL,
    term             INTEGER NOT NULL DEFAULT 0,
    lease_owner      TEXT,             -- NULL: not leased
    lease_until      INTEGER,
    tombstoned       BLOB    NOT NULL DEFAULT x'' -- the last ref that Tombstone passed
) STRICT;
CREATE INDEX erasures_newest ON erasures (tenant, fenced_at, id);
CREATE INDEX erasures_due ON erasures (run_at, seq) WHERE state = 'running';
CREATE INDEX erasures_scope ON erasures (execution_tag, seq);

CREATE TABLE erasure_refs (
    erasure INTEGER NOT NULL REFERENCES erasures (seq),
    ref     BLOB    NOT NULL,
    PRIMARY KEY (erasure, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    seq       INTEGER PRIMARY KEY,
    body      BLOB    NOT NULL,
    published INTEGER NOT NULL
) STRICT;
CREATE INDEX journal_unpublished ON journal (seq) WHERE published = 0;

CREATE TABLE requests (
    tenant TEXT    NOT NULL,
    route  TEXT    NOT NULL,
    key    BLOB    NOT NULL,
    body   BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    status INTEGER NOT NULL, -- 0: still running
    answer BLOB,
    PRIMARY KEY (tenant, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (at);
