package reap

import (
	"os"

	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// prepare is the short-lived child that puts the volume in order and runs the
// boot steps, before tier 2 and main are started; and after it another one, that
// reads the environments of what the policy starts, for they may be files of the
// volume.
type prepare struct {
	process
	filled   []int  // the memfd that the second one fills; none: it is the first
	bootFile string // below the runtime directory: is there until the rest is started

	signaller *signaller
}

// begin starts all that runs, by way of prepare where there is something to be
// put in order.
func (r *reaper) begin() {
	if !r.policy.Prepare {
		r.startAll()
		return
	}
	steps, err := wire.Memfd("rlminit-steps")
	if err != nil {
		say.Line("cannot make a memfd: ", err.Error())
		r.stop.end(exitFailed, r.now)
		return
	}
	r.held.hold(wire.BootStepsKey, []int{steps}) // for tier 2 to record
	r.startPrepare("prepare", r.commands.environ, steps)
}

// startPrepare starts one of the two. Each gets its log, bundle and policy, and a
// memfd to fill.
func (r *reaper) startPrepare(part string, environ []string, fill int) {
	r.prepare.spawning = true
	c := r.commands.prepare(part, environ, fill)
	r.threads.Submit(&threads.Job{Command: c, Done: r.prepareSpawned, Stuck: func(*threads.Job) {
		say.Line("cannot prepare the volume yet: the file system of rlminit itself does not answer")
	}}, r.now)
}

func (r *reaper) startAll() {
	if r.policy.Prepare {
		unix.Unlink(r.prepare.bootFile)
	}
	r.startTier2()
	r.startMain()
}

func (r *reaper) prepareSpawned(j *threads.Job) {
	p, c := &r.prepare, j.Command
	p.spawning = false
	if c.Errno != 0 {
		say.Line("cannot prepare the volume: cannot run rlminit itself: ", c.Errno.String())
		r.stop.end(exitFailed, r.now)
		return
	}
	r.began(&p.process, c)
	if r.stop.phase != running {
		p.signal(sys.SIGTERM)
	}
}

// prepareEnded collects prepare if it has ended, and starts the rest, or ends
// the container with the code of what went wrong. That it has said itself.
func (r *reaper) prepareEnded() {
	p := &r.prepare
	exit, over := p.collect()
	if !over {
		return
	}
	code := codeOf(exit)
	switch {
	case r.stop.phase != running:
		if r.policy.Main != nil && r.stop.code < 0 {
			r.stop.code = max(code, 1) // main never ran: that is no success
		}
	case code != 0:
		if exit.Signal != 0 {
			say.Line("cannot prepare the volume: killed by signal ", say.Number(int(exit.Signal)))
		}
		r.stop.end(code, r.now)
	case p.filled != nil:
		r.takeEnvironments()
	case r.policy.Main != nil || len(r.policy.Privileged) > 0:
		r.makeEnvironments()
	default:
		r.startAll()
	}
}

// makeEnvironments starts the second child.
func (r *reaper) makeEnvironments() {
	fd, err := wire.Memfd("rlminit-environments")
	if err != nil {
		say.Line("cannot make a memfd: ", err.Error())
		r.stop.end(exitFailed, r.now)
		return
	}
	r.prepare.filled = []int{fd}
	r.startPrepare("environments", os.Environ(), fd)
}

// takeEnvironments takes them over, and nothing else, and starts the rest.
func (r *reaper) takeEnvironments() {
	filled, err := sealedPolicy(r.prepare.filled[0])
	unix.Close(r.prepare.filled[0])
	if err == nil && ((filled.Main == nil) != (r.policy.Main == nil) || len(filled.Privileged) != len(r.policy.Privileged)) {
		err = unix.EINVAL
	}
	if err != nil {
		say.Line("cannot read the environments: ", err.Error())
		r.stop.end(exitFailed, r.now)
		return
	}
	if r.policy.Main != nil {
		r.policy.Main.Env = filled.Main.Env
	}
	for i := range r.policy.Privileged {
		r.policy.Privileged[i].Env = filled.Privileged[i].Env
	}
	r.startAll()
}

// signal passes a signal on. First prepare is root's, then the user's.
func (p *prepare) signal(signal int32) {
	if p.pid != 0 && p.signaller.kill(p.pid, signal, 0) != 0 {
		p.signaller.kill(p.pid, signal, p.signaller.policy.User.UID)
	}
}
