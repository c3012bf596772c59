package reap

import "rlminit/reap/sys"

// prepare is the short-lived child that puts the volume in order and runs the
// boot steps, before tier 2 and main are started.
type prepare struct {
	spawning bool
	pid      int32
	pidfd    int32
}

// begin starts all that runs, by way of prepare where there is something to be
// put in order.
func (r *reaper) begin() {
	if !r.policy.Prepare {
		r.startAll()
		return
	}
	p := &r.prepare
	p.spawning, p.pidfd = true, -1
	c := &sys.Command{Session: sys.SameGroup, OOMScore: r.oomScore(oomChild)}
	fds := []int{1, 2, r.tier2.passed[1], r.tier2.passed[2]} // its log, bundle, policy
	r.descriptors(c, fds, []int32{1, 2, 3, 4})
	c.Program(self(), []string{"rlminit", "prepare"}, r.tier2.environ)
	r.threads.submit(&job{command: c, done: r.prepareSpawned, stuck: func(*job) {
		say("cannot prepare the volume yet: the file system of rlminit itself does not answer")
	}}, r.now)
}

func (r *reaper) startAll() {
	r.startTier2()
	r.startMain()
}

func (r *reaper) prepareSpawned(j *job) {
	p, c := &r.prepare, j.command
	p.spawning = false
	if c.Errno != 0 {
		say("cannot prepare the volume: cannot run rlminit itself: ", c.Errno.String())
		r.end(exitFailed)
		return
	}
	p.pid, p.pidfd = c.PID, c.PIDFD
	if r.stop.phase != running {
		r.signalPrepare(sys.SIGTERM)
	}
	if !r.watch(&p.pidfd, keyPrepare) {
		r.sweep = true
	}
}

// prepareEnded collects prepare if it has ended, and starts the rest, or ends
// the container with the code of what went wrong. That it has said itself.
func (r *reaper) prepareEnded() {
	p := &r.prepare
	var info siginfo
	if p.pid == 0 || !hasEnded(p.pid, p.pidfd, &info) {
		return
	}
	reapNow(p.pid, &p.pidfd)
	p.pid = 0
	exit := exitOf(&info)
	code := exit.Code
	if exit.Signal != 0 {
		code = 128 + exit.Signal
	}
	switch {
	case r.stop.phase != running:
		if r.policy.Main != nil && r.stop.code < 0 {
			r.stop.code = int(max(code, 1)) // main never ran: that is no success
		}
	case code != 0:
		if exit.Signal != 0 {
			say("cannot prepare the volume: killed by signal ", decimal(int(exit.Signal)))
		}
		r.end(code)
	default:
		r.startAll()
	}
}

// signalPrepare passes a signal on. First prepare is root's, then the user's.
func (r *reaper) signalPrepare(signal int32) {
	p := &r.prepare
	if p.pid != 0 && r.kill(p.pid, signal, 0) != 0 {
		r.kill(p.pid, signal, r.policy.User.UID)
	}
}
