// Command rlminit-fleet is `rlminit fleet`: it runs each profile on one of many machines.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"rlminit/fleet/verbs"
)

var version = "devel" // set by the linker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	verbs.SetVersion(version)
	os.Exit(verbs.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
