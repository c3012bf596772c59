package reap

import (
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// spawn answers a request for a process.
func (r *reaper) spawn(m *wire.Spawn, fds []int) {
	if m.ID < firstID || m.ID > r.children.nextID+mostAhead || r.children.byID[m.ID] != nil ||
		len(r.children.byID) >= mostChildren {
		r.held.closer.close(fds)
		r.voice.Once("the supervisor used a spawn id twice, or out of turn, or has too many children; dropped")
		return
	}
	c := &child{id: m.ID, name: m.Name, tag: m.Tag, pidfd: -1, expiry: expiry{deadline: m.Deadline}}
	var command *sys.Command
	no := &refusal{wire.StepMessage, unix.EINVAL, "an internal error of PID 1"} // unless of comes to its end
	survive(&r.voice, &r.sweep, func() { command, no = r.commands.of(m, fds) })
	if no == nil {
		no = r.held.admit(m.Name)
	}
	if slices.ContainsFunc(fds, wire.MayBeSilent) {
		no = &refusal{wire.StepPolicy, unix.EPERM, "it would have a file on a file system that might never answer"}
	}
	if r.stop.termSent {
		no = &refusal{wire.StepPolicy, unix.ECANCELED, "the container is stopping"}
	}
	if no == nil && c.expiry.passed() { // before any reason to try it again
		no = &refusal{wire.StepExec, unix.ETIME, ""}
	}
	if no == nil && m.Name != wire.FilesProgram && r.tier2.room.full(r.threads.Waiting()) {
		no = &refusal{wire.StepFork, unix.EAGAIN, ""}
	}
	if no == nil && r.leaves.There() && m.Tag != 0 && r.place.tags {
		if why := r.leaves.Enter(command, m.Tag, r.commands.bounds(m)); why != nil {
			no = &refusal{wire.StepCgroup, why.Errno, why.Reason}
		}
		c.oomKills = r.leaves.OOMKills(m.Tag)
	}
	if no != nil {
		r.held.closer.close(fds)
		c.step, c.errno, c.reason = no.step, int32(no.errno), no.reason
		r.step(c, refused)
		return
	}
	c.user, c.terminal, c.privileged = command.UID, m.Terminal, m.Privileged
	command.Deadline = m.Deadline
	if r.main.is(m) && r.main.service == nil {
		r.main.service = c
	}
	r.step(c, accepted)
	if m.Deadline != 0 {
		r.deadlines.watch(c)
	}
	c.spawn = &threads.Job{
		Command: command,
		FDs:     fds,
		Size:    argumentsSize(m),
		Done:    func(j *threads.Job) { r.spawned(c, j) },
		Stuck:   func(*threads.Job) { r.spawnStuck(c) },
	}
	r.threads.Submit(c.spawn, r.now)
}

// spawnStuck answers that a spawn hangs, and asks it to come back.
func (r *reaper) spawnStuck(c *child) {
	c.stuck = true
	r.signaller.killPending(c, unix.ETIMEDOUT)
	r.step(c, stuck)
}

// spawned answers that a spawn has come to its end.
func (r *reaper) spawned(c *child, j *threads.Job) {
	r.held.closer.close(j.FDs)
	c.spawn = nil
	command := j.Command
	r.leaves.Close(command)
	if command.PIDFD >= 0 && r.held.crowded(1) {
		sys.Close(command.PIDFD)
		command.PIDFD = -1
	}
	if command.PID != 0 && command.Errno == 0 && command.Step == sys.StepExec {
		if !r.place.tags { // else leftovers are known by those
			r.children.unshareNumber(command.PID)
		}
		c.pid, c.pidfd, c.startTime = command.PID, command.PIDFD, command.StartTime
		if c.killed != 0 {
			// Its program runs, or was about to. The first kill may have come before there
			// was a process. The child has never run, as soon as it is collected.
			r.signaller.kill(c.pid, sys.SIGKILL, c.user)
			c.step, c.errno = wire.StepExec, int32(c.killed)
		} else {
			r.step(c, started)
		}
		if r.stop.termSent { // to all others, while this one was pending
			r.signaller.kill(-c.pid, sys.SIGTERM, c.user)
		}
		if !watch(r.events, &c.pidfd, c.id) {
			r.children.unwatched = append(r.children.unwatched, c)
			r.sweep = true
		}
		return
	}
	sys.Close(command.PIDFD)
	c.blame(command)
	r.main.serviceGone(c)
	if c.name == wire.FilesProgram && command.Step == sys.StepFork {
		r.tier2.room.wanted(command.Errno, r.now)
	}
	r.step(c, fell)
}

// blame notes why a spawn has failed, which is one thing whoever was first to act on it. A
// child that we killed has no error of its own, and where its deadline has passed it may
// have died before it looked at the clock, or have been begun by no thread.
func (c *child) blame(command *sys.Command) {
	c.step, c.errno = wire.Step(command.Step), int32(command.Errno)
	begun := command.Step != sys.StepNone
	switch {
	case c.killed == unix.ETIME && (!begun || command.Errno == sys.EINTR):
		c.step, c.errno = wire.StepExec, int32(unix.ETIME)
	case c.killed != 0 && command.Errno == sys.EINTR:
		c.errno = int32(c.killed)
	case !begun:
		c.step, c.reason = wire.StepThreads, "every spawn waits for a file system that does not answer"
	}
}
