package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// oomChild and oomTier2 are written to oom_score_adj: the kernel shall take a
// service before the supervisor, and both long before PID 1.
var oomChild, oomTier2 []byte

// refusal is a spawn that is not done, and why.
type refusal struct {
	step   wire.Step
	errno  unix.Errno
	reason string
}

// spawn answers a request for a process.
func (r *reaper) spawn(m *wire.Spawn, fds []int) {
	if m.ID < firstID || m.ID > r.children.nextID+mostAhead || r.children.byID[m.ID] != nil ||
		len(r.children.byID) >= mostChildren || r.children.labels+len(m.Label) > mostLabels {
		r.close(fds)
		r.sayOnce("the supervisor used a spawn id twice, or out of turn, or has too many children; dropped")
		return
	}
	c := &child{id: m.ID, name: m.Name, tag: m.Tag, label: m.Label, pidfd: -1, expiry: expiry{deadline: m.Deadline}}
	command, no := r.command(m, fds)
	if no == nil {
		no = r.room(m.Name)
	}
	if r.stop.termSent {
		no = &refusal{wire.StepPolicy, unix.ECANCELED, "the container is stopping"}
	}
	if no == nil {
		no = r.enterLeaf(c, command, m)
	}
	if no != nil {
		r.close(fds)
		c.step, c.errno, c.reason = no.step, int32(no.errno), no.reason
		r.step(c, refused)
		return
	}
	c.user, c.terminal, c.privileged = command.UID, m.Terminal, m.Privileged
	if r.isMain(m) && r.main.service == nil {
		r.main.service = c
	}
	r.step(c, accepted)
	if m.Deadline != 0 {
		r.children.watchExpiry(c)
	}
	r.threads.submit(&job{
		command: command,
		fds:     fds,
		size:    argumentsSize(m),
		done:    func(j *job) { r.spawned(c, j) },
		stuck:   func(j *job) { r.spawnStuck(c, j) },
	}, r.now)
}

// spawnStuck answers that a spawn hangs, and asks it to come back.
func (r *reaper) spawnStuck(c *child, j *job) {
	c.killed = true
	r.killJob(j)
	r.step(c, stuck)
}

// spawned answers that a spawn has come to its end.
func (r *reaper) spawned(c *child, j *job) {
	r.close(j.fds)
	command := j.command
	r.leaves.close(command)
	if command.PIDFD >= 0 && r.crowded(1) {
		sys.Close(command.PIDFD)
		command.PIDFD = -1
	}
	if command.PID != 0 && command.Errno == 0 && command.Step == sys.StepExec {
		r.unshareNumber(command.PID)
		c.pid, c.pidfd, c.startTime = command.PID, command.PIDFD, j.startTime
		r.raiseOOMScore(c.pid, oomChild)
		if c.killed {
			// Either its program runs and is about to die, or it died first.
			// It is one that never ran, as soon as it is collected.
			c.step, c.errno = wire.StepExec, int32(unix.ETIMEDOUT)
		} else {
			r.step(c, started)
		}
		if r.stop.termSent { // to all others, while this one was pending
			r.kill(-c.pid, sys.SIGTERM, c.user)
		}
		if !r.watch(&c.pidfd, c.id) {
			r.unwatched = append(r.unwatched, c)
			r.sweep = true
		}
		return
	}
	if command.PIDFD >= 0 {
		sys.Close(command.PIDFD)
	}
	c.step, c.errno = stepOf(command.Step), int32(command.Errno)
	if command.Step == sys.StepNone {
		c.step, c.reason = wire.StepThreads, "every spawn waits for a file system that does not answer"
	}
	r.serviceGone(c)
	if touchesFiles(c.name) && command.Step == sys.StepFork {
		r.wantsRoom(command.Errno)
	}
	r.step(c, fell)
}

// unshareNumber makes entries whose process is gone forget its number, now that
// another process has it: it no longer names their session.
func (r *reaper) unshareNumber(pid int32) {
	if r.place.tags {
		return // leftovers are known by their tags
	}
	for c := r.children.first; c != nil; c = c.next {
		if c.pid == pid && c.state == exited {
			c.pid = 0
		}
	}
}

// command holds a request against the policy, and turns it into a command.
func (r *reaper) command(m *wire.Spawn, fds []int) (*sys.Command, *refusal) {
	if no := r.checkShape(m, fds); no != nil {
		return nil, no
	}
	if no := r.checkTag(m); no != nil {
		return nil, no
	}
	if no := r.checkTerminal(m); no != nil {
		return nil, no
	}
	c := &sys.Command{OOMScore: r.oomScore(oomChild), Session: sys.OwnSession}
	if m.Terminal {
		c.Session = sys.ForegroundGroup
	}
	if m.ListenPID {
		c.ListenPID = []byte{}
	}
	switch m.Name {
	case wire.FilesProgram, wire.ProfileFilesProgram:
		return c, r.files(c, m, fds)
	case wire.ConfigurationProgram:
		return c, r.configuration(c, m, fds)
	case wire.GiveProgram, wire.TakeProgram:
		return c, r.owners(c, m, fds)
	}
	if m.Privileged {
		if no := r.privileged(c, m); no != nil {
			return nil, no
		}
	} else {
		if !m.NoNewPrivs {
			return nil, &refusal{wire.StepPolicy, unix.EPERM, "no_new_privs: false needs a definition in root-owned configuration"}
		}
		who, no := r.whose(m)
		if no != nil {
			return nil, no
		}
		r.identity(c, &who, m.Tag)
		c.NoNewPrivs = true
		c.SetUmask, c.Umask = true, m.Umask&0o777
		if no := r.limits(c, m.Rlimits, true); no != nil {
			return nil, no
		}
		c.WorkingDir(m.Dir)
		c.Program([]string{m.Path}, m.Argv, m.Env)
	}
	if no := r.isolate(c, m, fds); no != nil {
		return nil, no
	}
	r.descriptors(c, fds[:len(m.Targets)], m.Targets)
	return c, nil
}

// checkShape refuses what makes no sense.
func (r *reaper) checkShape(m *wire.Spawn, fds []int) *refusal {
	bad := func(reason string) *refusal { return &refusal{wire.StepMessage, unix.EINVAL, reason} }
	switch {
	case m.Name == "" || len(m.Name) > longestName:
		return bad("a name of 1 to 128 bytes is needed")
	case len(m.Label) > longestLabel:
		return bad("a label of at most 4 KB is needed")
	case len(fds) != len(m.Targets)+extra(m):
		return bad("each descriptor needs a target")
	case (m.Ruleset || len(m.Filter) > 0) && !m.NoNewPrivs && !m.Privileged:
		return bad("a ruleset or a filter needs no_new_privs")
	case len(m.Private) > mostPrivate || len(m.Private) > 0 && !m.Ruleset:
		return bad("private directories are at most 8, and for a ruleset")
	case len(m.Filter)%8 != 0 || len(m.Filter) > 8*longestFilter:
		return bad("there is no such filter")
	case !m.Privileged && (len(m.Path) == 0 || m.Path[0] != '/'):
		return bad("the path must be absolute")
	case !m.Privileged && len(m.Argv) == 0:
		return bad("there is no argv")
	case argumentsSize(m) > mostArguments:
		return &refusal{wire.StepExec, unix.E2BIG, ""}
	case len(m.Rlimits) > mostLimits:
		return bad("there are not so many limits")
	case m.Dir != "" && m.Dir[0] != '/':
		return bad("the working directory must be absolute")
	}
	var seen [256]bool
	for _, target := range m.Targets {
		if target < 0 || int(target) >= len(seen) || seen[target] {
			return bad("a descriptor's target must be 0 to 255, and no other's")
		}
		seen[target] = true
	}
	for _, path := range m.Private {
		if path == "" || path[0] != '/' {
			return bad("a private directory must be absolute")
		}
	}
	for _, list := range [...][]string{{m.Path, m.Dir}, m.Argv, m.Env, m.Private} {
		for _, s := range list {
			for i := 0; i < len(s); i++ {
				if s[i] == 0 {
					return bad("a string holds a NUL byte")
				}
			}
		}
	}
	return nil
}

// argumentsSize is what execve(2) counts: strings, and a pointer to each.
func argumentsSize(m *wire.Spawn) int {
	size := 0
	for _, list := range [...][]string{m.Argv, m.Env} {
		for _, s := range list {
			size += len(s) + 1 + 8
		}
	}
	return size
}

// checkTag refuses a tag that is another service's.
func (r *reaper) checkTag(m *wire.Spawn) *refusal {
	if m.Tag == 0 {
		return nil
	}
	if m.Tag < r.policy.TagLow || m.Tag > r.policy.TagHigh {
		return &refusal{wire.StepPolicy, unix.EPERM, "the tag is not in the policy's range"}
	}
	if use := r.children.tags[m.Tag]; use.entries > 0 && use.name != wire.ServiceOf(m.Name) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the tag is that of " + use.name}
	}
	return nil
}

// identity sets who the process is: exactly that user and groups, without any
// capability.
func (r *reaper) identity(c *sys.Command, who *wire.Identity, tag uint32) {
	c.UID, c.GID = who.UID, who.GID
	c.SetIDs = r.place.setIDs
	if r.place.setGroups {
		c.SetGroups = true
		c.Groups = append(c.Groups, who.Groups...)
		if tag != 0 && r.place.tags {
			c.Groups = append(c.Groups, tag)
		}
	}
	c.SetBounds = r.place.setBounds
	c.SetCaps = true
}

// privileged fills in a definition that the policy holds. Of the message only
// descriptors, tag and what sd_notify(3) needs are used.
func (r *reaper) privileged(c *sys.Command, m *wire.Spawn) *refusal {
	p := r.definition(m.Name)
	if p == nil {
		return &refusal{wire.StepPolicy, unix.EPERM, "the policy holds no definition of that name"}
	}
	if p.Identity.UID == 0 {
		return &refusal{wire.StepPolicy, unix.EPERM, "uid 0 is refused"}
	}
	for other := r.children.first; other != nil; other = other.next {
		if other.privileged && other.name == m.Name && (other.state == alive || other.state == pending && !other.killed) {
			return &refusal{wire.StepPolicy, unix.EAGAIN, "its definition is root's, and there is a process of it already"}
		}
	}
	env := append([]string(nil), p.Env...)
	for _, entry := range m.Env {
		if name, ok := variable(entry); ok && wire.Passable(name) {
			env = append(env, entry)
		}
	}
	return r.program(c, p, p.Argv, env, m.Tag)
}

// definition is what the policy holds under a name, nil for nothing.
func (r *reaper) definition(name string) *wire.Program {
	for i := range r.policy.Privileged {
		if p := &r.policy.Privileged[i]; p.Name == name {
			return p
		}
	}
	return nil
}

// program fills in what root-owned configuration fixes.
func (r *reaper) program(c *sys.Command, p *wire.Program, argv, env []string, tag uint32) *refusal {
	if !r.place.setIDs && (p.Identity.UID != r.policy.User.UID || len(p.Capabilities) > 0) {
		return &refusal{wire.StepPolicy, unix.EPERM, "another user or a capability needs CAP_SETUID and CAP_SETGID"}
	}
	if len(argv) == 0 {
		return &refusal{wire.StepMessage, unix.EINVAL, "there is no argv"}
	}
	r.identity(c, &p.Identity, tag)
	for _, capability := range p.Capabilities {
		if capability < 64 {
			c.Caps |= 1 << capability
		}
	}
	c.NoNewPrivs = p.NoNewPrivs
	c.SetBounds = c.SetBounds && p.NoNewPrivs // sudo and the like need something to gain
	c.SetCaps = p.Identity.UID != 0           // root has what the bounding set leaves
	c.SetUmask, c.Umask = true, p.Umask&0o777
	if no := r.limits(c, p.Rlimits, false); no != nil {
		return no
	}
	c.WorkingDir(p.Dir)
	c.Program(pure.Candidates(argv[0], pure.Lookup(env, "PATH")), argv, env)
	return nil
}

// limits sets the rlimits. A request of tier 2's may not raise one above what
// the container has, though we might be allowed to.
func (r *reaper) limits(c *sys.Command, limits []wire.Rlimit, bounded bool) *refusal {
	noFile := sys.NoFile
	for _, l := range limits {
		if l.Resource < 0 || l.Resource > 15 || l.Soft > l.Hard {
			return &refusal{wire.StepRlimit, unix.EINVAL, "there is no such limit"}
		}
		if l.Resource == unix.RLIMIT_NOFILE {
			noFile = sys.Rlimit{}
		}
		var have unix.Rlimit
		if bounded && unix.Prlimit(0, int(l.Resource), nil, &have) == nil && l.Hard > have.Max {
			return &refusal{wire.StepRlimit, unix.EPERM, "the limit is above the container's own"}
		}
		c.Rlimits = append(c.Rlimits, sys.Rlimit{Resource: uint64(l.Resource), Soft: l.Soft, Hard: l.Hard})
	}
	if noFile.Hard != 0 {
		c.Rlimits = append(c.Rlimits, noFile)
	}
	return nil
}

// descriptors says what the process gets. Of 0 to 2 those that nobody passed
// are /dev/null, or closed where there is none; or with the terminal, ours.
func (r *reaper) descriptors(c *sys.Command, fds []int, targets []int32) {
	var have [3]bool
	for i, fd := range fds {
		c.Fds = append(c.Fds, int32(fd))
		c.Targets = append(c.Targets, targets[i])
		if targets[i] < 3 {
			have[targets[i]] = true
		}
	}
	for target := range have {
		switch {
		case have[target], c.Session == sys.ForegroundGroup:
		case r.null >= 0:
			c.Fds = append(c.Fds, int32(r.null))
			c.Targets = append(c.Targets, int32(target))
		default:
			c.CloseStdio[target] = true
		}
	}
}

// oomScore is the score for a child to set itself, where it can.
func (r *reaper) oomScore(score []byte) []byte {
	if !r.place.root {
		return nil
	}
	return score
}

// stepOf translates: package sys comes before wire in the order of
// initialisation, and so cannot import it.
func stepOf(s sys.Step) wire.Step { return steps[s] }

var steps = [...]wire.Step{
	sys.StepNone:         wire.StepNone,
	sys.StepFork:         wire.StepFork,
	sys.StepSession:      wire.StepSession,
	sys.StepTerminal:     wire.StepTerminal,
	sys.StepOOMScore:     wire.StepOOMScore,
	sys.StepRlimit:       wire.StepRlimit,
	sys.StepBounding:     wire.StepBounding,
	sys.StepGroups:       wire.StepGroups,
	sys.StepGID:          wire.StepGID,
	sys.StepUID:          wire.StepUID,
	sys.StepCapabilities: wire.StepCapabilities,
	sys.StepNoNewPrivs:   wire.StepNoNewPrivs,
	sys.StepDir:          wire.StepDir,
	sys.StepDescriptors:  wire.StepDescriptors,
	sys.StepSignals:      wire.StepSignals,
	sys.StepExec:         wire.StepExec,
	sys.StepPrivate:      wire.StepPrivate,
	sys.StepLandlock:     wire.StepLandlock,
	sys.StepSeccomp:      wire.StepSeccomp,
	sys.StepCgroup:       wire.StepCgroup,
}

// variable returns the name of an entry of an environment.
func variable(entry string) (string, bool) {
	for i := 0; i < len(entry); i++ {
		if entry[i] == '=' {
			return entry[:i], i > 0
		}
	}
	return "", false
}
