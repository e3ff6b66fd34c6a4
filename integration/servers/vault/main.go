// Command vault is HashiCorp Vault as a test server. It is a module of its own,
// so that no part of Vault, and none of its dependencies, is ever linked into
// the product: tests only start the program.
package main

import (
	"os"

	"github.com/hashicorp/vault/command"
)

func main() { os.Exit(command.Run(os.Args[1:])) }
