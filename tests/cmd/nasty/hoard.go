package main

import "golang.org/x/sys/unix"

// hoard stores so many descriptors with the service manager, FDSTORE=1 of
// sd_notify(3), one at a time, and then sleeps.
func hoard(count int) error {
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
