// Package threads keeps the runtime from wanting a thread that it cannot have. A
// service that uses up the container's processes would end us by that: a runtime
// that needs a thread and gets none gives up. So some are made while there is room,
// and what may wait in the kernel takes turns.
package threads

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/turns"
	"rlminit/reap/proc"
	"rlminit/wire"
)

const (
	shareOfPlenty = 16

	launchesOfPlenty = 4 * shareOfPlenty // what they wait for in the kernel, they wait for in another process
)

// limit is the container's.
var limit = sync.OnceValue(func() int { return int(proc.PIDsLimit(proc.PIDsFiles...)) })

// Limit is how many processes and threads the container may have.
func Limit() int { return limit() }

// Share is how many may do something at the same time that may wait in the kernel:
// a quarter of the threads. A quarter each is for writes to the volume, launches
// and requests, and the rest for the loop, the journal, the publisher, the registry
// and the logs.
func Share() int {
	if limit() >= wire.PlentyPIDs {
		return shareOfPlenty
	}
	return max(1, wire.SupervisorThreads(limit())/4)
}

// FilesAtOnce is Share for the process that touches the services' files, which has
// fewer threads, and needs one to hear what it is asked.
func FilesAtOnce() int {
	if limit() >= wire.PlentyPIDs {
		return shareOfPlenty
	}
	return wire.FilesThreads - 1
}

// Reserve is ReserveSome of what a supervisor needs.
func Reserve() error { return ReserveSome(wire.SupervisorThreads(limit())) }

// ReserveSome has the runtime start threads while there is room for them: n
// goroutines wait in the kernel at the same time, until the other end of their pipe
// is closed. With runtime.LockOSThread it would start one more for itself.
func ReserveSome(n int) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	var begun, through sync.WaitGroup
	for range n {
		begun.Add(1)
		through.Go(func() {
			begun.Done()
			_, _ = unix.Read(ends[0], make([]byte, 1))
		})
	}
	begun.Wait()
	unix.Close(ends[1])
	through.Wait()
	unix.Close(ends[0])
	return nil
}

// NewTurns is a Share of the threads for those who do one kind of thing, or nil where
// there are processes in plenty.
func NewTurns() *turns.Turns {
	if limit() >= wire.PlentyPIDs {
		return nil
	}
	return turns.New(Share())
}

// Launches are the turns of launches, and how long each keeps others from
// beginning: a thousand at once share one process that touches their files, and each
// is to come to its end in little time once it has begun.
func Launches() (of *turns.Turns, lasts time.Duration) {
	if limit() >= wire.PlentyPIDs {
		return turns.New(launchesOfPlenty), time.Second
	}
	return NewTurns(), 200 * time.Millisecond
}
