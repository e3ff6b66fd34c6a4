# A Vault of one node, for trying blobd out. Production has several nodes, TLS on
# every listener (blobd sends keys to it), an audit device, and auto-unseal by a
# cloud's key service or an HSM, so that no unseal key lies anywhere.
storage "raft" {
  path    = "/vault/file"
  node_id = "vault"
}

listener "tcp" {
  address     = "0.0.0.0:8200"
  tls_disable = true
}

api_addr      = "http://vault:8200"
cluster_addr  = "http://vault:8201"
disable_mlock = true # as is advised with integrated storage; the host should have no swap
