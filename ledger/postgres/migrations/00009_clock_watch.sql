-- +goose Up
-- What was last found of the server's clock.
CREATE TABLE clock_watch (
    one     SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    seen    BIGINT,                    -- the newest time that was trusted; NULL: none yet
    since   BIGINT,                    -- since when it is suspect; NULL: it is not
    version BIGINT NOT NULL DEFAULT 0  -- how often it was noted
) WITH (fillfactor = 10);
INSERT INTO clock_watch DEFAULT VALUES;
