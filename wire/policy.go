package wire

import (
	"errors"

	"rlminit/internal/coder"
)

// MainService is the name under which tier 2 runs a main command that is a
// service.
const MainService = "main"

// Policy is what tier 1 holds every request of tier 2 against: compiled once,
// at boot, from root-owned configuration, and passed in a sealed memfd.
type Policy struct {
	Version uint32

	User      Identity // every child is this, unless a Program says otherwise
	TagLow    uint32   // the range of tags, inclusive; 0: no tags
	TagHigh   uint32
	StopNanos int64 // the container's stop budget

	Main       *Program  // nil: no main command of tier 1's
	Supervised bool      // the main command is a service of tier 2's, MainService
	Privileged []Program // definitions that need more than the policy gives

	Volume  string // RLMINIT_HOME, absolute
	Strict  bool   // a setting that the place does not allow ends the start
	Prepare bool   // there is something to do before anything is started
	ExitOn  bool   // the container lives and dies with a service, not with Main

	SignalGroup bool     // signals forwarded to Main are for its whole process group
	Success     []uint32 // exit codes of Main for which init exits with 0
	ParentDeath int32    // the signal that init gets when its parent ends; 0: none
	WarnOnReap  bool     // say which orphans were reaped
	Verbosity   int32    // how much tier 1 logs, 0 to 3

	Supervisor Identity // tier 2's user; where there is but one uid, as User
	Profiles   Profiles

	// Enclosed tells that the reader of the configuration has filled tier 1's own
	// ruleset, which every process with a Ruleset gets before its own: it allows
	// paths that are neither rlminit's nor on the volume, and Opened those open to
	// services there. Of rlminit's own, Published may be read: the directory with
	// each service's secrets, for its tag alone. Unenclosed is the service that
	// owns the volume's directory, so that nothing in it can be kept from it.
	// Temporary: it allows all of /tmp, where services have directories of their own.
	Enclosed   bool
	Opened     []string
	Published  string
	Unenclosed string
	Temporary  bool
}

// EnclosureRights are the rights to files that tier 1's own ruleset holds back on
// a kernel with that ABI of Landlock, landlock(7): all that ABI 1 knows, and those
// to refer (which it must name to allow it anywhere) and to truncate.
func EnclosureRights(abi int) uint64 {
	rights := uint64(1<<13 - 1)
	if abi >= 2 {
		rights |= 1 << 13
	}
	if abi >= 3 {
		rights |= 1 << 14
	}
	return rights
}

// FilesProgram is the name under which tier 2 asks for the process that touches
// the files of User, and of each of Profiles, with their rights, where Supervisor is
// somebody else. Tier 1 fixes all of it but the descriptor.
const FilesProgram = "@files"

// ConfigurationProgram is the name under which tier 2 asks for the process that puts
// a configuration which root has approved in the place of the one that there is: by
// its digest, 64 hexadecimal digits, the only argument. Tier 1 fixes all else but
// descriptor 1, where it says why it cannot.
const ConfigurationProgram = "@configuration"

// DirectoriesProgram is the name under which tier 2 asks for the process that makes those of
// its directories on the volume again that somebody has removed, with their owners and
// modes. Tier 1 fixes all of it but descriptor 1, where it names those it has made, and
// then Done, or why it could not.
//
// OwnProgram is that of the process that takes root's files below the directory of
// profiles, or in that of the one that is its only argument ("" is all of them), for User:
// the directories themselves too. It answers as GiveProgram does.
const (
	OwnProgram         = "@own"
	DirectoriesProgram = "@directories"
	Failed             = "cannot: " // before why
)

// FilesFD is the descriptor over which that process is asked.
const FilesFD = 3

// TemporaryPrefix begins the path of the directory below which isolated services have
// theirs for temporary files; 16 hexadecimal digits follow, others at each boot.
// TemporaryLink is the link in the runtime directory that leads to it.
const (
	TemporaryPrefix = "/tmp/rlminit-"
	TemporaryLink   = "tmp"
)

// RemoveProgram is the name under which tier 2 asks for the process that removes such a
// directory of an earlier start, or one service's in ours: as GiveProgram, of no user.
const RemoveProgram = "@remove-temporary"

// GiveProgram and TakeProgram are the names under which tier 2 asks for the process
// that gives the directory of a profile to Spawn.UID, and back to User. Giving it to 0
// gives User root's files in a directory of User's. Tier 1 fixes all of it but the
// descriptors: of the directory, and for the answer.
const (
	GiveProgram = "@give"
	TakeProgram = "@take"
)

// The descriptors of that process, and its answer when it is done.
const (
	GivenFD  = 3
	AnswerFD = 4
	Done     = "done"
)

// probeMark stands in the name of a Program between a service and what asks for
// it; in no service's name.
const probeMark = '@'

// ReadyProbe and HealthProbe are the names of the programs that ask a service, in the
// policy too, where it holds them.
func ReadyProbe(service string) string  { return service + string(probeMark) + "ready" }
func HealthProbe(service string) string { return service + string(probeMark) + "health" }

// IsProbe tells whether a program of that name asks a service.
func IsProbe(program string) bool {
	service := ServiceOf(program)
	return service != "" && service != program
}

// ServiceOf is the service that a program is, or asks for, whose tag it bears.
func ServiceOf(program string) string {
	for i := range len(program) {
		if program[i] == probeMark {
			return program[:i]
		}
	}
	return program
}

// Profiles are the users that profiles have, each one of its own: a uid, and the
// gid of that number.
type Profiles struct {
	Low, High uint32   // inclusive; 0: there are none
	Auto      bool     // a profile gets one; else those that have one give it back
	Groups    []uint32 // supplementary, of all of them
	Why       string   // there are none; or "user: auto" is not asked for
	Page      uint32   // the uid of the page, and the gid of that number; 0: it has none of its own
}

// Has tells whether a uid is one of them.
func (p *Profiles) Has(uid uint32) bool { return p.Low != 0 && p.Low <= uid && uid <= p.High }

// Identity is the user of a process with a uid of theirs, or of the page; false: none.
func (p *Profiles) Identity(uid uint32) (id Identity, has bool) {
	if id = (Identity{UID: uid, GID: uid}); p.Has(uid) {
		id.Groups = p.Groups
	}
	return id, p.Has(uid) || uid != 0 && uid == p.Page
}

// Identity is a user as a process gets it.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // supplementary, without the tag
	Name     string   // decimal uid where passwd has no entry
	Home     string
}

// Program is a command that root-owned configuration fixes in every detail.
type Program struct {
	Name         string
	Argv         []string
	Env          []string
	Dir          string // "": where init was started
	Identity     Identity
	Capabilities []uint32 // by number, capabilities(7)
	NoNewPrivs   bool
	Umask        uint32
	Rlimits      []Rlimit
	Bounds       Bounds
	StopSignal   int32
	StopNanos    int64
}

// Fence is the variable that has a service's fence, control.Deadline.
const Fence = "RLMINIT_FENCE"

// Passable tells whether tier 2 may add the variable to the environment of a
// privileged program: only what sd_notify(3) and sd_listen_fds(3) need, where
// its secrets and its temporary files are, and its fence.
func Passable(name string) bool {
	switch name {
	case "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY", "TMPDIR", Fence:
		return true
	}
	return false
}

// EncodePolicy lays a policy out in bytes.
func EncodePolicy(p *Policy) []byte { return coder.Encode(nil, p.fields) }

// DecodePolicy is the inverse of EncodePolicy.
func DecodePolicy(b []byte) (*Policy, error) {
	p := new(Policy)
	if err := coder.Decode(b, p.fields); err != nil {
		return nil, err
	}
	if p.Version != Version {
		return nil, errors.New("policy of another version")
	}
	return p, nil
}

func (p *Policy) fields(c *coder.Coder) {
	c.U32(&p.Version)
	p.User.fields(c)
	c.U32(&p.TagLow)
	c.U32(&p.TagHigh)
	c.I64(&p.StopNanos)
	coder.Optional(c, &p.Main, func(q *Program) { q.fields(c) })
	c.Bool(&p.Supervised)
	coder.List(c, &p.Privileged, func(q *Program) { q.fields(c) })
	c.Str(&p.Volume)
	c.Bool(&p.Strict)
	c.Bool(&p.Prepare)
	c.Bool(&p.ExitOn)
	c.Bool(&p.SignalGroup)
	c.U32s(&p.Success)
	c.I32(&p.ParentDeath)
	c.Bool(&p.WarnOnReap)
	c.I32(&p.Verbosity)
	p.Supervisor.fields(c)
	c.U32(&p.Profiles.Low)
	c.U32(&p.Profiles.High)
	c.Bool(&p.Profiles.Auto)
	c.U32s(&p.Profiles.Groups)
	c.Str(&p.Profiles.Why)
	c.U32(&p.Profiles.Page)
	c.Bool(&p.Enclosed)
	c.Strings(&p.Opened)
	c.Str(&p.Published)
	c.Str(&p.Unenclosed)
	c.Bool(&p.Temporary)
}

func (i *Identity) fields(c *coder.Coder) {
	c.U32(&i.UID)
	c.U32(&i.GID)
	c.U32s(&i.Groups)
	c.Str(&i.Name)
	c.Str(&i.Home)
}

func (q *Program) fields(c *coder.Coder) {
	c.Str(&q.Name)
	c.Strings(&q.Argv)
	c.Strings(&q.Env)
	c.Str(&q.Dir)
	q.Identity.fields(c)
	c.U32s(&q.Capabilities)
	c.Bool(&q.NoNewPrivs)
	c.U32(&q.Umask)
	coder.List(c, &q.Rlimits, func(l *Rlimit) { l.fields(c) })
	q.Bounds.fields(c)
	c.I32(&q.StopSignal)
	c.I64(&q.StopNanos)
}
