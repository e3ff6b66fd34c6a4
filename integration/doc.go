// Package integration holds the tests that run the real binary as users run it:
// recorded provider traffic, kills under load, restores of old copies, full
// disks, and a search of everything that is kept for what must not be there.
package integration
