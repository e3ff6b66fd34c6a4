// Package drill holds the restore drill: a backup of the ledger is taken, things
// are erased, keys are rotated and trimmed, and what backup, ledger and key
// service together could open is tried out, before the horizon and after it.
package drill
