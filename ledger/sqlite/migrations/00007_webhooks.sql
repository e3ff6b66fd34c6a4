-- +goose Up
-- A webhook's row is also the job of its deliveries: it is leased with one of
-- them, and due_at is when the first one is due.
CREATE TABLE webhooks (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    tenant       TEXT    NOT NULL REFERENCES tenants (id),
    url          TEXT    NOT NULL,
    types        TEXT    NOT NULL, -- separated by spaces; '' is all
    description  TEXT    NOT NULL,
    secret       BLOB    NOT NULL, -- sealed, and so is the next
    old_secret   BLOB,             -- NULL: none
    old_until    INTEGER,
    created_at   INTEGER NOT NULL,
    created_by   TEXT    NOT NULL,
    disabled_at  INTEGER,
    disabled_for TEXT    NOT NULL DEFAULT '',
    due_at       INTEGER,          -- NULL: nothing is pending
    term         INTEGER NOT NULL DEFAULT 0,
    lease_owner  TEXT,             -- NULL: not leased
    lease_until  INTEGER,
    lease_n      INTEGER
) STRICT;
CREATE INDEX webhooks_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;

-- What ended has no due_at, what is pending no ended_at.
CREATE TABLE webhook_deliveries (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook    TEXT    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event      TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    body       BLOB    NOT NULL,
    state      TEXT    NOT NULL DEFAULT 'pending',
    attempts   INTEGER NOT NULL DEFAULT 0,
    status     INTEGER NOT NULL DEFAULT 0,
    last_error TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    due_at     INTEGER,
    ended_at   INTEGER,
    UNIQUE (webhook, event)
) STRICT;
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook, n);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook, due_at, n) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (n) WHERE state = 'dead';

-- The index in the log of the first entry that was not turned into deliveries.
CREATE TABLE webhook_feed (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO webhook_feed (one, next) VALUES (1, 0);
