package sys

import "unsafe"

// Enclosure is tier 1's own Landlock ruleset, which a process gets before its
// own.
type Enclosure struct {
	Ruleset   int32 // 0: none
	opened    []*byte
	published *byte
	temporary bool
	rights    uint64
}

// Isolation is what a process restricts itself by. It needs NoNewPrivs.
type Isolation struct {
	Ruleset int32 // of Landlock; 0: none
	// Credentials is a directory, and Notify a socket by O_PATH, of Owner's that get
	// the group Tag, which is among the process's groups; 0: none.
	Credentials, Notify int32
	Owner, Tag          uint32

	private []*byte
	given   bool // private is made by whom the process was forked by, and given to its user
	rights  uint64
	filter  []byte
	program filterProgram
}

// filterProgram is struct sock_fprog, seccomp(2).
type filterProgram struct {
	length uint16
	first  *byte
}

// Open sets the paths to which the ruleset gives rights when a process is
// restricted: what they name may have changed since. Those that are not there, or
// are links, are left out. Below published is what one with credentials may read, and
// temporary tells that the ruleset has the directories of Private already: it is one for all
// processes, whom every rule in it costs memory, so that none is a single one's.
func (e *Enclosure) Open(paths []string, published string, temporary bool, rights uint64) {
	e.opened, e.published, e.temporary, e.rights = cstrings(paths), cstring(published), temporary, rights
}

// Private sets the directories that the process makes, as its user, and gets
// rights to in its ruleset. given has them made before it is that, and given to it where
// the right for that is there.
func (i *Isolation) Private(paths []string, rights uint64, given bool) {
	i.private, i.rights, i.given = cstrings(paths), rights, given
}

// Filter sets a program of struct sock_filter, of 8 bytes each.
func (i *Isolation) Filter(program []byte) {
	i.filter, i.program = program, filterProgram{}
	if len(program) > 0 {
		i.program = filterProgram{uint16(len(program) / 8), &program[0]}
	}
}

func cstrings(list []string) []*byte {
	var pointers []*byte
	for _, s := range list {
		pointers = append(pointers, cstring(s))
	}
	return pointers
}

// make makes the directories of Private that only tier 1 can make, and gives them to the
// user. What cannot be given is made by the user, see restrict.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (i *Isolation) make(uid, gid uint32) {
	for _, path := range i.private {
		if !i.given || try(sysMkdirat, atCwd, uintptr(unsafe.Pointer(path)), 0o700) != 0 {
			continue
		}
		if _, errno := Call(sysFchownat, atCwd, uintptr(unsafe.Pointer(path)), uintptr(uid), uintptr(gid), atNoFollow, 0); errno != 0 {
			try(sysUnlinkat, atCwd, uintptr(unsafe.Pointer(path)), atRemoveDir)
		}
	}
}

// share gives a directory and a socket the group that only this process and what
// comes of it have. It is done with the owner's rights to files and no more, so that
// they can be nobody else's.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) share() Errno {
	for _, fd := range [...]int32{c.Isolation.Credentials, c.Isolation.Notify} {
		if fd == 0 {
			continue
		}
		c.Step = StepPrivate
		Call(sysSetfsuid, uintptr(c.Isolation.Owner), 0, 0, 0, 0, 0)
		_, errno := Call(sysFchownat, uintptr(fd), uintptr(unsafe.Pointer(&empty)), ^uintptr(0), uintptr(c.Isolation.Tag), atEmptyPath, 0)
		Call(sysSetfsuid, 0, 0, 0, 0, 0, 0)
		if errno != 0 {
			return Errno(errno)
		}
	}
	return 0
}

// restrict restricts the process by the rulesets. It has its user and
// no_new_privs by now.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) restrict() Errno {
	if c.Isolation.Ruleset == 0 {
		return 0
	}
	c.Step = StepPrivate
	for _, path := range c.Isolation.private {
		// Whoever made it: what counts is whose it is, which only an owner's
		// O_NOATIME tells without another structure.
		errno := try(sysMkdirat, atCwd, uintptr(unsafe.Pointer(path)), 0o700)
		if errno != 0 && errno != EEXIST {
			return errno
		}
		const flags = openDirectory | openNoFollow | openNoAtime | openCloexec
		if errno := allow(c.Isolation.Ruleset, path, flags, c.Isolation.rights); errno != 0 {
			return errno
		}
		if c.Enclosure.Ruleset != 0 && !c.Enclosure.temporary { // it may be in a directory of which not all is allowed
			allow(c.Enclosure.Ruleset, path, flags, c.Enclosure.rights)
		}
	}
	c.Step = StepLandlock
	if c.Enclosure.Ruleset != 0 {
		for _, path := range c.Enclosure.opened {
			allow(c.Enclosure.Ruleset, path, openPath|openNoFollow|openCloexec, c.Enclosure.rights)
		}
		if c.Isolation.Credentials != 0 {
			allow(c.Enclosure.Ruleset, c.Enclosure.published, openPath|openNoFollow|openCloexec, landlockRead)
		}
		if errno := try(sysLandlockRestrictSelf, uintptr(c.Enclosure.Ruleset), 0, 0); errno != 0 {
			return errno
		}
	}
	return try(sysLandlockRestrictSelf, uintptr(c.Isolation.Ruleset), 0, 0)
}

// allow adds a rule on a directory to a ruleset.
//
//go:nosplit
//go:norace
//go:nocheckptr
func allow(ruleset int32, path *byte, flags uintptr, rights uint64) Errno {
	fd, errno := Call(sysOpenat, atCwd, uintptr(unsafe.Pointer(path)), flags, 0, 0, 0)
	if errno != 0 {
		return Errno(errno)
	}
	// struct landlock_path_beneath_attr is packed: 12 bytes, as these are.
	rule := [3]uint32{uint32(rights), uint32(rights >> 32), uint32(fd)}
	_, errno = Call(sysLandlockAddRule, uintptr(ruleset), landlockPathBeneath, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	Call(sysClose, fd, 0, 0, 0, 0, 0)
	return Errno(errno)
}

// filter installs the seccomp filter: last of all, for it may deny what the steps
// before it need.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) filter() Errno {
	if c.Step = StepExec; c.Deadline != 0 && sinceBoot() >= c.Deadline { // which the filter may not let it ask
		return ETIME
	}
	if c.Isolation.program.length == 0 {
		return 0
	}
	c.Step = StepSeccomp
	return try(sysSeccomp, seccompSetModeFilter, seccompSpecAllow, uintptr(unsafe.Pointer(&c.Isolation.program)))
}

// LandlockABI asks the kernel which ABI of Landlock it has; 0: none.
func LandlockABI() int {
	version, _ := Call(sysLandlockCreateRuleset, 0, 0, landlockVersion, 0, 0, 0)
	return max(int(version), 0) // which is -1 with an error
}

// NewRuleset makes an empty Landlock ruleset that holds back rights to files.
func NewRuleset(rights uint64) (int, Errno) {
	fd, errno := Call(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&rights)), 8, 0, 0, 0, 0)
	return int(fd), Errno(errno)
}

// empty is a path of no bytes.
var empty byte

const (
	atEmptyPath = 0x1000
	atNoFollow  = 0x100
	atRemoveDir = 0x200

	sysLandlockCreateRuleset = 444 // these on every architecture
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446

	landlockVersion = 1

	landlockPathBeneath, landlockRead = 1, 1<<2 | 1<<3 // files and directories

	seccompSetModeFilter = 1
	seccompSpecAllow     = 4 // mitigations that slow down every process are for the kernel's own choice

	openPath    = 0x200000
	openNoAtime = 0x40000
)
