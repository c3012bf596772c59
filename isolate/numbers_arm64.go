package isolate

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	otherNumbers = 0 // one set of numbers is all there is
)

// deniedHere are the calls that only this architecture has: none.
var deniedHere []uint32
