-- +goose Up
-- Holds, restrictions, closings and suppressions. What an order covers is found by
-- the partial indexes below, one for each form of a scope, so that what is asked of
-- one row costs little with thousands of orders.
CREATE TABLE orders (
    seq             BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id              TEXT COLLATE "C" NOT NULL UNIQUE,
    kind            SMALLINT NOT NULL,
    tenant          TEXT COLLATE "C" NOT NULL,
    form            SMALLINT NOT NULL,
    execution_tag   BYTEA    NOT NULL, -- of a whole tenant: the tag that names it in object names
    execution_id    TEXT     NOT NULL,
    refs            BYTEA    NOT NULL, -- of 32 bytes, joined
    subjects        BYTEA    NOT NULL, -- hashes of 32 bytes, joined
    class           TEXT COLLATE "C" NOT NULL,
    captured_before BIGINT   NOT NULL, -- the greatest number: without an end
    erasure_id      TEXT     NOT NULL,
    matter          BYTEA    NOT NULL,
    reason          BYTEA    NOT NULL,
    owner           BYTEA    NOT NULL,
    purposes        TEXT[]   NOT NULL,
    review_at       BIGINT,
    expires_at      BIGINT,
    placed_at       BIGINT   NOT NULL,
    placed_by       TEXT     NOT NULL,
    lifted_at       BIGINT,            -- NULL: open
    lifted_by       TEXT     NOT NULL DEFAULT '',
    lift_reason     BYTEA    NOT NULL DEFAULT '',
    lift_at         BIGINT,            -- of a closing: when the suppression that it becomes was lifted, says the journal
    record          BIGINT   NOT NULL  -- its first journal record
);
CREATE INDEX orders_newest ON orders (tenant, kind, placed_at, id);
CREATE INDEX orders_open ON orders (tenant, kind) WHERE lifted_at IS NULL;
CREATE INDEX orders_tenant ON orders (tenant, kind) WHERE lifted_at IS NULL AND form = 5;
CREATE INDEX orders_execution ON orders (execution_tag, kind) WHERE lifted_at IS NULL AND form = 1;
CREATE INDEX orders_class ON orders (tenant, class, captured_before, kind) WHERE lifted_at IS NULL AND form = 4;

-- The refs and subjects of open orders: they go when an order is lifted.
CREATE TABLE order_refs (
    order_seq BIGINT NOT NULL REFERENCES orders (seq),
    ref       BYTEA  NOT NULL,
    PRIMARY KEY (ref, order_seq)
);
CREATE INDEX order_refs_order ON order_refs (order_seq);
CREATE TABLE order_subjects (
    order_seq BIGINT NOT NULL REFERENCES orders (seq),
    subject   BYTEA  NOT NULL,
    PRIMARY KEY (subject, order_seq)
);
CREATE INDEX order_subjects_order ON order_subjects (order_seq);

-- Which open orders cover what, said once for holds, restrictions and closings. They
-- are functions because the server keeps their plans: planned with each statement,
-- they would cost a read or a put more than all else that it asks. Each part has an
-- index of its own. Kinds: 1 hold, 2 restriction, 3 closing, 4 suppression.

-- The greatest of the kinds 2 and 3 of orders over an execution ($2) of a tenant ($1)
-- as a whole; 0: none.
-- +goose StatementBegin
CREATE FUNCTION order_over_execution(TEXT, BYTEA) RETURNS SMALLINT STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT coalesce(max(c.kind), 0) FROM (
        SELECT o.kind FROM orders o WHERE o.tenant = $1 AND o.form = 5 AND o.lifted_at IS NULL
        UNION ALL
        SELECT o.kind FROM orders o WHERE o.execution_tag = $2 AND o.form = 1 AND o.lifted_at IS NULL AND o.tenant = $1
    ) c WHERE c.kind IN (2, 3));
END $$;
-- +goose StatementEnd

-- The greatest of some kinds ($6) of orders over a row ($3) of an execution ($2) of a
-- tenant ($1), of a class ($4), captured at ($5); 0: none. A row whose execution has no
-- row is nobody's: only the scope of that execution, or of its ref, covers it.
-- +goose StatementBegin
CREATE FUNCTION order_over_row(TEXT, BYTEA, BYTEA, TEXT, BIGINT, SMALLINT[]) RETURNS SMALLINT STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT coalesce(max(c.kind), 0) FROM (
        SELECT o.kind FROM orders o WHERE o.tenant = $1 AND o.form = 5 AND o.lifted_at IS NULL
            AND EXISTS (SELECT 1 FROM executions e WHERE e.tag = $2)
        UNION ALL
        SELECT o.kind FROM orders o WHERE o.execution_tag = $2 AND o.form = 1 AND o.lifted_at IS NULL AND o.tenant = $1
        UNION ALL
        SELECT o.kind FROM order_refs r JOIN orders o ON o.seq = r.order_seq
            WHERE r.ref = $3 AND o.execution_tag = $2 AND o.lifted_at IS NULL AND o.tenant = $1
        UNION ALL
        SELECT o.kind FROM orders o WHERE o.tenant = $1 AND o.class = $4 AND o.captured_before > $5 AND o.form = 4 AND o.lifted_at IS NULL
        UNION ALL
        SELECT o.kind FROM subjects s JOIN order_subjects os ON os.subject = s.subject JOIN orders o ON o.seq = os.order_seq
            WHERE s.execution_tag = $2 AND s.ref = $3 AND o.lifted_at IS NULL AND o.tenant = $1
    ) c WHERE c.kind = ANY ($6));
END $$;
-- +goose StatementEnd

-- What is open in the tenant of an execution: 1 a hold, 2 a restriction or closing, 3
-- both, 0 neither.
-- +goose StatementBegin
CREATE FUNCTION orders_around(BYTEA) RETURNS SMALLINT STABLE LANGUAGE plpgsql AS $$
DECLARE
    of_tenant TEXT COLLATE "C";
BEGIN
    SELECT e.tenant INTO of_tenant FROM executions e WHERE e.tag = $1;
    RETURN CASE WHEN (SELECT min(o.kind) FROM orders o WHERE o.tenant = of_tenant AND o.lifted_at IS NULL) = 1 THEN 1 ELSE 0 END
        + CASE WHEN (SELECT max(o.kind) FROM orders o WHERE o.tenant = of_tenant AND o.lifted_at IS NULL AND o.kind <= 3) >= 2 THEN 2 ELSE 0 END;
END $$;
-- +goose StatementEnd

-- The open orders that may close or suppress puts of tenants ($1) into executions ($2)
-- of classes ($3) as of a time ($4), with refs ($5) and subjects ($6). item is the ref
-- or subject that was met.
-- +goose StatementBegin
CREATE FUNCTION orders_met(TEXT[], BYTEA[], TEXT[], BIGINT, BYTEA[], BYTEA[])
RETURNS TABLE (kind SMALLINT, form SMALLINT, tenant TEXT, execution_tag BYTEA, class TEXT, captured_before BIGINT, expires_at BIGINT, item BYTEA)
STABLE LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT coalesce(max(m.kind), 0) FROM unnest($1) t (id),
        LATERAL (SELECT max(o.kind) AS kind FROM orders o WHERE o.tenant = t.id AND o.lifted_at IS NULL) m) < 2 THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT q.kind, q.form, q.tenant, q.execution_tag, q.class, q.captured_before, q.expires_at, q.item FROM (
        SELECT o.*, NULL::bytea AS item FROM unnest($1) t (id) JOIN orders o ON o.tenant = t.id AND o.form = 5
        UNION ALL
        SELECT o.*, NULL FROM unnest($2) x (tag) JOIN orders o ON o.execution_tag = x.tag AND o.form = 1
        UNION ALL
        SELECT o.*, NULL FROM orders o WHERE o.tenant = ANY ($1) AND o.class = ANY ($3) AND o.captured_before > $4 AND o.form = 4
        UNION ALL
        SELECT o.*, r.ref FROM order_refs r JOIN orders o ON o.seq = r.order_seq WHERE r.ref = ANY ($5)
        UNION ALL
        SELECT o.*, s.subject FROM order_subjects s JOIN orders o ON o.seq = s.order_seq WHERE s.subject = ANY ($6)
    ) q WHERE q.kind >= 2 AND q.lifted_at IS NULL;
END $$;
-- +goose StatementEnd

-- How many people must approve an erasure.
ALTER TABLE tenants ADD COLUMN approvals INTEGER NOT NULL DEFAULT 0;

-- What a record says of an order, in the encoding of records; '' is nothing.
ALTER TABLE journal ADD COLUMN order_fields BYTEA NOT NULL DEFAULT '';

-- An erasure that has not fenced is closing. One that passes over its scope has the
-- state 'passing' here, which is told as running: a program that does not know of
-- closings would take it for one that has fenced.
ALTER TABLE erasures
    ADD COLUMN closing         BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN dropped         BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN scope_refs      BYTEA   NOT NULL DEFAULT '', -- of 32 bytes, joined; '' where it fenced at once
    ADD COLUMN subjects        BYTEA   NOT NULL DEFAULT '', -- hashes of 32 bytes, joined
    ADD COLUMN class           TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN captured_before BIGINT,
    ADD COLUMN plan_held       BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN plan_floor      BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN plan_shared     BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN plan_digest     BYTEA,                       -- NULL: its plan was not previewed
    ADD COLUMN grace_until     BIGINT,
    ADD COLUMN approvals       INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN approved_by     TEXT[]  NOT NULL DEFAULT '{}',
    ADD COLUMN decided_by      TEXT    NOT NULL DEFAULT '',
    ADD COLUMN code            TEXT    NOT NULL DEFAULT '',
    ADD COLUMN decision_reason BYTEA   NOT NULL DEFAULT '',
    ADD COLUMN woken_at        BIGINT;                      -- when a hold was lifted or a policy set since it was claimed; NULL: not
CREATE INDEX erasures_claimable ON erasures (run_at, seq) WHERE state IN ('running', 'passing', 'grace', 'deferred');
DROP INDEX erasures_due;
DROP INDEX erasures_oldest;
CREATE INDEX erasures_oldest ON erasures (fenced_at) WHERE state IN ('running', 'passing');
CREATE INDEX erasures_deferred ON erasures (tenant) WHERE state IN ('deferred', 'passing');
CREATE INDEX erasures_dated ON erasures (tenant, due_at) WHERE due_at IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled');

-- Rows that an erasure dropped, or found erased.
CREATE TABLE erasure_rows (
    erasure       BIGINT  NOT NULL REFERENCES erasures (seq),
    execution_tag BYTEA   NOT NULL,
    ref           BYTEA   NOT NULL,
    done          BOOLEAN NOT NULL DEFAULT FALSE, -- it is a tombstone, by this erasure
    PRIMARY KEY (erasure, execution_tag, ref)
);
CREATE INDEX erasure_rows_left ON erasure_rows (erasure, execution_tag, ref) WHERE NOT done;

-- A scope's rows: of a person, and those of a class that lost their keys to an
-- erasure and are no tombstones yet. The others of a class are in blobs_due.
CREATE INDEX subjects_rows ON subjects (subject, execution_tag, ref);
DROP INDEX subjects_subject;
CREATE INDEX blobs_dropped ON blobs (class_n, created_at, n) WHERE state = 2 AND class <> '';
-- Whether a tenant has any legal floor.
CREATE INDEX policy_versions_floor ON policy_versions (tenant) WHERE floor <> '';
