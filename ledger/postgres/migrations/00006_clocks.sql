-- +goose Up
-- What moves the due dates of erasures. No event is ever changed or deleted.
CREATE TABLE clock_events (
    erasure     BIGINT  NOT NULL REFERENCES erasures (seq),
    n           INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    at          BIGINT  NOT NULL,
    recorded_at BIGINT  NOT NULL,
    told_by     TEXT    NOT NULL,
    reason      BYTEA   NOT NULL,
    due_at      BIGINT,           -- of an extension; NULL: the regime's
    stated_at   BIGINT,           -- of the first event; NULL: none
    PRIMARY KEY (erasure, n)
);

-- What is due and has not ended, of all tenants.
CREATE INDEX erasures_clock ON erasures (regime, due_at)
    WHERE due_at IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled');
