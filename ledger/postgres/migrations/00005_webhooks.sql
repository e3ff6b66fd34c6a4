-- +goose Up
-- A webhook's row is also the job of its deliveries: it is leased with one of
-- them, and due_at is when the first one is due. Whoever changes pending deliveries
-- locks the rows of their webhooks first, by id.
CREATE TABLE webhooks (
    id           TEXT COLLATE "C" PRIMARY KEY,
    tenant       TEXT COLLATE "C" NOT NULL REFERENCES tenants (id),
    url          TEXT   NOT NULL,
    types        TEXT[] NOT NULL, -- none: all
    description  BYTEA  NOT NULL,
    secret       BYTEA  NOT NULL, -- sealed, and so is the next
    old_secret   BYTEA,           -- NULL: none
    old_until    BIGINT,
    created_at   BIGINT NOT NULL,
    created_by   TEXT   NOT NULL,
    disabled_at  BIGINT,
    disabled_for TEXT   NOT NULL DEFAULT '',
    due_at       BIGINT,          -- NULL: nothing is pending
    term         BIGINT NOT NULL DEFAULT 0,
    lease_owner  TEXT,            -- NULL: not leased
    lease_until  BIGINT,
    lease_n      BIGINT
);
CREATE INDEX webhooks_tenant ON webhooks (tenant, id);
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;

-- What ended has no due_at, what is pending no ended_at.
CREATE TABLE webhook_deliveries (
    n          BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    webhook    TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event      TEXT COLLATE "C" NOT NULL,
    type       TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    body       BYTEA  NOT NULL,
    state      TEXT COLLATE "C" NOT NULL DEFAULT 'pending',
    attempts   BIGINT NOT NULL DEFAULT 0,
    status     BIGINT NOT NULL DEFAULT 0,
    last_error TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    due_at     BIGINT,
    ended_at   BIGINT,
    UNIQUE (webhook, event)
);
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook, n);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook, due_at, n) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (n) WHERE state = 'dead';

-- The index in the log of the first entry that was not turned into deliveries.
CREATE TABLE webhook_feed (
    one  SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    next BIGINT NOT NULL DEFAULT 0
);
INSERT INTO webhook_feed DEFAULT VALUES;
