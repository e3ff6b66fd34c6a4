-- +goose Up
-- When the tenant was off-boarded, and by which erasure; NULL: it was not.
ALTER TABLE tenants ADD COLUMN fenced_at INTEGER;
ALTER TABLE tenants ADD COLUMN fenced_by TEXT;

-- The scope is a whole tenant; execution_tag is then the tenant's tag, and
-- tombstoned a place among its executions and rows.
ALTER TABLE erasures ADD COLUMN whole_tenant INTEGER NOT NULL DEFAULT 0;
CREATE INDEX erasures_tenant ON erasures (tenant) WHERE whole_tenant = 1;
