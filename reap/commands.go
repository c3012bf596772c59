package reap

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// commands turns what tier 2 asks for, held against the policy, into what is
// executed, and what tier 1 starts by itself. It reads the table and changes
// nothing there: its answer is a value.
type commands struct {
	policy   *wire.Policy
	place    *place
	children *children
	main     *mainCommand // alone may have the terminal

	enclosure sys.Enclosure
	temporary string // the directory of services' directories for temporary files; "": there is none
	null      int    // /dev/null, -1 where there is none

	// What processes of rlminit itself get: the ways to the program, an
	// environment, and copies of descriptors.
	paths, environ           []string
	listener, bundle, sealed int // the control socket; the configuration and the policy, in memfds
}

// refusal is a spawn that is not done, and why.
type refusal struct {
	step   wire.Step
	errno  unix.Errno
	reason string
}

// of holds a request against the policy, and turns it into a command.
func (o *commands) of(m *wire.Spawn, fds []int) (*sys.Command, *refusal) {
	if no := cmp.Or(checkShape(m, fds), o.checkTag(m), o.main.checkTerminal(m)); no != nil {
		return nil, no
	}
	c := &sys.Command{OOMScore: oomChild, Session: sys.OwnSession}
	if m.Terminal {
		c.Session = sys.ForegroundGroup
	}
	if m.ListenPID {
		c.ListenPID = []byte{}
	}
	switch m.Name {
	case wire.FilesProgram:
		return c, o.files(c, m, fds)
	case wire.ConfigurationProgram:
		return c, o.configuration(c, m, fds)
	case wire.DirectoriesProgram, wire.OwnProgram:
		return c, o.directories(c, m, fds)
	case wire.GiveProgram, wire.TakeProgram, wire.RemoveProgram:
		return c, o.owners(c, m, fds)
	}
	if m.Privileged {
		if no := o.privileged(c, m); no != nil {
			return nil, no
		}
	} else {
		if !m.NoNewPrivs {
			return nil, &refusal{wire.StepPolicy, unix.EPERM, "no_new_privs: false needs a definition in root-owned configuration"}
		}
		who, no := o.whose(m)
		if no != nil {
			return nil, no
		}
		o.identity(c, &who, m.Tag)
		c.NoNewPrivs = true
		c.SetUmask, c.Umask = true, m.Umask&0o777
		if no := setLimits(c, m.Rlimits, true); no != nil {
			return nil, no
		}
		c.WorkingDir(m.Dir, m.Home)
		c.Program(pure.Candidates(m.Path, pure.Lookup(m.Env, "PATH")), m.Argv, m.Env)
	}
	if no := o.isolate(c, m, fds); no != nil {
		return nil, no
	}
	o.descriptors(c, fds[:len(m.Targets)], m.Targets)
	return c, nil
}

// checkShape refuses what makes no sense.
func checkShape(m *wire.Spawn, fds []int) *refusal {
	bad := func(reason string) *refusal { return &refusal{wire.StepMessage, unix.EINVAL, reason} }
	switch {
	case m.Name == "" || len(m.Name) > longestName:
		return bad("a name of 1 to 128 bytes is needed")
	case len(fds) != len(m.Targets)+extra(m):
		return bad("each descriptor needs a target")
	case (m.Ruleset || len(m.Filter) > 0) && !m.NoNewPrivs && !m.Privileged:
		return bad("a ruleset or a filter needs no_new_privs")
	case len(m.Private) > mostPrivate || len(m.Private) > 0 && !m.Ruleset:
		return bad("private directories are at most 8, and for a ruleset")
	case len(m.Filter)%8 != 0 || len(m.Filter) > 8*longestFilter:
		return bad("there is no such filter")
	case !m.Privileged && (m.Path == "" || len(m.Argv) == 0):
		return bad("a program and an argv are needed")
	case !m.Privileged && !strings.Contains(m.Path, "/") && strings.Count(pure.Lookup(m.Env, "PATH"), ":") > mostPlaces:
		return bad("PATH names more than 256 directories; shorten it, or name the program by its path")
	case argumentsSize(m) > mostArguments:
		return &refusal{wire.StepExec, unix.E2BIG, ""}
	case len(m.Rlimits) > mostLimits:
		return bad("there are not so many limits")
	case m.Dir != "" && m.Dir[0] != '/', m.Home != "" && m.Home[0] != '/':
		return bad("the working directory must be absolute")
	}
	var seen [wire.MaxDescriptors]bool
	for _, target := range m.Targets {
		if target < 0 || int(target) >= len(seen) || seen[target] {
			return bad("a descriptor's target must be 0 to 63, and no other's")
		}
		seen[target] = true
	}
	for _, path := range m.Private {
		if path == "" || path[0] != '/' {
			return bad("a private directory must be absolute")
		}
	}
	for _, list := range [...][]string{{m.Path, m.Dir, m.Home}, m.Argv, m.Env, m.Private} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return bad("a string holds a NUL byte")
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
func (o *commands) checkTag(m *wire.Spawn) *refusal {
	if m.Tag == 0 {
		return nil
	}
	if m.Tag < o.policy.TagLow || m.Tag > o.policy.TagHigh {
		return &refusal{wire.StepPolicy, unix.EPERM, "the tag is not in the policy's range"}
	}
	if use := o.children.tags[m.Tag]; use.entries > 0 && use.name != wire.ServiceOf(m.Name) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the tag is that of " + use.name}
	}
	return nil
}

// identity sets the user of the process: exactly that user and groups, without any
// capability.
func (o *commands) identity(c *sys.Command, who *wire.Identity, tag uint32) {
	c.UID, c.GID = who.UID, who.GID
	c.SetIDs = o.place.setIDs
	if o.place.setGroups {
		c.SetGroups = true
		c.Groups = append(c.Groups, who.Groups...)
		if tag != 0 && o.place.tags {
			c.Groups = append(c.Groups, tag)
		}
	}
	c.SetBounds = o.place.setBounds
	c.SetCaps = true
}

// privileged fills in a definition that the policy holds. Of the message only
// descriptors, tag and what sd_notify(3) needs are used.
func (o *commands) privileged(c *sys.Command, m *wire.Spawn) *refusal {
	p := o.definition(m.Name)
	if p == nil {
		return &refusal{wire.StepPolicy, unix.EPERM, "the policy holds no definition of that name"}
	}
	if p.Identity.UID == 0 {
		return &refusal{wire.StepPolicy, unix.EPERM, "uid 0 is refused"}
	}
	for other := o.children.first; other != nil; other = other.next {
		if other.privileged && other.name == m.Name && (other.state == alive || other.state == pending && other.killed == 0) {
			return &refusal{wire.StepPolicy, unix.EAGAIN, "its definition is root's, and there is a process of it already"}
		}
	}
	env := append([]string(nil), p.Env...)
	for _, entry := range m.Env {
		if name, ok := variable(entry); ok && wire.Passable(name) {
			env = append(env, entry)
		}
	}
	return o.program(c, p, p.Argv, env, m.Tag)
}

// definition is the policy's program of a name, nil for none.
func (o *commands) definition(name string) *wire.Program {
	if i := slices.IndexFunc(o.policy.Privileged, func(p wire.Program) bool { return p.Name == name }); i >= 0 {
		return &o.policy.Privileged[i]
	}
	return nil
}

// program fills in what root-owned configuration fixes.
func (o *commands) program(c *sys.Command, p *wire.Program, argv, env []string, tag uint32) *refusal {
	if !o.place.setIDs && (p.Identity.UID != o.policy.User.UID || len(p.Capabilities) > 0) {
		return &refusal{wire.StepPolicy, unix.EPERM, "another user or a capability needs CAP_SETUID and CAP_SETGID"}
	}
	if len(argv) == 0 {
		return &refusal{wire.StepMessage, unix.EINVAL, "there is no argv"}
	}
	o.identity(c, &p.Identity, tag)
	for _, capability := range p.Capabilities {
		if capability < 64 {
			c.Caps |= 1 << capability
		}
	}
	c.NoNewPrivs = p.NoNewPrivs
	c.SetBounds = c.SetBounds && p.NoNewPrivs // sudo and the like need something to gain
	c.SetCaps = p.Identity.UID != 0           // root has the rest of the bounding set
	c.SetUmask, c.Umask = true, p.Umask&0o777
	if no := setLimits(c, p.Rlimits, false); no != nil {
		return no
	}
	home := cmp.Or(p.Identity.Home, "/")
	if p.Name == wire.MainService { // that starts where the container does
		home = ""
	}
	c.WorkingDir(p.Dir, home)
	c.Program(pure.Candidates(argv[0], pure.Lookup(env, "PATH")), argv, env)
	return nil
}

// setLimits sets the rlimits. A request of tier 2's may not raise one above what
// the container has, though we might be allowed to.
func setLimits(c *sys.Command, limits []wire.Rlimit, bounded bool) *refusal {
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
func (o *commands) descriptors(c *sys.Command, fds []int, targets []int32) {
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
		case o.null >= 0:
			c.Fds = append(c.Fds, int32(o.null))
			c.Targets = append(c.Targets, int32(target))
		default:
			c.CloseStdio[target] = true
		}
	}
}

// self returns the paths of this program, the surest first.
func self() []string {
	paths := []string{"/proc/self/exe"}
	if len(os.Args) > 0 {
		paths = append(paths, pure.Candidates(os.Args[0], os.Getenv("PATH"))...)
	}
	return paths
}

// keep notes what processes of rlminit itself are started with, and opens what those
// get that have no stdin.
func (o *commands) keep(environ []string, directory string, listener, bundle, policy int) {
	if fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		o.null = fd
	}
	o.listener, o.bundle, o.sealed = listener, bundle, policy
	for _, entry := range environ {
		switch name, _ := variable(entry); name {
		case "RLMINIT_RUNTIME_DIR", "RLMINIT_GOTRACEBACK":
			continue
		case "GOTRACEBACK": // which the Go runtime of an opaque tier 2 sets anew
			o.environ = append(o.environ, "RLMINIT_"+entry)
		}
		o.environ = append(o.environ, entry)
	}
	o.environ = append(o.environ, "RLMINIT_RUNTIME_DIR="+directory)
	// Not by its path: what lies there may have been replaced since, by something
	// that is no supervisor, and tier 1 would be without one at the next crash.
	o.paths = self()
}

// tier2 is the supervisor's process, with its end of the pair.
func (o *commands) tier2(socket int, traceable bool) *sys.Command {
	c := &sys.Command{
		Session: sys.OwnSession, OOMScore: oomTier2, NoNewPrivs: true, Room: manyOpen,
		// The runtime looks at its threads each 20 µs for as long as any is at work: with
		// a service's slack that is a seventh of what the supervisor takes of a processor.
		SetUmask: true, Umask: 0o027, TimerSlack: 500e3,
		Mask: 1 << (sys.SIGUSR1 - 1), // which tier 2 reads
	}
	who := &o.policy.Supervisor
	o.identity(c, who, 0)
	if c.SetIDs && c.SetGroups && who.UID == o.policy.User.UID && !traceable {
		// A service may wait for the moment in which its supervisor begins and
		// can be traced yet. Its own group it keeps as one of the others.
		c.EffectiveGID = opaqueGID
		if c.GID == opaqueGID {
			c.EffectiveGID--
		}
		c.Groups = append(c.Groups, c.GID)
	}
	setLimits(c, nil, true)
	o.descriptors(c, []int{1, 2, socket, o.listener, o.bundle, o.sealed}, []int32{1, 2, 3, 4, 5, 6})
	c.Program(o.paths, []string{"rlminit", "supervise"}, o.environ)
	return c
}

// opaqueGID is a group that has no rights: nogroup.
const opaqueGID = 65534

// prepare is one of the two children that prepare the rest. Each gets its log, bundle
// and policy, and a memfd to fill.
func (o *commands) prepare(part string, environ []string, fill int) *sys.Command {
	c := &sys.Command{OOMScore: oomChild, Session: sys.SameGroup}
	o.descriptors(c, []int{1, 2, o.bundle, o.sealed, fill}, []int32{1, 2, 3, 4, 5})
	c.Program(self(), []string{"rlminit", part}, environ)
	return c
}

// bounds are those of the cgroup of a request.
func (o *commands) bounds(m *wire.Spawn) wire.Bounds {
	if m.Privileged {
		return o.definition(m.Name).Bounds
	}
	return m.Bounds
}

// mainUser is the user of the main command.
func (o *commands) mainUser() *wire.Identity {
	if o.policy.Main != nil {
		return &o.policy.Main.Identity
	}
	if p := o.definition(wire.MainService); o.policy.Supervised && p != nil {
		return &p.Identity
	}
	return &o.policy.User
}

// variable returns the name of an entry of an environment.
func variable(entry string) (string, bool) {
	name, _, ok := strings.Cut(entry, "=")
	return name, ok && name != ""
}
