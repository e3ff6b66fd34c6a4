-- +goose Up
-- The evidence log: which entry has which index, and the tree over it. The one
-- row of evidence_log is its size, its sequencer's lease and its key.
CREATE TABLE evidence_log (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    size        INTEGER NOT NULL DEFAULT 0, -- entries that have an index
    last        INTEGER NOT NULL DEFAULT 0, -- every entry up to this id is among them
    term        INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT,                       -- NULL: not leased
    lease_until INTEGER,
    key_version INTEGER,                    -- NULL: no key yet
    key_wrapped BLOB,
    verifier    TEXT
) STRICT;
INSERT INTO evidence_log (one) VALUES (1);

CREATE TABLE evidence_indexes (
    n      INTEGER PRIMARY KEY, -- the index, from 0
    entry  INTEGER NOT NULL UNIQUE REFERENCES evidence (id),
    object TEXT,                -- NULL: none
    hashes BLOB    NOT NULL     -- of 32 bytes, joined
) STRICT;
CREATE INDEX evidence_indexes_object ON evidence_indexes (object, n) WHERE object IS NOT NULL;
-- +goose StatementBegin
CREATE TRIGGER evidence_indexes_update BEFORE UPDATE ON evidence_indexes
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER evidence_indexes_delete BEFORE DELETE ON evidence_indexes
BEGIN
    SELECT RAISE(ABORT, 'the log is append-only');
END;
-- +goose StatementEnd

CREATE TABLE evidence_checkpoints (
    size INTEGER PRIMARY KEY,
    note BLOB NOT NULL
) STRICT;
