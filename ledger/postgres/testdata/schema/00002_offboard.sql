-- +goose Up
-- When the tenant was off-boarded, and by which erasure; NULL: it was not.
ALTER TABLE tenants ADD COLUMN fenced_at BIGINT;
ALTER TABLE tenants ADD COLUMN fenced_by TEXT;

-- The scope is a whole tenant; execution_tag is then the tenant's tag, and
-- tombstoned a place among its executions and rows.
ALTER TABLE erasures ADD COLUMN whole_tenant BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX erasures_tenant ON erasures (tenant, seq) WHERE whole_tenant;
