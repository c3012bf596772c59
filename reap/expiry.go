package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// Times of the end of a child that is due, in ns.
const (
	graceOfExpiry = 1e9   // between TERM and KILL
	expireAgain   = 100e6 // KILL is sent again to what was forked meanwhile
)

// expiryPhase is how far the end of a child that is due has come.
type expiryPhase uint8

const (
	notDue  expiryPhase = iota
	asked               // all of it got TERM
	slain               // all of it got KILL
	cleared             // nothing is left
)

// expiry is a child's deadline, and its end when that has passed.
type expiry struct {
	deadline int64 // CLOCK_BOOTTIME, ns; 0: none
	wanted   bool  // tier 2 wants the end now
	timedOut bool  // the deadline passed while it ran
	phase    expiryPhase
	next     int64 // CLOCK_MONOTONIC: when the phase asked or slain has something to do
	watched  bool  // in children.mortal
}

// watchExpiry puts a child among those that are looked at.
func (t *children) watchExpiry(c *child) {
	if !c.expiry.watched {
		c.expiry.watched = true
		t.mortal = append(t.mortal, c)
	}
}

// spare takes a child out of them.
func (t *children) spare(c *child) {
	if !c.expiry.watched {
		return
	}
	c.expiry.watched = false
	for i, other := range t.mortal {
		if other == c {
			last := len(t.mortal) - 1
			t.mortal[i], t.mortal[last] = t.mortal[last], nil
			t.mortal = t.mortal[:last]
			return
		}
	}
}

// dueAt is when a child next needs looking at. One that is still on its way to
// its program is ended when it has started; a spawn that hangs has an end of
// its own.
func (r *reaper) dueAt(c *child, boot int64) int64 {
	x := &c.expiry
	switch {
	case x.phase == asked, x.phase == slain:
		return x.next
	case x.phase == cleared, c.state == pending, c.state == failed:
		return never
	case x.wanted:
		return r.now
	case x.deadline == 0:
		return never
	}
	return r.now + min(max(x.deadline, 0)-boot, 1<<60)
}

// nextExpiry is when the first of them needs looking at.
func (r *reaper) nextExpiry() int64 {
	next := never
	if len(r.children.mortal) == 0 {
		return next
	}
	boot := sinceBoot()
	for _, c := range r.children.mortal {
		next = min(next, r.dueAt(c, boot))
	}
	return next
}

// expiryTimers does what has become due.
func (r *reaper) expiryTimers() {
	if len(r.children.mortal) == 0 {
		return
	}
	boot := sinceBoot()
	for i := len(r.children.mortal) - 1; i >= 0; i-- { // from the end: what is cleared leaves the list
		c := r.children.mortal[i]
		if r.now < r.dueAt(c, boot) {
			continue
		}
		if c.expiry.phase == notDue {
			r.step(c, due)
		} else {
			r.slay(c)
		}
	}
}

// beginEnd ends what is left of a child that is due. In the state pending it is
// called again when the program was started.
func (r *reaper) beginEnd(c *child) {
	x := &c.expiry
	if x.phase != notDue || c.state == pending {
		return
	}
	if c.state == alive {
		r.childEnded(c) // it may have ended in time
	}
	if c.state == exited && len(r.leftovers(c)) == 0 {
		r.clear(c)
		return
	}
	x.timedOut = c.state == alive && !x.wanted
	x.phase, x.next = asked, r.now+graceOfExpiry
	r.children.watchExpiry(c)
	r.signalAll(c, sys.SIGTERM)
	r.signalAll(c, sys.SIGCONT)
}

// slay sends KILL to all that is left of a child.
func (r *reaper) slay(c *child) {
	if c.state == exited && len(r.leftovers(c)) == 0 {
		r.clear(c)
		return
	}
	c.expiry.phase, c.expiry.next = slain, r.now+expireAgain
	r.killLeaf(c)
	r.signalAll(c, sys.SIGKILL)
}

// endAgain looks, now that some process has ended, whether that was the last of
// a child, and kills what it has orphaned.
func (r *reaper) endAgain() {
	for i := len(r.children.mortal) - 1; i >= 0; i-- {
		c := r.children.mortal[i]
		if p := c.expiry.phase; c.state != exited || p != asked && p != slain {
			continue
		}
		left := r.leftovers(c)
		if len(left) == 0 {
			r.clear(c)
		} else if c.expiry.phase == slain {
			for _, pid := range left {
				r.kill(pid, sys.SIGKILL, c.user)
			}
		}
	}
}

func (r *reaper) clear(c *child) {
	c.expiry.phase = cleared
	r.children.spare(c)
	r.children.owe(c, owedCleared)
}

// setExpiry answers Deadline.
func (r *reaper) setExpiry(m *wire.Deadline) {
	c := r.children.byID[m.ID]
	if c == nil || c.state == failed {
		return
	}
	x := &c.expiry
	if x.phase == cleared { // asked for by another tier 2
		r.children.owe(c, owedCleared)
		return
	}
	if m.At == 0 {
		x.wanted = true
	} else {
		x.deadline = m.At
	}
	r.children.watchExpiry(c)
	r.sweep = true // expiryTimers comes after this
}

// signalAll signals all that belongs to a child: its group as long as it is
// there, and every process that bears its tag, whoever its parent is.
func (r *reaper) signalAll(c *child, signal int32) {
	if c.state == alive {
		r.kill(-c.pid, signal, c.user)
	}
	if !r.orphans.known {
		return // without /proc the group is all that is known
	}
	r.orphans.eachProcess(func(pid int32) {
		if pid == c.pid && c.state == alive || pid == r.place.pid || pid == r.tier2.pid || !r.bears(pid, c) {
			return
		}
		r.signalBearer(pid, signal, c)
	})
}

// bears tells whether any process belongs to a child, read anew.
func (r *reaper) bears(pid int32, c *child) bool {
	if c.tag == 0 || !r.place.tags {
		return c.pid != 0 && (sys.Getsid(pid) == c.pid || sys.Getpgid(pid) == c.pid)
	}
	var buffer [4096]byte
	status := readProc(buffer[:], "/proc/", decimal(int(pid)), "/status")
	return len(status) > 0 && tagIn(status, r.policy.TagLow, r.policy.TagHigh) == c.tag
}

// signalBearer signals a process that may be somebody else's child: between the
// look at it and the signal its number could be given to another, but for the
// pidfd that holds on to the one that is looked at again.
func (r *reaper) signalBearer(pid, signal int32, c *child) {
	pidfd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		if err != unix.ESRCH { // no pidfds here
			r.kill(pid, signal, c.user)
		}
		return
	}
	if r.bears(pid, c) {
		if err := unix.PidfdSendSignal(pidfd, unix.Signal(signal), nil, 0); err == unix.EPERM {
			r.kill(pid, signal, c.user)
		}
	}
	unix.Close(pidfd)
}
