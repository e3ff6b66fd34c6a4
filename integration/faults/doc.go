// Package faults holds the tests that break the way between blobd and its
// object store: a proxy in the test's process delays, cuts, swallows and resets
// what the drivers and a real MinIO say to each other, the server is killed in
// mid-load, its disk fills up.
//
// Every test asks the same of whatever happened: an acknowledged put resolves to
// its exact bytes, no resolve of a live text was ever a null, a put that failed
// can be repeated, no connection or goroutine is left and memory stayed bounded.
package faults
