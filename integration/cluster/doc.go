// Package cluster tests the real program as three equal nodes over PostgreSQL,
// MinIO and Vault behind a load balancer: what one node says, all say, whatever
// is killed, paused, restarted or failed over meanwhile.
//
// One set of servers serves the whole package; each test has a database, a
// bucket and a Transit mount of its own. `make cluster` runs the same topology
// until it is interrupted.
package cluster
