package sys

import "unsafe"

// Numbers of signals, signal(7), the same on amd64 and arm64.
const (
	SIGHUP  = 1
	SIGINT  = 2
	SIGQUIT = 3
	SIGILL  = 4
	SIGTRAP = 5
	SIGABRT = 6
	SIGBUS  = 7
	SIGFPE  = 8
	SIGKILL = 9
	SIGUSR1 = 10
	SIGSEGV = 11
	SIGPIPE = 13
	SIGTERM = 15
	SIGCHLD = 17
	SIGCONT = 18
	SIGSTOP = 19
	SIGTSTP = 20
	SIGTTIN = 21
	SIGTTOU = 22
	SIGURG  = 23
	SIGSYS  = 31

	lastSignal = 64
)

const (
	sigDefault = 0
	sigIgnore  = 1

	saSiginfo = 0x4
	saOnStack = 0x08000000
	saRestart = 0x10000000
)

// sigaction is the kernel's struct, rt_sigaction(2).
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// What the assembly handler reads. All is written before a handler is set.
var (
	runtimeHandler [lastSignal + 1]uintptr // Go's own handler, for what it must go on seeing
	recordIn       [lastSignal + 1]int32   // descriptor
	//lint:ignore U1000 read by the handler
	self int32

	caught uint64 // a bit for each signal that the handler has, which a child need not reset
)

func handlerAddress() uintptr
func restorerAddress() uintptr

// A Record is what arrives in the descriptor of a signal.
type Record struct {
	Signal int32
	Sender int32 // pid; meaningless for a signal of the kernel's
}

// Catch records every signal that can be caught: SIGCHLD by adding to the
// eventfd children, all others as a Record in the pipe others. Both must not
// block. The handler only writes and returns, so there is no goroutine, no
// thread and no allocation for a signal.
//
// What the runtime needs still reaches it: faults of our own code, and the
// SIGURG by which it preempts its own threads. SIGTTIN and SIGTTOU are ignored,
// so that PID 1 can hand over a terminal that is not in its foreground.
func Catch(children, others int32) {
	self = Getpid()
	all := recording()
	ignore := sigaction{handler: sigIgnore}
	caught = ^uint64(0)
	for s := int32(1); s <= lastSignal; s++ {
		action := &all
		switch s {
		case SIGKILL, SIGSTOP:
			continue
		case SIGTTIN, SIGTTOU:
			action = &ignore
			caught &^= bit(s)
		case SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGURG:
			var now sigaction
			Call(sysRtSigaction, uintptr(s), 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
			if now.handler != sigDefault && now.handler != sigIgnore {
				runtimeHandler[s] = now.handler
			}
		}
		recordIn[s] = others
		if s == SIGCHLD {
			recordIn[s] = children
		}
		Call(sysRtSigaction, uintptr(s), uintptr(unsafe.Pointer(action)), 0, 8, 0, 0)
	}
	var none uint64
	Call(sysRtSigprocmask, sigSetMask, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
}

// recording is the disposition of a signal that is recorded.
func recording() sigaction {
	return sigaction{
		handler:  handlerAddress(),
		flags:    saSiginfo | saOnStack | saRestart | saRestorer,
		restorer: restorerAddress(),
		mask:     ^uint64(0),
	}
}

const sigSetMask = 2

// bit is the place of a signal in a sigset_t.
func bit(signal int32) uint64 { return 1 << (signal - 1) }
