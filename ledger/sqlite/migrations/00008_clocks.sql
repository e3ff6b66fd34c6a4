-- +goose Up
-- What moves the due dates of erasures. No event is ever changed or deleted.
CREATE TABLE clock_events (
    erasure     INTEGER NOT NULL REFERENCES erasures (seq),
    n           INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    told_by     TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    due_at      INTEGER,          -- of an extension; NULL: the regime's
    stated_at   INTEGER,          -- of the first event; NULL: none
    PRIMARY KEY (erasure, n)
) STRICT, WITHOUT ROWID;

-- What is due and has not ended, of all tenants.
CREATE INDEX erasures_clock ON erasures (regime, due_at)
    WHERE due_at IS NOT NULL AND state NOT IN ('erased', 'denied', 'cancelled');
