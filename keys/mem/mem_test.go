package mem_test

import (
	"testing"

	"github.com/blobd/blobd/keys"
	"github.com/blobd/blobd/keys/keystest"
	"github.com/blobd/blobd/keys/mem"
)

func TestContract(t *testing.T) {
	keystest.Run(t, keystest.Harness{New: func(*testing.T) keystest.Service {
		ring := mem.New(nil)
		return keystest.Service{Open: func(*testing.T) keys.Keyring { return ring }}
	}})
}
