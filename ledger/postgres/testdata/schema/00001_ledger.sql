-- +goose Up
-- Times are microseconds since 1970 in UTC. Refs, tags and hashes are raw bytes;
-- texts that are compared or sorted have the collation "C": byte order. What a
-- person may have written in any bytes is BYTEA, since TEXT takes no NUL.

-- The deployment's one row. Its lock is the order of the journal: whoever makes
-- a record holds it to the end of the transaction, and takes it last.
CREATE TABLE deployment (
    one          SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    id           TEXT     NOT NULL DEFAULT '',
    confirmed    BOOLEAN  NOT NULL DEFAULT FALSE,
    recovery     SMALLINT NOT NULL DEFAULT 0,
    head         BIGINT   NOT NULL DEFAULT 0, -- newest sequence number of a journal record
    head_entries BIGINT   NOT NULL DEFAULT 0  -- evidence entries at that record
) WITH (fillfactor = 10);
INSERT INTO deployment DEFAULT VALUES;

-- Counters, spread over rows so that transactions seldom meet in one. Each
-- transaction moves one row; a metric adds them up.
CREATE TABLE counters (
    slot       SMALLINT PRIMARY KEY,
    writes     BIGINT NOT NULL DEFAULT 0, -- blobs ever committed
    blobs      BIGINT NOT NULL DEFAULT 0, -- live
    bytes      BIGINT NOT NULL DEFAULT 0, -- readable bytes of live blobs
    executions BIGINT NOT NULL DEFAULT 0, -- not erased
    entries    BIGINT NOT NULL DEFAULT 0, -- evidence entries ever inserted
    checks     BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO counters (slot) SELECT generate_series(0, 63);

CREATE TABLE tenants (
    id           TEXT COLLATE "C" PRIMARY KEY,
    created_at   BIGINT  NOT NULL,
    name_key     BYTEA   NOT NULL,
    index_key    BYTEA   NOT NULL,
    index_wrap   BIGINT  NOT NULL,
    minimum_wrap BIGINT  NOT NULL
);

CREATE TABLE policies (
    tenant  TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    class   TEXT COLLATE "C" NOT NULL,
    maximum BIGINT NOT NULL, -- nanoseconds; 0 is none
    PRIMARY KEY (tenant, class)
);

CREATE TABLE tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    tenant     TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    name       TEXT   NOT NULL,
    hash       BYTEA  NOT NULL UNIQUE,
    roles      TEXT[] NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX tokens_tenant ON tokens (tenant, id);

-- The row of an execution is what its puts and its fence lock. It is updated by
-- every put, so it is small, and no index holds what a put changes.
CREATE TABLE executions (
    tag        BYTEA PRIMARY KEY,
    tenant     TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL, -- '' for a fence known only by its tag
    state      SMALLINT NOT NULL,
    reason     SMALLINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT,
    erased_at  BIGINT,
    blobs      BIGINT NOT NULL, -- live
    bytes      BIGINT NOT NULL, -- readable bytes of live blobs
    lost_blob  BOOLEAN NOT NULL DEFAULT FALSE -- refs were erased since it got its key
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX executions_id ON executions (tenant, id) WHERE id <> '';
CREATE INDEX executions_newest ON executions (tenant, created_at, tag);
CREATE INDEX executions_state ON executions (tenant, state, created_at, tag) WHERE state <> 1;

-- The wrapped key of each execution that is not erased. Apart from the
-- execution, so that a put leaves no dead copy of it.
CREATE TABLE execution_keys (
    tag     BYTEA PRIMARY KEY,
    tenant  TEXT COLLATE "C" NOT NULL,
    id      BYTEA  NOT NULL,
    version BIGINT NOT NULL,
    wrapped BYTEA  NOT NULL
);
CREATE INDEX execution_keys_version ON execution_keys (tenant, version);

-- A tombstone is state 2 with an empty class.
CREATE TABLE blobs (
    execution_tag BYTEA    NOT NULL,
    ref           BYTEA    NOT NULL,
    state         SMALLINT NOT NULL,
    class         TEXT COLLATE "C" NOT NULL,
    kind          TEXT     NOT NULL,
    content_type  TEXT     NOT NULL,
    size          BIGINT   NOT NULL,
    sealed_size   BIGINT   NOT NULL,
    step_id       TEXT COLLATE "C" NOT NULL,
    created_at    BIGINT   NOT NULL,
    repeat        BYTEA, -- NULL once released
    wrapped       BYTEA, -- NULL once dropped
    audience      BYTEA, -- hashes of 32 bytes, joined
    PRIMARY KEY (execution_tag, ref)
);
CREATE UNIQUE INDEX blobs_repeat ON blobs (execution_tag, repeat) WHERE repeat IS NOT NULL;

CREATE TABLE subjects (
    execution_tag BYTEA NOT NULL,
    ref           BYTEA NOT NULL,
    subject       BYTEA NOT NULL,
    PRIMARY KEY (execution_tag, ref, subject)
);
CREATE INDEX subjects_subject ON subjects (subject);

-- Attempt records. An empty ref is none. Puts of one execution lock its row
-- first, so its numbers rise in the order of commits.
CREATE TABLE parts (
    execution_tag BYTEA    NOT NULL,
    seq           BIGINT   NOT NULL GENERATED ALWAYS AS IDENTITY,
    step_id       TEXT COLLATE "C" NOT NULL,
    attempt       BIGINT   NOT NULL,
    part_index    INTEGER  NOT NULL,
    ref           BYTEA    NOT NULL,
    kind          TEXT     NOT NULL,
    status        SMALLINT NOT NULL,
    provider      TEXT     NOT NULL,
    model         TEXT     NOT NULL,
    at            BIGINT   NOT NULL,
    PRIMARY KEY (execution_tag, seq)
);
CREATE UNIQUE INDEX parts_once ON parts (execution_tag, step_id, attempt, part_index, ref);

-- Evidence. Ids come from a sequence, so a lower one may commit after a higher
-- one. So that a reader who goes on after an id misses none, a transaction marks
-- the sequence's value, by an advisory lock that ends with it, before it takes a
-- number: what is above the lowest mark may still get company.
CREATE SEQUENCE evidence_ids;
CREATE TABLE evidence (
    id     BIGINT PRIMARY KEY,
    tenant TEXT   NOT NULL,
    kind   TEXT   NOT NULL,
    at     BIGINT NOT NULL,
    body   BYTEA  NOT NULL
);
-- +goose StatementBegin
CREATE FUNCTION evidence_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared((1::bigint << 60) + (SELECT last_value FROM evidence_ids));
    NEW.id := nextval('evidence_ids');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER evidence_number BEFORE INSERT ON evidence FOR EACH ROW EXECUTE FUNCTION evidence_number();
-- +goose StatementBegin
CREATE FUNCTION evidence_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'evidence is append-only';
END $$;
-- +goose StatementEnd
CREATE TRIGGER evidence_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON evidence
    FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_append_only();

-- What a person wrote, apart from its entry so that it can be erased.
CREATE TABLE free_texts (
    evidence_id BIGINT PRIMARY KEY REFERENCES evidence (id),
    text        BYTEA NOT NULL,
    salt        BYTEA NOT NULL
);

-- An erasure's row is also its job.
CREATE TABLE erasures (
    seq              BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id               TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant           TEXT COLLATE "C" NOT NULL,
    execution_tag    BYTEA   NOT NULL,
    execution_id     TEXT    NOT NULL,
    of_refs          BOOLEAN NOT NULL,
    state            TEXT COLLATE "C" NOT NULL,
    plan_executions  BIGINT  NOT NULL,
    plan_blobs       BIGINT  NOT NULL,
    plan_bytes       BIGINT  NOT NULL,
    already_erased   BIGINT  NOT NULL,
    not_found        BIGINT  NOT NULL,
    keys_destroyed   BIGINT  NOT NULL DEFAULT 0,
    objects_deleted  BIGINT  NOT NULL DEFAULT 0,
    versions_deleted BIGINT  NOT NULL DEFAULT 0,
    failed           BIGINT  NOT NULL DEFAULT 0,
    remaining        BIGINT  NOT NULL DEFAULT 0,
    settled          BOOLEAN NOT NULL DEFAULT FALSE,
    swept            BOOLEAN NOT NULL DEFAULT FALSE,
    last_error       TEXT    NOT NULL DEFAULT '',
    details          BYTEA,            -- residuals and refused objects, JSON; NULL: none
    requested_by     TEXT    NOT NULL,
    reason           BYTEA   NOT NULL,
    legal_basis      BYTEA   NOT NULL,
    regime           BYTEA   NOT NULL,
    external_ref     BYTEA   NOT NULL,
    received_at      BIGINT,
    due_at           BIGINT,
    fenced_at        BIGINT  NOT NULL,
    erased_at        BIGINT,
    attempts         BIGINT  NOT NULL DEFAULT 0,
    record           BIGINT  NOT NULL, -- its journal record
    wrap             BIGINT  NOT NULL, -- newest KEK version under which a backup may hold what was erased
    run_at           BIGINT  NOT NULL,
    term             BIGINT  NOT NULL DEFAULT 0,
    lease_owner      TEXT,             -- NULL: not leased
    lease_until      BIGINT,
    tombstoned       BYTEA   NOT NULL DEFAULT '' -- the last ref that Tombstone passed
);
CREATE INDEX erasures_newest ON erasures (tenant, fenced_at, id);
CREATE INDEX erasures_state ON erasures (tenant, state, fenced_at, id);
CREATE INDEX erasures_due ON erasures (run_at, seq) WHERE state = 'running';
CREATE INDEX erasures_oldest ON erasures (fenced_at) WHERE state = 'running';
CREATE INDEX erasures_scope ON erasures (execution_tag, seq);

CREATE TABLE erasure_refs (
    erasure BIGINT NOT NULL REFERENCES erasures (seq),
    ref     BYTEA  NOT NULL,
    PRIMARY KEY (erasure, ref)
);

CREATE TABLE journal (
    seq        BIGINT PRIMARY KEY,
    kind       TEXT     NOT NULL,
    at         BIGINT   NOT NULL,
    tenant     TEXT     NOT NULL,
    tag        BYTEA    NOT NULL,
    refs       BYTEA    NOT NULL, -- of 32 bytes, joined
    reason     SMALLINT NOT NULL,
    erasure_id TEXT     NOT NULL,
    token_id   TEXT     NOT NULL,
    wrap       BIGINT   NOT NULL,
    writes     BIGINT   NOT NULL,
    published  BOOLEAN  NOT NULL
);
CREATE INDEX journal_unpublished ON journal (seq) WHERE NOT published;

CREATE TABLE requests (
    tenant TEXT COLLATE "C" NOT NULL,
    route  TEXT COLLATE "C" NOT NULL,
    key    BYTEA    NOT NULL,
    body   BYTEA    NOT NULL,
    at     BIGINT   NOT NULL,
    status SMALLINT NOT NULL, -- 0: still running
    answer BYTEA,
    PRIMARY KEY (tenant, route, key)
);
CREATE INDEX requests_at ON requests (at);

-- A key epoch's row is also its job.
CREATE TABLE epochs (
    seq          BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant       TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    state        SMALLINT NOT NULL,
    from_version BIGINT   NOT NULL DEFAULT 0,
    version      BIGINT   NOT NULL DEFAULT 0,
    total        BIGINT   NOT NULL DEFAULT 0,
    rewrapped    BIGINT   NOT NULL DEFAULT 0,
    rekeyed      BIGINT   NOT NULL DEFAULT 0,
    last_error   TEXT     NOT NULL DEFAULT '',
    attempts     BIGINT   NOT NULL DEFAULT 0,
    started_at   BIGINT   NOT NULL,
    completed_at BIGINT,
    trim_at      BIGINT,
    trimmed_at   BIGINT,
    run_at       BIGINT   NOT NULL,
    term         BIGINT   NOT NULL DEFAULT 0,
    lease_owner  TEXT,             -- NULL: not leased
    lease_until  BIGINT
);
CREATE UNIQUE INDEX epochs_open ON epochs (tenant) WHERE state IN (1, 2);
CREATE INDEX epochs_newest ON epochs (tenant, started_at, id);
CREATE INDEX epochs_due ON epochs (run_at, seq) WHERE state <> 4;

-- The evidence log: which entry has which index, and the tree over it. The one
-- row of evidence_log is its size, its sequencer's lease and its key.
CREATE TABLE evidence_log (
    one         SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    size        BIGINT NOT NULL DEFAULT 0, -- entries that have an index
    low         BIGINT NOT NULL DEFAULT 0, -- every id up to it has one, or will never be an entry's
    term        BIGINT NOT NULL DEFAULT 0,
    lease_owner TEXT,                      -- NULL: not leased
    lease_until BIGINT,
    key_version BIGINT,                    -- NULL: no key yet
    key_wrapped BYTEA,
    verifier    TEXT
);
INSERT INTO evidence_log DEFAULT VALUES;

CREATE TABLE evidence_indexes (
    n      BIGINT PRIMARY KEY, -- the index, from 0
    entry  BIGINT NOT NULL UNIQUE REFERENCES evidence (id),
    object TEXT COLLATE "C",   -- NULL: none
    hashes BYTEA  NOT NULL     -- of 32 bytes, joined
);
CREATE INDEX evidence_indexes_object ON evidence_indexes (object, n) WHERE object IS NOT NULL;
CREATE TRIGGER evidence_indexes_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON evidence_indexes
    FOR EACH STATEMENT EXECUTE FUNCTION evidence_is_append_only();

CREATE TABLE evidence_checkpoints (
    size BIGINT PRIMARY KEY,
    note BYTEA NOT NULL
);
