package main

import (
	"fmt"
	"os"

	"rlminit/config"
	"rlminit/control"
	"rlminit/wire"
)

// runPlace is the short-lived child of init, as root, that puts an approved
// configuration in the place of the other. Why it cannot goes to standard output,
// for the supervisor.
func runPlace(args []string) int {
	raw, err := wire.ReadSealed(preparedBundleFD, 128<<20)
	var bundle config.Bundle
	if err == nil {
		bundle, err = config.DecodeBundle(raw)
	}
	if err != nil || len(args) != 3 {
		refuse(fmt.Errorf("place is run by init itself, and is no verb for people"))
		return control.ExitFailed
	}
	if err := config.Place(bundle.Path, args[2]); err != nil {
		fmt.Fprintln(os.Stdout, printable(err.Error()))
		return control.ExitFailed
	}
	return 0
}
