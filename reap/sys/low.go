package sys

// A child begins with a copy of our table of descriptors, and execve(2) closes
// those that are close-on-exec: both take time for each that is open, and PID 1
// holds some for each service. So a spawner's child shares the table at first
// and then makes a copy of its beginning alone, close_range(2). What it shall
// have is put to numbers down there before, which the spawner keeps for that.

// copied is how much of the table is: the kernel copies no less.
const copied = 64

// low are the numbers that a spawner keeps.
type low struct {
	numbers [5]int32 // three of stdio, the notify socket, and a socket or a ruleset; more take the long way
	used    int
	filler  int32 // what lies there otherwise
}

// keep occupies the numbers, and tries whether this place lets a child copy the
// beginning of our table.
func (l *low) keep(filler int32) {
	l.filler = filler
	for i := range l.numbers {
		fd, errno := Call(sysFcntl, uintptr(filler), fDupfdCloexec, 3, 0, 0, 0)
		if l.numbers[i] = int32(fd); errno != 0 || fd >= copied {
			l.filler = -1
			return
		}
	}
	trial := Command{Session: SameGroup, Kill: &Victim{PID: Getpid()}, few: true}
	trial.Start()
	if trial.PIDFD >= 0 {
		Close(trial.PIDFD)
	}
	if trial.PID != 0 {
		Collect(trial.PID)
	}
	if trial.Step != StepExec || trial.Errno != 0 {
		l.filler = -1
	}
}

// fill puts what c passes to low numbers, as far as there are enough.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *low) fill(c *Command) {
	if l.filler < 0 || c.Terminal >= copied || c.Enclosure.Ruleset >= copied || !l.lower(&c.Isolation.Ruleset) ||
		!l.lower(&c.Isolation.Credentials) || !l.lower(&c.Isolation.Notify) {
		return
	}
	for i := range c.Fds {
		if !l.lower(&c.Fds[i]) {
			return
		}
	}
	c.few = true
}

// lower puts one of them to a low number, unless it has one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *low) lower(fd *int32) bool {
	if *fd < copied {
		return true
	}
	if l.used == len(l.numbers) || try(sysDup3, uintptr(*fd), uintptr(l.numbers[l.used]), openCloexec) != 0 {
		return false
	}
	*fd = l.numbers[l.used]
	l.used++
	return true
}

// empty closes what was put there.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *low) empty() {
	for ; l.used > 0; l.used-- {
		try(sysDup3, uintptr(l.filler), uintptr(l.numbers[l.used-1]), openCloexec)
	}
}

// Widen makes room in the table of descriptors, which it keeps over execve(2), by means
// of one that is open. A table that threads share waits for all processors whenever it
// grows, for 5 to 12 ms, and in doubling it would be in the way of each boot six times.
// Where that many are not allowed it stays as it is.
//
//go:nosplit
//go:norace
func Widen(fd, room int32) {
	if last, errno := Call(sysFcntl, uintptr(fd), fDupfdCloexec, uintptr(room-1), 0, 0, 0); errno == 0 {
		Call(sysClose, last, 0, 0, 0, 0, 0)
	}
}

const (
	sysCloseRange     = 436 // on every architecture
	closeRangeUnshare = 2
)
