// Package fs is an object store in a folder: records packed into segment files.
//
// It promises that a Put that returned nil survives a crash of the process or
// the machine, that concurrent Puts share one fdatasync, and that an erased
// object was overwritten in place with zeros, synced and read back before Erase
// returns. Absence is only ever the answer of an index that agrees with the
// segments; no error of the operating system becomes one. It knows names and
// bytes, and nothing of tenants, keys or texts.
//
// The folder:
//
//	lock                          held while a process has the store open
//	segments/<id>.seg             records in the order of arrival: the truth
//	index.db, index.clean         where each name lies: a cache of the segments
//	probe                         what Check writes and reads
//
// Every open begins a new segment at its first put, under a name that no other
// run chooses: whoever lays an older copy of the folder over a newer one loses
// no segment that only the newer one had. The index is checked against the
// segments at each open, scanned forward from where it ends, and thrown away and
// rebuilt where it claims what the segments do not hold.
package fs
