package member

import "golang.org/x/sys/unix"

// boottime is CLOCK_BOOTTIME in nanoseconds: it goes on while the machine sleeps, and
// nobody sets it.
func boottime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // clock_gettime(2): only a clock that there is not
	}
	return t.Nano()
}
