package member

import "rlminit/wire"

// boottime is CLOCK_BOOTTIME in nanoseconds: it goes on while the machine sleeps, and
// nobody sets it.
func boottime() int64 { return int64(wire.SinceBoot()) }
