package sys

import "unsafe"

// Events are the descriptors that a loop waits for.
type Events struct {
	fd    int32
	ready [64]EpollEvent // of which the kernel writes
}

// Conditions of a descriptor, epoll_ctl(2).
const (
	Readable = 0x1
	Writable = 0x4
	Gone     = 0x10 | 0x8 // EPOLLHUP, EPOLLERR
	OneShot  = 1 << 30    // once, until the conditions are changed
	Edge     = 1 << 31
)

// NewEvents returns an empty set.
func NewEvents() (*Events, Errno) {
	fd, errno := Call(sysEpollCreate1, openCloexec, 0, 0, 0, 0, 0)
	if errno != 0 {
		return nil, Errno(errno)
	}
	return &Events{fd: int32(fd)}, 0
}

// Add waits for conditions of fd, which is known by key from here on.
func (e *Events) Add(fd int32, conditions uint32, key uint64) Errno {
	return e.control(epollAdd, fd, conditions, key)
}

// Change replaces the conditions that are waited for.
func (e *Events) Change(fd int32, conditions uint32, key uint64) Errno {
	return e.control(epollMod, fd, conditions, key)
}

func (e *Events) control(operation uintptr, fd int32, conditions uint32, key uint64) Errno {
	event := EpollEvent{Events: conditions, Data: [2]uint32{uint32(key), uint32(key >> 32)}}
	_, errno := Call(sysEpollCtl, uintptr(e.fd), operation, uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return Errno(errno)
}

// Wait returns what is ready, after at most so many milliseconds; -1 waits for
// ever. The result is good until the next call.
func (e *Events) Wait(milliseconds int) []EpollEvent {
	n, errno := blockingCall(sysEpollPwait, uintptr(e.fd), uintptr(unsafe.Pointer(&e.ready[0])),
		uintptr(len(e.ready)), uintptr(milliseconds), 0, 0)
	if errno != 0 {
		return nil // EINTR: a signal was recorded, and its descriptor is ready at the next call
	}
	return e.ready[:n]
}

// Soon is Wait for a few milliseconds, of which the scheduler is not told: that
// saves it, and a busy caller, from passing a processor to and fro.
func (e *Events) Soon(milliseconds int) []EpollEvent {
	n, errno := Call(sysEpollPwait, uintptr(e.fd), uintptr(unsafe.Pointer(&e.ready[0])),
		uintptr(len(e.ready)), uintptr(milliseconds), 0, 0)
	if Errno(errno) == EINTR {
		n, errno = Call(sysEpollPwait, uintptr(e.fd), uintptr(unsafe.Pointer(&e.ready[0])),
			uintptr(len(e.ready)), 0, 0, 0)
	}
	if errno != 0 {
		return nil
	}
	return e.ready[:n]
}

// Key returns what was given to Add.
func (e *EpollEvent) Key() uint64 { return uint64(e.Data[0]) | uint64(e.Data[1])<<32 }

// Signals are the descriptors in which Catch records.
type Signals struct {
	Children int32 // an eventfd that nobody needs to read, for use with Edge
	Others   int32 // read with Next
	others   int32 // its other end
	buffer   [32]Record
}

// CatchAll makes the descriptors and catches all signals.
func CatchAll() (*Signals, Errno) {
	children, errno := Call(sysEventfd2, 0, openCloexec|openNonblock, 0, 0, 0, 0)
	if errno != 0 {
		return nil, Errno(errno)
	}
	var ends [2]int32
	if _, errno := Call(sysPipe2, uintptr(unsafe.Pointer(&ends)), openCloexec|openNonblock, 0, 0, 0, 0); errno != 0 {
		return nil, Errno(errno)
	}
	Catch(int32(children), ends[1])
	return &Signals{Children: int32(children), Others: ends[0], others: ends[1]}, 0
}

// CatchStops records SIGTTIN and SIGTTOU as well, which Catch ignores.
func (s *Signals) CatchStops() {
	action := recording()
	for _, signal := range [...]int32{SIGTTIN, SIGTTOU} {
		Call(sysRtSigaction, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// LeaveFaults gives the signals that tell of a fault of one's own their default
// disposition: they end the process, unless it is PID 1.
func (s *Signals) LeaveFaults() {
	action := sigaction{handler: sigDefault}
	for _, signal := range [...]int32{SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS} {
		Call(sysRtSigaction, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// CloseInherited closes all descriptors above 2 but those of e and s.
func (e *Events) CloseInherited(s *Signals) {
	const end = 1 << 31
	for from := int64(3); from < end; {
		kept := int64(end)
		for _, fd := range [...]int32{e.fd, s.Children, s.Others, s.others} {
			if int64(fd) >= from {
				kept = min(kept, int64(fd))
			}
		}
		if kept > from {
			try(sysCloseRange, uintptr(from), uintptr(kept-1), 0)
		}
		from = kept + 1
	}
}

// Next returns signals in the order of their arrival, empty when there are no
// more. The result is good until the next call.
func (s *Signals) Next() []Record {
	n, errno := Call(sysRead, uintptr(s.Others), uintptr(unsafe.Pointer(&s.buffer[0])), unsafe.Sizeof(s.buffer), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return s.buffer[:n/unsafe.Sizeof(s.buffer[0])]
}

const (
	epollAdd     = 1
	epollMod     = 3
	openNonblock = 0x800
)
