package reap

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// processors is GOMAXPROCS: one for the loop, and one so that neither the collector
// nor the end of a system call has to wait for it. Set by hand, it also stops the
// runtime from looking at the cgroup's limits every second.
const processors = 2

// spareThreads is how many threads the runtime is made to have at the same time beside
// the loop's and the spawners', which leaves it one more. Each processor can need
// one, and one more may be wanted while another is on its way to being idle again.
const spareThreads = 2*processors - 1

// spares makes the runtime start its threads ahead of need: goroutines that are
// blocked in a system call at the same time need one each, and the runtime
// keeps idle threads for ever. A thread that it wants later, and does not get
// for want of pids, would end PID 1. The function that is returned ends them, and
// must be called when there was time for all to block.
func spares(n int) (release func(), err error) {
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	var running atomic.Int32
	running.Store(int32(n))
	for range n {
		go func() {
			var b [1]byte
			unix.Write(out[1], b[:])
			unix.Read(in[0], b[:])
			if running.Add(-1) == 0 {
				unix.Close(in[0])
				unix.Close(out[1])
			}
		}()
	}
	return func() {
		for b := make([]byte, n); len(b) > 0; {
			m, err := unix.Read(out[0], b)
			if err != nil && err != unix.EINTR {
				break
			}
			b = b[max(m, 0):]
		}
		unix.Close(in[1]) // every read of in[0] ends
		unix.Close(out[0])
	}, nil
}
