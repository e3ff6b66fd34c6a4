package main

import "strings"

// kind is how a setting's value is written.
type kind uint8

const (
	asText     kind = iota
	asDuration      // Go's way: 30s
	asBytes         // a whole number
	asFlag          // true or false
	asSecret        // text that is never printed
)

// setting is one key of the configuration. Its key in the YAML file is Key, its
// variable Env. A setting of the contract that this version cannot honour is
// Later: it is known, and naming it is an error that says so.
type setting struct {
	Key, Env string
	Kind     kind
	Default  string
	Later    bool
	Means    string
}

// settings lists every key. An unknown one is an error that names it.
func settings() []setting {
	return []setting{
		{Key: "listen", Env: "BLOBD_LISTEN", Default: "127.0.0.1:8080", Means: "HOST:PORT to serve on"},
		{Key: "dataDir", Env: "BLOBD_DATA_DIR", Default: "blobd-data", Means: "the data folder"},
		{Key: "logLevel", Env: "BLOBD_LOG_LEVEL", Default: "info", Means: "debug, info, warn or error"},
		{Key: "debugListen", Env: "BLOBD_DEBUG_LISTEN", Means: "HOST:PORT for net/http/pprof; empty: off"},
		{Key: "metricsListen", Env: "BLOBD_METRICS_LISTEN", Means: "HOST:PORT for /metrics alone; empty: beside the API"},
		{Key: "tls.cert", Env: "BLOBD_TLS_CERT", Means: "PEM file of the server's certificate"},
		{Key: "tls.key", Env: "BLOBD_TLS_KEY", Means: "PEM file of its private key"},
		{Key: "ledger.dsn", Env: "BLOBD_LEDGER_DSN", Kind: asSecret, Means: "postgres:// URL of a shared ledger; empty: SQLite in the data folder"},
		{Key: "backend.driver", Env: "BLOBD_BACKEND", Default: "fs", Means: "fs, s3, minio or mem"},
		{Key: "backend.cache", Env: "BLOBD_BACKEND_CACHE", Kind: asBytes, Default: "67108864", Means: "bytes of sealed blobs kept in memory; 0: none"},
		{Key: "backend.endpoint", Env: "BLOBD_BACKEND_ENDPOINT", Means: "URL of the object store, http:// allowed; empty with s3: AWS"},
		{Key: "backend.bucket", Env: "BLOBD_BACKEND_BUCKET", Means: "the bucket, which must be there"},
		{Key: "backend.region", Env: "BLOBD_BACKEND_REGION", Means: "empty: the environment's, else us-east-1"},
		{Key: "backend.accessKey", Env: "BLOBD_BACKEND_ACCESS_KEY", Kind: asSecret, Means: "with backend.secretKey; empty: the SDK's own chain of credentials"},
		{Key: "backend.secretKey", Env: "BLOBD_BACKEND_SECRET_KEY", Kind: asSecret},
		{Key: "backend.pathStyle", Env: "BLOBD_BACKEND_PATH_STYLE", Kind: asFlag, Means: "the bucket in the path; empty: true with an endpoint, else false"},
		{Key: "backend.prefix", Env: "BLOBD_BACKEND_PREFIX", Means: "folder of this deployment in the bucket; empty: the whole bucket"},
		{Key: "backend.tlsCA", Env: "BLOBD_BACKEND_TLS_CA", Means: "PEM file with the store's certificate authority; empty: the system's"},
		{Key: "backend.allowResidue", Env: "BLOBD_BACKEND_ALLOW_RESIDUE", Kind: asFlag, Default: "false", Means: "serve though the store cannot delete all that an erasure should"},
		{Key: "keys.driver", Env: "BLOBD_KEYS", Default: "local", Means: "local or transit"},
		{Key: "vault.addr", Env: "BLOBD_VAULT_ADDR", Means: "URL of the Vault of transit; variables VAULT_* are ignored"},
		{Key: "vault.mount", Env: "BLOBD_VAULT_MOUNT", Means: "where its Transit engine is mounted; empty: transit"},
		{Key: "vault.namespace", Env: "BLOBD_VAULT_NAMESPACE", Means: "empty: none"},
		{Key: "vault.caCert", Env: "BLOBD_VAULT_CACERT", Means: "PEM file with Vault's certificate authority; empty: the system's"},
		{Key: "vault.token", Env: "BLOBD_VAULT_TOKEN", Kind: asSecret, Means: "a token; this or one of the next three ways to log in"},
		{Key: "vault.tokenFile", Env: "BLOBD_VAULT_TOKEN_FILE", Means: "a file with a token, read again when the token died"},
		{Key: "vault.roleID", Env: "BLOBD_VAULT_ROLE_ID", Kind: asSecret, Means: "of AppRole, with vault.secretIDFile"},
		{Key: "vault.secretIDFile", Env: "BLOBD_VAULT_SECRET_ID_FILE", Means: "a file with the secret id, read at each login"},
		{Key: "vault.k8sRole", Env: "BLOBD_VAULT_K8S_ROLE", Means: "role of the Kubernetes login, by the pod's service account"},
		{Key: "keys.cacheTTL", Env: "BLOBD_KEYS_CACHE_TTL", Kind: asDuration, Default: "5m", Means: "how long an unwrapped key may be used"},
		{Key: "keys.horizon", Env: "BLOBD_KEYS_HORIZON", Kind: asDuration, Default: "720h", Means: "how long backups of the ledger are kept"},
		{Key: "keys.rotateCron", Env: "BLOBD_KEYS_ROTATE_CRON", Means: "when key epochs start, as cron has it (CRON_TZ=Zone before it); empty: by hand"},
		{Key: "keys.rewrapRate", Env: "BLOBD_KEYS_REWRAP_RATE", Default: "1000", Means: "keys that an epoch re-wraps per second; 0: no bound"},
		{Key: "sweep.cron", Env: "BLOBD_SWEEP_CRON", Default: "17 3 * * *", Means: "when retention sweeps start, as cron has it (CRON_TZ=Zone before it; else UTC); none: by hand"},
		{Key: "sweep.rate", Env: "BLOBD_SWEEP_RATE", Default: "1000", Means: "blobs that a sweep erases per second; 0: no bound"},
		{Key: "sweep.breakerPercent", Env: "BLOBD_SWEEP_BREAKER_PERCENT", Default: "50", Means: "a sweep that would erase more than this part of a tenant's blobs is stopped; 0: no bound"},
		{Key: "sweep.breakerBlobs", Env: "BLOBD_SWEEP_BREAKER_BLOBS", Default: "0", Means: "and one that would erase more blobs than this; 0: no bound"},
		{Key: "sweep.breakerNever", Env: "BLOBD_SWEEP_BREAKER_NEVER", Default: "100", Means: "a sweep of fewer blobs is never stopped"},
		{Key: "sweep.maxGap", Env: "BLOBD_SWEEP_MAX_GAP", Kind: asDuration, Default: "168h", Means: "with a last sweep longer ago the clock may have jumped: the schedule waits for a sweep by hand; 0: no bound"},
		{Key: "clock.maxJump", Env: "BLOBD_CLOCK_MAX_JUMP", Kind: asDuration, Default: "1h", Means: "how far the ledger's clock may jump before it is suspect, 1m or more: what only time would make null is then 503; 0: no bound"},
		{Key: "holidays", Env: "BLOBD_HOLIDAYS", Means: "file with the holidays that move due dates of erasures, one date on a line; see docs/clocks.md"},
		{Key: "webhooks.allowPrivate", Env: "BLOBD_WEBHOOKS_ALLOW_PRIVATE", Kind: asFlag, Default: "false", Means: "let webhooks be sent to private addresses, and by http"},
		{Key: "putMargin", Env: "BLOBD_PUT_MARGIN", Kind: asDuration, Default: "30s", Means: "how long after a fence a late object write may still land"},
		{Key: "tokenCache", Env: "BLOBD_TOKEN_CACHE", Kind: asDuration, Default: "5s", Means: "how long a revoked token may still be taken"},
		{Key: "journal.dir", Env: "BLOBD_JOURNAL_DIR", Means: "second place of the journal, outside the data folder; once there is one it must be there, until told \"none\""},

		{Key: "export.endpoint", Env: "BLOBD_EXPORT_ENDPOINT", Means: "URL of the object store of an exported log, http:// allowed; empty: AWS"},
		{Key: "export.region", Env: "BLOBD_EXPORT_REGION", Means: "empty: us-east-1"},
		{Key: "export.accessKey", Env: "BLOBD_EXPORT_ACCESS_KEY", Kind: asSecret, Means: "with export.secretKey; empty: the SDK's own chain of credentials"},
		{Key: "export.secretKey", Env: "BLOBD_EXPORT_SECRET_KEY", Kind: asSecret},
		{Key: "export.pathStyle", Env: "BLOBD_EXPORT_PATH_STYLE", Kind: asFlag, Means: "the bucket in the path; empty: true with an endpoint, else false"},
		{Key: "export.tlsCA", Env: "BLOBD_EXPORT_TLS_CA", Means: "PEM file with its certificate authority; empty: the system's"},

		{Key: "limits.blob", Env: "BLOBD_LIMITS_BLOB", Kind: asBytes, Default: "16777216", Means: "readable bytes of one blob"},
		{Key: "limits.batch", Env: "BLOBD_LIMITS_BATCH", Kind: asBytes, Default: "16777216", Means: "readable bytes of one capture or resolve batch"},
		{Key: "limits.body", Env: "BLOBD_LIMITS_BODY", Kind: asBytes, Default: "25165824", Means: "bytes of one JSON body"},
		{Key: "limits.inFlight", Env: "BLOBD_LIMITS_IN_FLIGHT", Kind: asBytes, Default: "536870912", Means: "bytes of bodies, sealed blobs and answers that requests hold in memory at once"},

		{Key: "server", Env: "BLOBD_SERVER", Default: "http://127.0.0.1:8080", Means: "the server that client commands talk to"},
		{Key: "token", Env: "BLOBD_TOKEN", Kind: asSecret, Means: "the token of client commands"},

		{Key: "oidc.issuer", Env: "BLOBD_OIDC_ISSUER", Later: true},
	}
}

// envPrefix begins every variable that is ours.
const envPrefix = "BLOBD_"

// foreign reports whether a variable with our prefix is none of ours:
// Kubernetes describes a Service called blobd to every pod by such variables,
// and this repository's Makefile and tests use two of their own.
func foreign(name string) bool {
	switch name {
	case "BLOBD_PORT", "BLOBD_SERVICE_HOST", "BLOBD_CACHE", "BLOBD_FIXTURES":
		return true
	}
	return strings.HasPrefix(name, "BLOBD_SERVICE_PORT") || strings.HasPrefix(name, "BLOBD_PORT_")
}
