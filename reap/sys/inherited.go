package sys

import "unsafe"

// What the process was given by whoever started it.
var (
	// NoFile is RLIMIT_NOFILE before package syscall raised it. A child gets
	// it back, as it would from os/exec.
	NoFile Rlimit
	// Mask is the signal mask, and Ignored has a bit for each signal that was
	// ignored.
	//
	// They are exact in a binary that begins at entry. In any other one they
	// are what the runtime has left of them: it unblocks ILL, TRAP, STKFLT,
	// CHLD, PROF, 32 and 33, and leaves only HUP and INT ignored.
	Mask, Ignored uint64
	// Closed has a bit for each of the descriptors 0 to 2 that was closed.
	// Go's runtime opens /dev/null in their place, so that only a binary that
	// begins at entry knows; in any other one it is 0.
	Closed uint32
)

// What entry notes.
var (
	startMask, startIgnored uint64
	startKnown              int32
	startSlack              uintptr // of PID 1's timers; 0: it is as it was
)

func init() {
	Call(sysPrlimit64, 0, rlimitNoFile, 0, uintptr(unsafe.Pointer(&NoFile.Soft)), 0, 0)
	NoFile.Resource = rlimitNoFile
	if startKnown != 0 {
		Mask, Ignored = startMask, startIgnored
		return
	}
	Call(sysRtSigprocmask, 0, 0, uintptr(unsafe.Pointer(&Mask)), 8, 0, 0)
	for s := int32(1); s <= lastSignal; s++ {
		var now sigaction
		Call(sysRtSigaction, uintptr(s), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if now.handler == sigIgnore {
			Ignored |= bit(s)
		}
	}
}

const rlimitNoFile = 7
