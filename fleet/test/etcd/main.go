// Command etcd is the etcd server that the fleet's tests run: the released one,
// built from its module, static. It is a Go module of its own, so that what the
// server links is no dependency of the agent.
//
// Its flags are etcd's own.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
