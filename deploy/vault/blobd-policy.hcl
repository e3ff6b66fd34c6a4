# What blobd may do in Vault, and no more: docs/keys.md.
#
#   vault secrets enable transit
#   vault policy write blobd blobd-policy.hcl
#
# With Transit mounted elsewhere, or BLOBD_VAULT_MOUNT set, change "transit/".

# Wrap and unwrap keys. Without "create", wrapping can never make a key.
path "transit/encrypt/blobd.*" {
  capabilities = ["update"]
}
path "transit/decrypt/blobd.*" {
  capabilities = ["update"]
}

# A tenant's KEK: make, look at, rotate, trim; allow deletion and delete when the
# tenant is off-boarded. No key can be made exportable or backed up in clear, and
# none rotates behind blobd's back.
path "transit/keys/blobd.*" {
  capabilities = ["read", "update", "delete"]
  allowed_parameters = {
    "type"                   = ["aes256-gcm96"]
    "min_decryption_version" = []
    "min_encryption_version" = []
    "min_available_version"  = []
    "deletion_allowed"       = []
  }
}

# The marker of a destroyed KEK: made once, and never deleted.
path "transit/keys/blobd-destroyed.*" {
  capabilities = ["read", "update"]
  allowed_parameters = {
    "type" = ["aes256-gcm96"]
  }
}

# An empty ledger must not face keys in use.
path "transit/keys" {
  capabilities = ["list"]
}

# Proof that the mount is a Transit engine, before an absence is believed or a
# key sent.
path "transit/config/keys" {
  capabilities = ["read"]
}

# Readiness, and keeping the login alive.
path "sys/capabilities-self" {
  capabilities = ["update"]
}
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
