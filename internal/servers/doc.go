// Package servers starts the real servers that tests need, as processes on
// 127.0.0.1: object stores, Vault, PostgreSQL. It also runs a public checker
// of logs. Tests alone import it.
//
// Each server lives in a temporary folder of its test, on a free port, and ends
// with the test, however it ends. The programs are installed once by
// scripts/test into $BLOBD_CACHE/bin; one that is missing fails the test that
// needs it and says how to install it. Nothing here is linked into the product.
package servers
