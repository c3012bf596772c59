package logs

import (
	"time"

	"golang.org/x/sys/unix"
)

// A collector that wakes for every line costs the services as much as itself.
// While turns follow each other closely, it therefore naps in between, for as
// long as lets the pipe that grew fastest become a quarter full. A line that
// comes alone is not kept waiting, nor is a command.
const (
	shortestNap = 500 * time.Microsecond
	longestNap  = 8 * time.Millisecond
	quarter     = 256 / 4
)

// pace is what decides that.
type pace struct {
	fullest int // pipe of this turn, in 1/256 of its size
	turned  time.Time
	timer   *time.Timer
	hurry   chan struct{}
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
	if since := now.Sub(p.turned); since < 2*longestNap && p.fullest > 0 && p.fullest < quarter {
		nap := min(longestNap, since*quarter/time.Duration(p.fullest))
		if nap >= shortestNap {
			p.timer.Reset(nap)
			select {
			case <-p.timer.C:
			case <-p.hurry:
			}
		}
	}
	p.turned, p.fullest = now, 0
}

// wake ends a nap, or the next.
func (p *pace) wake() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}
