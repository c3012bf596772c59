package logs

import (
	"time"

	"golang.org/x/sys/unix"
)

// A collector that wakes for every line costs the services as much as itself.
// While there is something at each turn, but pipes are far from full, it
// therefore lets them fill for nap. A line that comes alone is never kept
// waiting.
const nap = time.Millisecond

// pace is what decides that.
type pace struct {
	fullest int // pipe of this turn, in 1/256 of its size
	turned  time.Time
}

// filled is told how many bytes a pipe had, and enlarges it where its service
// could soon have to wait. The kernel may refuse that: pipe-user-pages-soft.
func (p *pace) filled(pipe *pipe, n int) {
	p.fullest = max(p.fullest, n*256/pipe.size)
	if n >= pipe.size/2 && pipe.size < largestPipe && !pipe.fixed {
		size, err := unix.FcntlInt(uintptr(pipe.read), unix.F_SETPIPE_SZ, 4*pipe.size)
		if err != nil {
			pipe.fixed = true
			return
		}
		pipe.size = size
	}
}

// turn ends a turn, and takes the nap.
func (p *pace) turn() {
	now := time.Now()
	if now.Sub(p.turned) < 2*nap && p.fullest < 256/4 {
		time.Sleep(nap)
		now = now.Add(nap)
	}
	p.turned, p.fullest = now, 0
}
