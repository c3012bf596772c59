package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reserved is how many descriptors, at most, are left to clients and files, which each
// need some for a moment.
const reserved = 128

// limit is how many descriptors this process may have open.
func limit() int {
	var l unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &l) // of ourselves, which cannot fail
	return int(min(l.Cur, 1<<20))
}

// MostAtRest is how many services without a file may keep their log's two pipes open while
// they rest: a sixteenth of all descriptors.
func MostAtRest() int { return limit() / 64 }

// MostWaiting is how many jobs may wait, each with one or two descriptors.
func MostWaiting() int { return limit() / 8 }

// Room refuses what keeps so many descriptors more, where too few are left. That is
// for good: a next try finds no more of them unless something else is closed.
func Room(need int) error { return room(need, 1) }

// RoomKeptBack is Room for hooks and schedules: three quarters of what is kept back are
// theirs, and the last is left to clients and files.
func RoomKeptBack(need int) error { return room(need, 4) }

// room leaves a share of what is kept back.
func room(need, share int) error {
	all := limit()
	most := all - min(all/4, reserved)/share
	open, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0) // the lowest that is free
	if err != nil {
		open = all
	} else {
		unix.Close(open)
	}
	if open+need <= most {
		return nil
	}
	return fmt.Errorf("the supervisor has %d descriptors open and would need %d more, where it may have %d of %d for that; stop or cancel some, or raise --ulimit nofile", open, need, most, all)
}
