//go:build !linux

package fs

import "os"

// noFollow is nothing here: os.Root refuses links that leave the folder, and
// openRegular those that stay in it.
const noFollow = 0

// writeVectors writes buffers one after the other from off on.
func writeVectors(f *os.File, buffers [][]byte, off int64) error {
	for _, b := range buffers {
		n, err := f.WriteAt(b, off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// syncData makes a file durable.
func syncData(f *os.File) error { return f.Sync() }

// giveBack keeps the zeros: there is no portable way to free them.
func giveBack(*os.File, int64, int64) error { return nil }

// forget does nothing: there is no portable way to ask.
func forget(*os.File, int64, int64) {}
