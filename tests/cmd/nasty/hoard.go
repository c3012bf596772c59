package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// hoard says which descriptors it was passed, stores so many with the service
// manager, FDSTORE=1 of sd_notify(3), one at a time, and then sleeps.
func hoard(count int) error {
	fmt.Println(strings.TrimSpace("passed: " + os.Getenv("LISTEN_FDNAMES")))
	fd, err := unix.MemfdCreate("hoard", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	for range count {
		if err := tell("FDSTORE=1\nFDNAME=hoard\n", fd); err != nil {
			return err
		}
	}
	if err := tell("READY=1\n"); err != nil {
		return err
	}
	forever()
	return nil
}
