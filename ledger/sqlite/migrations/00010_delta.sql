-- +goose Up
-- What an erasure took, counted beside a plan that stays: by its fence, and by what it
-- dropped before. planned: the plan was counted before anything was closed. Of one that
-- is not, what the fence found is in the plan's columns.
ALTER TABLE erasures ADD COLUMN planned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN fenced_executions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN fenced_blobs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN fenced_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN fenced_already INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN fenced_missing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN drop_executions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN drop_blobs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE erasures ADD COLUMN drop_bytes INTEGER NOT NULL DEFAULT 0;

-- Of those under way only what has dropped nothing yet is counted from its beginning.
UPDATE erasures SET planned = 1
    WHERE closing = 1 AND dropped = 0 AND plan_digest IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled');

-- The executions in which an erasure of a form that nothing fences met rows: each
-- counts once.
CREATE TABLE erasure_executions (
    erasure       INTEGER NOT NULL REFERENCES erasures (seq),
    execution_tag BLOB    NOT NULL,
    PRIMARY KEY (erasure, execution_tag)
) STRICT, WITHOUT ROWID;
