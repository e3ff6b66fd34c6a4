package mem_test

import (
	"testing"
	"time"

	"github.com/blobd/blobd/backends"
	"github.com/blobd/blobd/backends/backendtest"
	"github.com/blobd/blobd/backends/mem"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		New: func(*testing.T) backends.Store { return mem.New(time.Now) },
		// The store itself is all that could outlive anything.
		Reopen: func(_ *testing.T, s backends.Store) backends.Store { return s },
	})
}
