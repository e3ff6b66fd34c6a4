package target

import (
	"fmt"
	"syscall"
)

// Magic numbers of file systems that live in memory (linux/magic.h).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// CheckDisk refuses a folder in memory: an fsync costs nothing there, so every
// figure of a server that keeps its promises would be wrong.
func CheckDisk(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if t := uint64(fs.Type) & 0xffffffff; t == tmpfsMagic || t == ramfsMagic {
		return fmt.Errorf("%s lies in memory: choose a folder on a disk", dir)
	}
	return nil
}
