package fs_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/backendtest"
	"github.com/blobd/blobd/backends/fs"
)

func TestContract(t *testing.T) {
	for name, o := range map[string]fs.Options{
		"defaults":                    {},
		"small segments, eager index": {SegmentSize: 20 << 10, IndexBatch: 1, OpenFiles: 2},
		"small segments, lazy index":  {SegmentSize: 20 << 10, IndexBatch: 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			folders := make(map[backends.Store]string)
			open := func(t *testing.T, folder string) backends.Store {
				o.Now = time.Now
				s, err := fs.Open(folder, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				folders[s] = folder
				return s
			}
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) backends.Store { return open(t, t.TempDir()) },
				Reopen: func(t *testing.T, s backends.Store) backends.Store {
					if err := s.(*fs.Store).Close(); err != nil {
						t.Fatal(err)
					}
					return open(t, folders[s])
				},
			})
		})
	}
}
