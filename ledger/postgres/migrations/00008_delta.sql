-- +goose Up
-- What an erasure took, counted beside a plan that stays: by its fence, and by what it
-- dropped before. planned: the plan was counted before anything was closed. Of one that
-- is not, what the fence found is in the plan's columns, as programs before this wrote it.
ALTER TABLE erasures
    ADD COLUMN planned           BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN fenced_executions BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN fenced_blobs      BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN fenced_bytes      BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN fenced_already    BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN fenced_missing    BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN drop_executions   BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN drop_blobs        BIGINT  NOT NULL DEFAULT 0,
    ADD COLUMN drop_bytes        BIGINT  NOT NULL DEFAULT 0;

-- Of those under way only what has dropped nothing yet is counted from its beginning.
UPDATE erasures SET planned = TRUE
    WHERE closing AND dropped = 0 AND plan_digest IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled');

-- The executions in which an erasure of a form that nothing fences met rows: each
-- counts once.
CREATE TABLE erasure_executions (
    erasure       BIGINT NOT NULL REFERENCES erasures (seq),
    execution_tag BYTEA  NOT NULL,
    PRIMARY KEY (erasure, execution_tag)
);
