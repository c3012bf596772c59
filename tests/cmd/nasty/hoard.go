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

// shout notifies the service manager as fast as that takes it: texts, and
// descriptors that are stored and dropped again.
func shout() error {
	fd, err := unix.MemfdCreate("shout", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err := tell("READY=1\n"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		var err error
		switch i % 3 {
		case 0:
			err = tell(fmt.Sprintf("STATUS=shout %d\n", i))
		case 1:
			err = tell("FDSTORE=1\nFDNAME=shout\n", fd, fd, fd, fd)
		case 2:
			err = tell("FDSTOREREMOVE=1\nFDNAME=shout\n")
		}
		if err != nil {
			return err
		}
	}
}
