// Package trust says whose files may be run with more rights than their owners have.
package trust

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// OnlyRoots returns an error unless root alone could have written what lies at a path. Who
// owns / counts as root: in a user namespace that does not map root it has another number.
func OnlyRoots(path string) error {
	var top, st unix.Stat_t
	if err := cmp.Or(unix.Stat("/", &top), unix.Stat(path, &st)); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	switch {
	case st.Uid != 0 && st.Uid != top.Uid:
		return fmt.Errorf("cannot trust %s: it belongs to uid %d; chown root it", path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("cannot trust %s: its mode %04o lets others than root write it; chmod go-w it", path, st.Mode&0o7777)
	}
	return nil
}
