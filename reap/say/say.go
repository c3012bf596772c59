// Package say writes PID 1's lines for people, and never waits for who reads them.
package say

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// stderr is where lines for people go. A reader that has stopped reading must
// not stop PID 1, and O_NONBLOCK on descriptor 2 itself would be set for all
// who share it: so it is opened again where that can be done.
var stderr = 2

// Open opens descriptor 2 again, not to block.
func Open() {
	var st unix.Stat_t
	if unix.Fstat(2, &st) != nil {
		return
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFCHR {
		return // a file does not block; a socket cannot be opened
	}
	fd, err := unix.Open("/proc/self/fd/2", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err == nil {
		stderr = fd
	}
}

// Line writes one line for people: what: why; what to do.
func Line(parts ...string) {
	line := make([]byte, 0, 256)
	line = append(line, "rlminit: "...)
	for _, part := range parts {
		line = append(line, part...)
	}
	line = append(line, '\n')
	if stderr == 2 {
		poll := []unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
		if n, _ := unix.Poll(poll, 0); n != 1 || poll[0].Revents&unix.POLLOUT == 0 {
			return
		}
	}
	sys.Write(int32(stderr), line)
}

// Voice is how much of what is done is said, and what was said already.
type Voice struct {
	Verbosity int32
	said      map[string]struct{} // by Once: at most about a hundred lines
}

// Tell says what is done, where so much of it is asked for.
func (v *Voice) Tell(verbosity int32, parts ...string) {
	if v.Verbosity >= verbosity {
		Line(parts...)
	}
}

// Once says a thing one time in the life of tier 1: what a broken or hostile
// tier 2 can cause must not fill anybody's log.
func (v *Voice) Once(what string) {
	if _, said := v.said[what]; said || len(v.said) > 100 {
		return
	}
	if v.said == nil {
		v.said = make(map[string]struct{})
	}
	v.said[what] = struct{}{}
	Line(what)
}

// Number is n in decimal digits.
func Number(n int) string {
	if n < 0 {
		return "-" + sys.Decimal(-n)
	}
	return sys.Decimal(n)
}
