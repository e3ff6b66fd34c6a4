-- +goose Up
-- Orders over a scope: holds, restrictions, closings, suppressions. The scope is
-- whole in the row; what is asked with every row of blobs has a table or an index of
-- open orders for its form, so that thousands of orders cost one look.
CREATE TABLE orders (
    seq           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    kind          INTEGER NOT NULL,
    form          INTEGER NOT NULL,
    tenant        TEXT    NOT NULL,
    execution_tag BLOB    NOT NULL,
    execution_id  TEXT    NOT NULL,
    refs          BLOB,             -- of 32 bytes, in order, joined; NULL: none
    subjects      BLOB,             -- likewise
    class         TEXT    NOT NULL,
    before        INTEGER NOT NULL, -- captured before, not included; 9223372036854775807: without an end
    erasure       TEXT    NOT NULL, -- id; '': none
    matter        TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    owner         TEXT    NOT NULL,
    purposes      TEXT    NOT NULL, -- a JSON list; '': none
    review_at     INTEGER,
    expires_at    INTEGER,
    placed_at     INTEGER NOT NULL,
    placed_by     TEXT    NOT NULL,
    lifted_at     INTEGER,          -- NULL: open
    lifted_by     TEXT    NOT NULL DEFAULT '',
    lift_reason   TEXT    NOT NULL DEFAULT '',
    record        INTEGER NOT NULL  -- its journal record
) STRICT;
CREATE INDEX orders_newest ON orders (tenant, kind, placed_at, id);
CREATE INDEX orders_open ON orders (tenant, kind, form) WHERE lifted_at IS NULL;
CREATE INDEX orders_execution ON orders (execution_tag, kind) WHERE lifted_at IS NULL AND form = 1;
CREATE INDEX orders_class ON orders (tenant, class, kind, before) WHERE lifted_at IS NULL AND form = 4;
CREATE INDEX orders_closing ON orders (erasure) WHERE erasure <> '';

-- The refs and subjects of orders. tenant, kind and whether it is open are the
-- order's.
CREATE TABLE order_refs (
    placed        INTEGER NOT NULL REFERENCES orders (seq),
    ref           BLOB    NOT NULL,
    execution_tag BLOB    NOT NULL,
    tenant        TEXT    NOT NULL,
    kind          INTEGER NOT NULL,
    open          INTEGER NOT NULL,
    PRIMARY KEY (placed, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX order_refs_open ON order_refs (execution_tag, ref, kind) WHERE open = 1;

CREATE TABLE order_subjects (
    placed  INTEGER NOT NULL REFERENCES orders (seq),
    subject BLOB    NOT NULL,
    tenant  TEXT    NOT NULL,
    kind    INTEGER NOT NULL,
    open    INTEGER NOT NULL,
    PRIMARY KEY (placed, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX order_subjects_open ON order_subjects (tenant, subject, kind) WHERE open = 1;

-- How many people must approve an erasure.
ALTER TABLE tenants ADD COLUMN approvals INTEGER NOT NULL DEFAULT 0;

-- Erasures that cannot fence at once. record is 0 where there is none. execution_tag
-- is 16 zeros where the scope is subjects or a class.
ALTER TABLE erasures ADD COLUMN closing INTEGER NOT NULL DEFAULT 0; -- it has not fenced
ALTER TABLE erasures ADD COLUMN scope_refs BLOB;                    -- refs asked for, joined; NULL: none, or it fenced at once
ALTER TABLE erasures ADD COLUMN subjects BLOB;                      -- joined; NULL: none
ALTER TABLE erasures ADD COLUMN class TEXT NOT NULL DEFAULT '';
ALTER TABLE erasures ADD COLUMN before INTEGER;                     -- NULL: without an end
ALTER TABLE erasures ADD COLUMN plan_held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN plan_floor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN plan_shared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN plan_digest BLOB;                   -- NULL: it was not previewed
ALTER TABLE erasures ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0; -- rows that lost their keys one by one
ALTER TABLE erasures ADD COLUMN grace_until INTEGER;
ALTER TABLE erasures ADD COLUMN approvals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN approved_by TEXT NOT NULL DEFAULT ''; -- a JSON list; '': none
ALTER TABLE erasures ADD COLUMN decided_by TEXT NOT NULL DEFAULT '';
ALTER TABLE erasures ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE erasures ADD COLUMN decision_reason TEXT NOT NULL DEFAULT '';
-- When a hold or policy of its tenant changed since it was claimed; NULL: none did.
ALTER TABLE erasures ADD COLUMN woken INTEGER;
CREATE INDEX erasures_claimable ON erasures (run_at, seq) WHERE state IN ('running', 'grace', 'deferred');
CREATE INDEX erasures_closing ON erasures (tenant) WHERE closing = 1 AND state IN ('running', 'deferred');

-- What an erasure that only closed its scope dropped, or found erased: its objects
-- are deleted by their names.
CREATE TABLE erasure_rows (
    erasure       INTEGER NOT NULL REFERENCES erasures (seq),
    execution_tag BLOB    NOT NULL,
    ref           BLOB    NOT NULL,
    tombstoned    INTEGER NOT NULL,
    PRIMARY KEY (erasure, execution_tag, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX erasure_rows_left ON erasure_rows (erasure, execution_tag, ref) WHERE tombstoned = 0;
