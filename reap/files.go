package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// whose is the user that a request names: the policy's, or one of a profile.
func (r *reaper) whose(m *wire.Spawn) (wire.Identity, *refusal) {
	of := &r.policy.Profiles
	switch {
	case m.UID == 0:
		return r.policy.User, nil
	case !of.Has(m.UID) || !r.place.root:
		return wire.Identity{}, &refusal{wire.StepPolicy, unix.EPERM, "uid " + decimal(int(m.UID)) + " is not in profile_users, as of the container's start"}
	}
	return wire.Identity{UID: m.UID, GID: m.UID, Groups: of.Groups}, nil
}

// mostFiles is how many processes for the files of the services' user there may be,
// and of those of profiles: one, and those that hang.
const (
	mostFiles  = 4
	mostOwners = 8 // that change owners
)

// touchesFiles tells whether that is the name of a process that touches the services'
// files. It ends with tier 2.
func touchesFiles(name string) bool {
	return name == wire.FilesProgram || name == wire.ProfileFilesProgram
}

// files fills in the process that touches the files of the services' user, or of
// those of profiles, in the place of a supervisor that has a uid of its own. It
// begins as root, with no right but to change its ids, and that is what it does
// first: some of those which it takes on are lost when a program is executed. Of the
// message only the descriptor is used.
func (r *reaper) files(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	supervisor, user, of := &r.policy.Supervisor, &r.policy.User, &r.policy.Profiles
	if !r.place.root || user.UID == supervisor.UID || m.UID != 0 || m.Tag != 0 || m.Terminal ||
		len(fds) != 1 || len(m.Targets) != 1 || m.Targets[0] != wire.FilesFD ||
		m.Name == wire.ProfileFilesProgram && of.Low == 0 {
		return &refusal{wire.StepPolicy, unix.EPERM, "the supervisor has no process for the services' files"}
	}
	if r.count(m.Name) >= mostFiles {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "there are enough of them"}
	}
	c.UID = supervisor.UID // whoever signals it must be: it becomes that itself
	argv := []string{"rlminit", "rights", decimal(int(supervisor.UID)), decimal(int(supervisor.GID))}
	groups := user.Groups
	if m.Name == wire.ProfileFilesProgram {
		argv, groups = append(argv, "of", decimal(int(of.Low)), decimal(int(of.High))), of.Groups
	} else {
		argv = append(argv, decimal(int(user.UID)), decimal(int(user.GID)))
	}
	for _, group := range groups {
		argv = append(argv, decimal(int(group)))
	}
	// The last to give up the others for good.
	return r.ourselves(c, m, fds, argv, 1<<unix.CAP_SETUID|1<<unix.CAP_SETGID|1<<unix.CAP_SETPCAP)
}

// count is how many processes of a name there are.
func (r *reaper) count(name string) (n int) {
	for other := r.children.first; other != nil; other = other.next {
		if other.name == name && (other.state == alive || other.state == pending) {
			n++
		}
	}
	return n
}

// owners fills in the process that gives a profile's directory to its user, or
// back to the services': root with the rights that takes, and with an argument for
// each of the two. Of the message only the descriptors and the user are used.
func (r *reaper) owners(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	of, no := r.whose(m)
	if no != nil {
		return no
	}
	if m.UID == 0 || m.Tag != 0 || m.Terminal || len(fds) != 2 || len(m.Targets) != 2 ||
		m.Targets[0] != wire.GivenFD || m.Targets[1] != wire.AnswerFD {
		return &refusal{wire.StepPolicy, unix.EPERM, "there is nothing to be given"}
	}
	if r.count(m.Name) >= mostOwners {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "there are enough of them"}
	}
	user := &r.policy.User
	const rights = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE
	argv := []string{"rlminit", "owner", m.Name, decimal(int(user.UID)), decimal(int(user.GID)), decimal(int(of.UID))}
	return r.ourselves(c, m, fds, argv, rights)
}

// ourselves fills in a process of rlminit's own, as root with some rights.
func (r *reaper) ourselves(c *sys.Command, m *wire.Spawn, fds []int, argv []string, rights uint64) *refusal {
	c.SetBounds = r.place.setBounds
	c.Caps = rights
	c.SetUmask, c.Umask = true, 0o022
	if no := r.limits(c, nil, true); no != nil {
		return no
	}
	r.descriptors(c, append([]int{2}, fds...), append([]int32{2}, m.Targets...))
	c.Program(r.tier2.paths, argv, nil)
	return nil
}

// configuration fills in the process that puts an approved configuration in place,
// one at a time. It is root, without any capability, for the files are root's. Of
// the message only the digest and the descriptor are used.
func (r *reaper) configuration(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	if !r.place.root || m.Tag != 0 || m.Terminal || len(m.Argv) != 1 || !isDigest(m.Argv[0]) || len(fds) != 1 || m.Targets[0] != 1 {
		return &refusal{wire.StepPolicy, unix.EPERM, "the supervisor may put no configuration in place here"}
	}
	if r.count(m.Name) > 0 {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "another configuration is being put in place"}
	}
	c.SetBounds, c.SetCaps, c.NoNewPrivs = r.place.setBounds, true, true
	c.SetUmask, c.Umask = true, 0o022
	if no := r.limits(c, nil, true); no != nil {
		return no
	}
	r.descriptors(c, []int{fds[0], 2, r.tier2.passed[1]}, []int32{1, 2, wire.PreparedBundleFD})
	c.Program(r.tier2.paths, []string{"rlminit", "place", m.Argv[0]}, nil)
	return nil
}

// isDigest tells whether s is a SHA-256 in hexadecimal digits.
func isDigest(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}
