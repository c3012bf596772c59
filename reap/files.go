package reap

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// whose is the user that a request names: the policy's, or one of a profile.
func (o *commands) whose(m *wire.Spawn) (wire.Identity, *refusal) {
	who, has := o.policy.Profiles.Identity(m.UID)
	switch {
	case m.UID == 0:
		return o.policy.User, nil
	case !has || !o.place.root:
		return wire.Identity{}, &refusal{wire.StepPolicy, unix.EPERM, "uid " + say.Number(int(m.UID)) + " is not in profile_users, as of the container's start"}
	}
	return who, nil
}

const (
	mostFiles  = 4 // processes that touch files: one, and those that hang
	mostOwners = 8 // that change owners
)

// plain tells whether a request for a process of rlminit's own brings nothing but the
// descriptors that this one gets: checkShape has one for each target, and those of extra.
func (o *commands) plain(m *wire.Spawn, targets ...int32) bool {
	return o.place.root && m.Tag == 0 && !m.Terminal && extra(m) == 0 && slices.Equal(m.Targets, targets)
}

// files fills in the process that touches the files of the services' user and of
// profiles' users, in the place of a supervisor that has a uid of its own. It
// begins as root, with no right but to change its ids, and that is what it does
// first: some of those which it takes on are lost when a program is executed. Of the
// message only the descriptor is used.
func (o *commands) files(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	supervisor, user, of := &o.policy.Supervisor, &o.policy.User, &o.policy.Profiles
	if user.UID == supervisor.UID || m.UID != 0 || !o.plain(m, wire.FilesFD) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the supervisor has no process for the services' files"}
	}
	if o.children.count(m.Name) >= mostFiles {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "there are enough of them"}
	}
	c.UID = supervisor.UID // whoever signals it must be: it becomes that itself
	argv := []string{"rlminit", "rights"}
	add := func(ids ...uint32) {
		for _, id := range ids {
			argv = append(argv, say.Number(int(id)))
		}
	}
	add(supervisor.UID, supervisor.GID, user.UID, user.GID)
	add(user.Groups...)
	argv = append(argv, "of")
	add(of.Low, of.High)
	add(of.Groups...)
	// The last to give up the others for good.
	return o.ourselves(c, m, fds, argv, 1<<unix.CAP_SETUID|1<<unix.CAP_SETGID|1<<unix.CAP_SETPCAP)
}

// owners fills in the process that removes a directory for temporary files, which root
// has made and services have filled; or that gives a profile's directory to its user, or
// back to the services', with what is root's in it: root with the rights that takes,
// and with an argument for each of the two. Of the message only the descriptors and the user are used.
func (o *commands) owners(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	remove := m.Name == wire.RemoveProgram
	if _, no := o.whose(m); no != nil {
		return no
	}
	if m.UID == 0 && m.Name == wire.TakeProgram || m.UID != 0 && remove || !o.plain(m, wire.GivenFD, wire.AnswerFD) {
		return &refusal{wire.StepPolicy, unix.EPERM, "there is nothing to be given"}
	}
	if o.children.count(m.Name) >= mostOwners {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "there are enough of them"}
	}
	if remove {
		return o.ourselves(c, m, fds, []string{"rlminit", "owner", m.Name}, (1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_FOWNER)&o.place.capabilities)
	}
	user := &o.policy.User
	const rights = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE
	argv := []string{"rlminit", "owner", m.Name, say.Number(int(user.UID)), say.Number(int(user.GID)), say.Number(int(m.UID))}
	return o.ourselves(c, m, fds, argv, rights)
}

// ourselves fills in a process of rlminit's own, as root with some rights.
func (o *commands) ourselves(c *sys.Command, m *wire.Spawn, fds []int, argv []string, rights uint64) *refusal {
	c.Caps = rights
	return o.root(c, append([]int{2}, fds...), append([]int32{2}, m.Targets...), argv, nil)
}

// configuration fills in the process that puts an approved configuration in place,
// one at a time. It is root, without any capability, for the files are root's. Of
// the message only the digest and the descriptor are used.
func (o *commands) configuration(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	if !o.plain(m, 1) || len(m.Argv) != 1 || !isDigest(m.Argv[0]) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the supervisor may put no configuration in place here"}
	}
	if o.children.count(m.Name) > 0 {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "another configuration is being put in place"}
	}
	c.SetCaps, c.NoNewPrivs = true, true
	return o.root(c, []int{fds[0], 2, o.bundle}, []int32{1, 2, wire.PreparedBundleFD}, []string{"rlminit", "place", m.Argv[0]}, nil)
}

// directories fills in the process that makes the supervisor's directories on the volume
// again, or takes what is root's in profiles for the services' user, one at a time: root with
// the rights that takes; where owners cannot be changed, the first makes them as the
// supervisor. Where they are, and whose, is in the sealed configuration and
// policy. Only the descriptor and the name of a profile are taken from the message.
func (o *commands) directories(c *sys.Command, m *wire.Spawn, fds []int) *refusal {
	if o.policy.Supervisor.UID == o.policy.User.UID || !o.plain(m, 1) {
		return &refusal{wire.StepPolicy, unix.EPERM, "there are no directories to be made here"}
	}
	if o.children.count(m.Name) > 0 {
		return &refusal{wire.StepPolicy, unix.EAGAIN, "the directories are being made"}
	}
	c.NoNewPrivs, c.SetCaps = true, true
	rights := uint64(1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER)
	argv := []string{"rlminit", "directories"}
	if m.Name == wire.DirectoriesProgram {
		rights |= 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	} else {
		if len(m.Argv) != 1 {
			return &refusal{wire.StepPolicy, unix.EPERM, "whose files are to be taken is not said"}
		}
		argv = append(argv, m.Argv[0])
	}
	c.Caps = rights & o.place.capabilities
	return o.root(c, []int{fds[0], 2, o.bundle, o.sealed}, []int32{1, 2, wire.PreparedBundleFD, wire.PreparedPolicyFD}, argv, o.environ)
}

// root fills in what processes of rlminit's own that are root have in common.
func (o *commands) root(c *sys.Command, fds []int, targets []int32, argv, env []string) *refusal {
	c.SetBounds = o.place.setBounds
	c.SetUmask, c.Umask = true, 0o022
	o.descriptors(c, fds, targets)
	c.Program(o.paths, argv, env)
	return setLimits(c, nil, true)
}

// isDigest tells whether s is a SHA-256 in hexadecimal digits.
func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
