-- +goose Up
-- What was last found of the ledger's clock.
CREATE TABLE clock_watch (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    seen    INTEGER,                    -- the newest time that was trusted; NULL: none yet
    since   INTEGER,                    -- since when it is suspect; NULL: it is not
    version INTEGER NOT NULL DEFAULT 0  -- how often it was noted
) STRICT;
INSERT INTO clock_watch (one) VALUES (1);
