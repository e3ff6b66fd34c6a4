-- +goose Up
-- A callback is the webhook of one erasure: its row comes with the erasure's.
ALTER TABLE webhooks ADD COLUMN erasure TEXT COLLATE "C" NOT NULL DEFAULT ''; -- '': of no one
DROP INDEX webhooks_tenant;
CREATE INDEX webhooks_tenant ON webhooks (tenant, erasure, id);
CREATE INDEX webhooks_callbacks ON webhooks (erasure) WHERE erasure <> '';

-- When an erasure was denied or cancelled; NULL: it was not, or before this column was.
ALTER TABLE erasures ADD COLUMN decided_at BIGINT;

-- Those that have not ended are counted at every scrape.
CREATE INDEX erasures_open ON erasures (state, fenced_at) WHERE state NOT IN ('erased', 'denied', 'cancelled');
