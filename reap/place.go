package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
	"rlminit/reap/pure"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// place has the abilities of the container.
type place struct {
	pid       int32
	root      bool // effective uid 0
	setIDs    bool // CAP_SETUID and CAP_SETGID
	setGroups bool // setgroups(2) is not refused
	tags      bool // and the policy has a range of tags
	setBounds bool // CAP_SETPCAP
	kill      bool // CAP_KILL, or all are our own
	pidfds    bool // clone(2) gives them: a profile may refuse them there and not in pidfd_open(2), or the reverse
	mostHeld  int  // descriptors
	fewFDs    bool // there may be

	pids uint64 // processes and threads that there may be

	capabilities uint64
}

// find looks.
func (p *place) find(policy *wire.Policy) {
	p.root = unix.Geteuid() == 0
	p.capabilities = effective()
	p.setIDs = p.has(unix.CAP_SETUID) && p.has(unix.CAP_SETGID)
	p.setBounds = p.has(unix.CAP_SETPCAP)
	p.kill = !p.root || p.has(unix.CAP_KILL)
	p.setGroups = p.has(unix.CAP_SETGID) && canSetGroups()
	p.tags = p.setGroups && policy.TagLow != 0 && policy.TagHigh >= policy.TagLow
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.mostHeld = int(min(limit.Cur, 1<<20)) - heldReserve
	}
	p.fewFDs = limit.Cur < 2*heldReserve
	p.mostHeld = max(p.mostHeld, int(min(limit.Cur, 2*heldReserve))*7/16-2)
	if policy.Supervisor.UID != policy.User.UID {
		p.mostHeld -= 2 // starting the process for the services' files takes some for a moment
	}
	score := proc.Signed(proc.Read(make([]byte, 16), "/proc/self/oom_score_adj"))
	oomTier2 = []byte(say.Number(min(score+oomTier2Above, 1000)))
	oomChild = []byte(say.Number(min(score+oomChildAbove, 1000)))
}

// oomChild and oomTier2 are written to oom_score_adj: the kernel shall take a
// service before the supervisor, and both long before PID 1.
var oomChild, oomTier2 []byte

// How much likelier than PID 1 the others are to be taken, oom_score_adj.
const oomTier2Above, oomChildAbove = 100, 300

func (p *place) has(capability int) bool { return p.capabilities&(1<<capability) != 0 }

// missing names what root lacks to become the configured user.
func (p *place) missing() string {
	switch {
	case !p.has(unix.CAP_SETUID) && !p.has(unix.CAP_SETGID):
		return "CAP_SETUID and CAP_SETGID"
	case !p.has(unix.CAP_SETUID):
		return "CAP_SETUID"
	case !p.has(unix.CAP_SETGID):
		return "CAP_SETGID"
	}
	return ""
}

// lacks are the missing abilities, a line each.
func (p *place) lacks(policy *wire.Policy) []string {
	var lines []string
	if p.root && !p.setBounds {
		lines = append(lines, "no CAP_SETPCAP: the bounding set of children is left as it is")
	}
	if policy.TagHigh != 0 && !p.tags {
		lines = append(lines, "setgroups is not allowed: services are told apart by session, and have no tag")
	}
	if p.root && !p.kill {
		lines = append(lines, "no CAP_KILL: signals are sent by a process of the service user")
	}
	if !sys.Exists("/proc/self") {
		lines = append(lines, "no /proc: no OOM scores, and processes that leave their service are found by session only")
	}
	if !p.pidfds {
		lines = append(lines, "pidfd is refused: the end of a process is learnt of by SIGCHLD and a look at each")
	}
	return lines
}

// effective returns our effective capabilities, a bit for each.
func effective() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return 0
	}
	return uint64(data[0].Effective) | uint64(data[1].Effective)<<32
}

// canSetGroups tries: a user namespace may deny it, user_namespaces(7).
func canSetGroups() bool {
	groups, err := unix.Getgroups()
	if err != nil {
		return false
	}
	// This thread alone, and what it has already: unix.Setgroups would be for all.
	raw := make([]uint32, len(groups)+1)
	for i, group := range groups {
		raw[i] = uint32(group)
	}
	return sys.SetGroups(raw[:len(groups)]) == 0
}

// giveStdio makes main's user the owner of descriptors 0 to 2 where they are
// pipes or terminals, so that its programs can open /dev/stdout. Where that is
// not the supervisor, stdout is for the latter's group to write to as well.
func (p *place) giveStdio(user, supervisor *wire.Identity) {
	if !p.root {
		return
	}
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		pipe := st.Mode&unix.S_IFMT == unix.S_IFIFO
		terminal := st.Mode&unix.S_IFMT == unix.S_IFCHR && isTerminal(fd)
		if fd == 1 && (pipe || terminal) && user.UID != supervisor.UID {
			// Tier 2 opens it again, for what services print.
			unix.Fchmod(fd, 0o620)
			unix.Fchown(fd, -1, int(supervisor.GID))
		}
		if user.UID != 0 && (pipe || terminal) && unix.Fchown(fd, int(user.UID), -1) != nil && pipe && fd > 0 {
			// Without CAP_CHOWN they keep their owner. Nobody comes to a pipe but by the
			// descriptors of those who have it.
			unix.Fchmod(fd, 0o622)
		}
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// settle refuses what would break the promise, and says once what this place
// does not allow and is done without.
func (p *place) settle(policy *wire.Policy) int {
	if p.root {
		if policy.User.UID == 0 {
			return giveUp(exitConfig, "cannot start: running as root and no user is set; add \"user: app\" to "+
				pure.DefaultConfig+" or use docker run --user")
		}
		if missing := p.missing(); missing != "" {
			return giveUp(exitConfig, "cannot start: user "+policy.User.Name+" cannot be reached without "+missing+
				"; add it with --cap-add, or start the container with --user "+say.Number(int(policy.User.UID)))
		}
	} else if !p.setIDs {
		policy.User.UID, policy.User.GID = uint32(unix.Geteuid()), uint32(unix.Getegid())
		policy.Supervisor = policy.User
	}
	for _, lack := range p.lacks(policy) {
		if policy.Strict {
			return giveUp(exitConfig, "cannot start: "+lack+"; strict is set, so make it possible, or leave strict out")
		}
		say.Line(lack)
	}
	return 0
}
