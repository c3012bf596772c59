package reap

import (
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/reap/leaves"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// Times of the end of a child that is due, in ns.
const (
	graceOfExpiry = 1e9   // between TERM and KILL
	expireAgain   = 100e6 // KILL is sent again to processes forked meanwhile
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
	watched  bool  // in deadlines.mortal
}

// passed tells whether the deadline is over. Nobody moves such a deadline any more.
func (x *expiry) passed() bool { return x.deadline != 0 && sinceBoot() >= x.deadline }

// deadlines are the children with a deadline, or to end, and how far that has come.
//
// Invariant: mortal has each child whose expiry is watched, once, and no other.
type deadlines struct {
	mortal []*child

	children  *children // are owed the word that nothing is left
	orphans   *orphans
	leaves    *leaves.Leaves
	signaller *signaller
	tier2     *process     // has no child's tag, and must never be taken for one's
	expire    func(*child) // takes one to its end, through the table

	// clock is a timerfd of CLOCK_BOOTTIME, timerfd_create(2). It wakes the loop at the
	// earliest deadline, also when the machine has slept meanwhile, of which the timeout of
	// epoll_wait(2) knows nothing. -1: there is none. rings is the time for which it is set.
	clock int
	rings int64
}

// openClock makes the clock.
func (d *deadlines) openClock(e *sys.Events) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err == nil && e.Add(int32(fd), sys.Readable|sys.Edge, keyClock) == 0 {
		d.clock = fd
	}
}

// setClock has the clock ring at the earliest deadline.
func (d *deadlines) setClock() {
	rings := never
	for _, c := range d.mortal {
		if x := &c.expiry; x.phase == notDue && x.deadline > 0 {
			rings = min(rings, x.deadline)
		}
	}
	if d.clock < 0 || rings == d.rings || rings == never {
		return
	}
	d.rings = rings
	unix.TimerfdSettime(d.clock, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(rings)}, nil)
}

// watch puts a child among those that are looked at.
func (d *deadlines) watch(c *child) {
	if !c.expiry.watched {
		c.expiry.watched = true
		d.mortal = append(d.mortal, c)
	}
}

// spare takes a child out of them.
func (d *deadlines) spare(c *child) {
	if !c.expiry.watched {
		return
	}
	c.expiry.watched = false
	i, last := slices.Index(d.mortal, c), len(d.mortal)-1
	d.mortal[i], d.mortal[last] = d.mortal[last], nil
	d.mortal = d.mortal[:last]
}

// dueAt is when a child next needs looking at, by both clocks. One that is still
// on its way to its program is killed at its deadline, which it may not pass, and where
// tier 2 wants its end it is ended when it has started; a spawn that hangs has an end of
// its own.
func (c *child) dueAt(now, boot int64) int64 {
	x := &c.expiry
	switch {
	case x.phase == asked, x.phase == slain:
		return x.next
	case x.phase == cleared, c.state == failed, c.killed != 0, c.state == pending && x.wanted:
		return never
	case x.wanted:
		return now
	case x.deadline == 0:
		return never
	}
	return now + min(max(x.deadline, 0)-boot, 1<<60)
}

// next is when the first of them needs looking at.
func (d *deadlines) next(now int64) int64 {
	next := never
	if len(d.mortal) == 0 {
		return next
	}
	d.setClock()
	boot := sinceBoot()
	for _, c := range d.mortal {
		next = min(next, c.dueAt(now, boot))
	}
	return next
}

// look acts on passed deadlines.
func (d *deadlines) look(now int64) {
	if len(d.mortal) == 0 {
		return
	}
	boot := sinceBoot()
	for i := len(d.mortal) - 1; i >= 0; i-- { // from the end: a cleared child leaves the list
		c := d.mortal[i]
		if now < c.dueAt(now, boot) {
			continue
		}
		if c.expiry.phase == notDue {
			d.expire(c)
		} else {
			d.slay(c, now)
		}
	}
}

// begin ends the rest of a child that is due, unless that has begun.
func (d *deadlines) begin(c *child, now int64) {
	x := &c.expiry
	if c.state == pending && !x.wanted && c.spawn != nil {
		d.signaller.killPending(c, unix.ETIME)
	}
	if x.phase != notDue || c.state == pending {
		return
	}
	if d.over(c) {
		return
	}
	x.timedOut = c.state == alive && !x.wanted
	x.phase, x.next = asked, now+graceOfExpiry
	d.watch(c)
	d.signalAll(c, sys.SIGTERM)
	d.signalAll(c, sys.SIGCONT)
}

// slay sends KILL to all that is left of a child.
func (d *deadlines) slay(c *child, now int64) {
	if d.over(c) {
		return
	}
	c.expiry.phase, c.expiry.next = slain, now+expireAgain
	d.leaves.Kill(c.tag)
	d.signalAll(c, sys.SIGKILL)
}

// again looks, now that some process has ended, whether that was the last of a
// child, and kills its orphans.
func (d *deadlines) again() {
	for i := len(d.mortal) - 1; i >= 0; i-- {
		c := d.mortal[i]
		if p := c.expiry.phase; c.state != exited || p != asked && p != slain || d.over(c) || p != slain {
			continue
		}
		for _, pid := range d.orphans.kept { // as over has found them
			d.signaller.kill(pid, sys.SIGKILL, c.user)
		}
	}
}

// over tells whether nothing is left of a child, which then is owed that word.
func (d *deadlines) over(c *child) bool {
	if c.state != exited || len(d.orphans.leftovers(c)) > 0 {
		return false
	}
	c.expiry.phase = cleared
	d.spare(c)
	d.children.owe(c, owedCleared)
	return true
}

// set answers Deadline, and tells whether something may be due.
func (d *deadlines) set(m *wire.Deadline) bool {
	c := d.children.byID[m.ID]
	if c == nil || c.state == failed {
		return false
	}
	x := &c.expiry
	if x.phase == cleared { // asked for by another tier 2
		d.children.owe(c, owedCleared)
		return false
	}
	switch {
	case m.At == 0:
		x.wanted = true
	case !x.passed():
		x.deadline = m.At
	}
	d.watch(c)
	return true
}

// signalAll signals all that belongs to a child: its group as long as it is
// there, and every process that bears its tag, whatever its parent.
func (d *deadlines) signalAll(c *child, signal int32) {
	if c.state == alive {
		d.signaller.kill(-c.pid, signal, c.user)
	}
	if !d.orphans.known {
		return // without /proc the group is all that is known
	}
	bears := func(pid int32) bool { return d.orphans.bears(pid, c) }
	d.orphans.eachProcess(func(pid int32) {
		if pid == c.pid && c.state == alive || pid == d.orphans.place.pid || pid == d.tier2.pid || !bears(pid) {
			return
		}
		d.signaller.killBearer(pid, signal, c.user, bears)
	})
}
