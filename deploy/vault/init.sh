#!/bin/sh
# Makes a Vault ready for blobd: initialised, unsealed, with Transit, blobd's
# policy and an AppRole of it. It may run again at any time: it does what is left
# to do, and unseals after a restart.
#
# FOR TRYING OUT ONLY. The one unseal key and the root token stay in KEYS_DIR,
# next to the Vault that they open: whoever has that folder has every key. In
# production Vault unseals itself by a key service or an HSM (seal "awskms",
# "gcpckms", "azurekeyvault", "pkcs11"), the root token is revoked after the
# set-up, and the secret id is handed over wrapped.
#
# VAULT_ADDR   the Vault
# KEYS_DIR     where the unseal key and the root token are kept
# LOGIN_DIR    where blobd's secret id is written to
# POLICY       the policy of blobd (deploy/vault/blobd-policy.hcl)
# ROLE_ID      the role id that blobd logs in with; it is no secret
set -eu
umask 077
: "${VAULT_ADDR:?}" "${KEYS_DIR:?}" "${LOGIN_DIR:?}" "${POLICY:?}" "${ROLE_ID:?}"
export VAULT_ADDR
keys=$KEYS_DIR/init.txt

# sealed prints 0 (unsealed), 1 (no answer) or 2 (sealed).
sealed() {
  rc=0
  vault status >/dev/null 2>&1 || rc=$?
  echo "$rc"
}

# field NAME prints what init.txt has under a name.
field() { sed -n "s/^$1: *//p" "$keys" | tr -d '\r'; }

# has COMMAND PATH: does a listing of Vault name this path?
has() { vault "$1" list -format=json | grep -q "\"$2/\""; }

wait_for_vault() {
  tries=0
  while [ "$(sealed)" = 1 ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ]; then
      echo "no answer from $VAULT_ADDR" >&2
      exit 1
    fi
    sleep 1
  done
}

# wait_for_leader: right after the unsealing there is no active node yet.
wait_for_leader() {
  tries=0
  until vault secrets list >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ]; then
      echo "the Vault does not become active" >&2
      vault secrets list >/dev/null
      exit 1
    fi
    sleep 1
  done
}

mkdir -p "$KEYS_DIR" "$LOGIN_DIR"
wait_for_vault
if ! vault status 2>/dev/null | grep -q '^Initialized *true'; then
  # To a new name first: half an answer must not pass for the keys.
  vault operator init -key-shares=1 -key-threshold=1 >"$keys.new"
  mv "$keys.new" "$keys"
fi
if [ ! -s "$keys" ]; then
  echo "the Vault is initialised, and $keys is not there: unseal it by hand" >&2
  exit 1
fi
if [ "$(sealed)" = 2 ]; then
  vault operator unseal "$(field 'Unseal Key 1')" >/dev/null
fi
VAULT_TOKEN=$(field 'Initial Root Token')
export VAULT_TOKEN
wait_for_leader

has secrets transit || vault secrets enable transit >/dev/null
has auth approle || vault auth enable approle >/dev/null
vault policy write blobd "$POLICY" >/dev/null
vault write auth/approle/role/blobd token_policies=blobd token_no_default_policy=true \
  token_ttl=1h token_max_ttl=24h >/dev/null
vault write auth/approle/role/blobd/role-id role_id="$ROLE_ID" >/dev/null

# Readable by the group of this file's folder, in which blobd is.
if [ ! -s "$LOGIN_DIR/secret-id" ]; then
  umask 027
  vault write -f -field=secret_id auth/approle/role/blobd/secret-id >"$LOGIN_DIR/secret-id.new"
  mv "$LOGIN_DIR/secret-id.new" "$LOGIN_DIR/secret-id"
fi
echo "Vault is ready"
