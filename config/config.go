package config

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/service"
)

// The defaults that a user may want to know.
const (
	DefaultPath        = "/etc/rlminit/rlminit.yaml"
	DefaultHome        = "/data"
	DefaultStopTimeout = 9 * time.Second
)

// Fault and Faults are the errors of a configuration.
type (
	Fault  = document.Fault
	Faults = document.Faults
	Lookup = document.Lookup
)

// Config is what rlminit.yaml and services.d say, with flags and RLMINIT_*
// variables already in force and every default filled in.
type Config struct {
	Path        string        // of rlminit.yaml
	User        string        // name, uid or uid:gid; "" where it is not set
	Supervisor  string        // supervisor_user, as User
	Home        string        // the volume, RLMINIT_HOME: absolute
	StopTimeout time.Duration // the whole container's
	Profiles    bool          // false: RLMINIT_PROFILES=off
	Strict      bool          // a setting that the place does not allow ends the start
	ParentDeath unix.Signal   // what init gets when its parent ends; 0: none
	WarnOnReap  bool          // say which orphans were reaped
	Verbose     int           // how much PID 1 says of what it does, 0 to 3
	InheritEnv  []string      // globs; a leading ! excludes
	Environment map[string]service.Value
	EnvFile     []string
	ReadAll     bool  // access.read: anyone may read status
	Tags        Range // of supplementary gids; Low 0: none
	// ProfileUsers are the uids, each with the gid of that number, of profiles that
	// have users of their own; Low 0: none.
	ProfileUsers Range
	GroupsOf     []string // absolute paths, whose groups every child has
	Jobs         Jobs
	Hooks        []Hook

	Apply   []ApplyRule    // nil: every user that may command may apply plans
	Metrics service.Socket // where they can be scraped; no network: nowhere
	Page    *Page          // nil: there is none

	Main     Main
	Gateway  *Gateway                       // nil: no profiles
	Services map[string]*service.Definition // the static ones, by name

	UID, GID uint32 // of RLMINIT_UID and so on; 0: as passwd says

	Own  []Owned
	Dirs []Dir
	Seed []Seed
	Boot []Step

	env  Lookup             // the variables that the files were expanded with
	made Bundle             // that it was made of, but for Own
	own  map[string]*Config // by service: the configuration read later for it alone. Invariant: of other files than made has, and of the same ones one

	livesWith string          // the service or profile that the container ends with; "": none
	plain     map[string]bool // the services whose restart policy nobody wrote
}

// Jobs bounds one-shot commands.
type Jobs struct {
	AtOnce     int // that run
	PerProfile int // of them, of one profile
	Queue      int // that wait for their turn

	Limits service.Limits // of one whose profile or service does not name them
	Guards Guards
}

// Guards are thresholds above which no job is started.
type Guards struct {
	Memory         int // per cent of the container's, or the machine's, that is in use
	MemoryPressure int // per cent of the last 10 s with a process that waited for it
	CPUPressure    int
	PIDs           int // per cent of the processes that the container may have
	Zombies        int // processes of the job's owner whose parents do not collect them

	Named []string // those that the configuration names
}

// defaultJobs are the bounds of jobs where the configuration does not say.
func defaultJobs() Jobs {
	return Jobs{
		AtOnce: 8, PerProfile: 8, Queue: 1024,
		Limits: service.Limits{Memory: 512 << 20, Pids: 256},
		Guards: Guards{Memory: 80, MemoryPressure: 80, CPUPressure: 80, PIDs: 90, Zombies: 10},
	}
}

// ApplyRule lets a uid apply plans whose changes its scope covers: all,
// profiles, profile/NAME or service/NAME, where NAME may be a pattern.
type ApplyRule struct {
	UID   uint32
	Scope string
}

// Range is a range of numbers, both ends included.
type Range struct {
	Low, High int
}

// Size is how many numbers there are.
func (r Range) Size() int {
	if r.Low == 0 {
		return 0
	}
	return r.High - r.Low + 1
}

// Owned is a path that is to be the service user's, with all below.
type Owned struct {
	Path string // absolute, at or below Home
	Deep bool   // looked through at every boot, also if its top has the right owner
}

// Dir is a directory that is made at boot.
type Dir struct {
	Path  string // absolute, at or below Home
	Mode  uint32
	Owner string // name, uid or user:group; "": the service user
}

// Seed is a file or directory that is copied where To is absent.
type Seed struct {
	From string // absolute
	To   string // absolute, below Home
	Mode uint32 // enforced at every boot; 0: that of From
}

// Step is a command that runs once at boot, before any service.
type Step struct {
	Name        string
	Command     []string
	Environment map[string]service.Value
	WorkingDir  string
	Timeout     time.Duration
	Continue    bool // on_failure: continue
}

// Main is the main command. Its Definition is named "main"; its command may be
// empty, and its restart policy is "no" unless main.restart is there.
type Main struct {
	service.Definition
	Subcommands []string // first arguments that always go to Command
	Routes      []Route
	ExitOn      string // the service that the container lives and dies with
	SignalGroup bool   // forwarded signals are for the whole process group
}

// Gateway is what all profiles share, and the kinds of gateway that they have.
type Gateway struct {
	Marker       string         // the file that makes a directory a profile
	StateFile    string         // in the profile's directory
	ImportState  string         // an application's own; "" for none
	FoundState   service.Intent // of one found without a record
	RemoveAtBoot []string       // relative to the profile's directory; patterns of path.Match
	Ports        Range          // of kinds that have none of their own; Low 0: none
	HasDefault   bool           // the home directory is the profile "default"
	User         string         // "auto": each profile has one of its own; "": all have the container's
	Groups       []string       // supplementary, of these users

	// Kinds are the gateways that there can be, by name: the section gateway, which has the
	// name "", unless it has no command, and those of gateways.
	Kinds map[string]*Kind

	defaultNode document.Node
}

// Kind is the template for the gateways of some profiles.
type Kind struct {
	Name         string         // "": the section gateway
	Template     string         // absolute; "" for none
	InitialState service.Intent // of a profile just created
	Profiles     []string       // which may be of this kind: patterns of path.Match; nil: all
	AnyCommand   bool           // command: any; each profile has one of its own

	ports Range // where the section has the key

	node document.Node // read anew for each profile
}

// For is the configuration that holds for a service.
func (c *Config) For(service string) *Config {
	if own := c.own[service]; own != nil {
		return own
	}
	return c
}

// With is c where another configuration holds for some services. It keeps none twice
// that was made of the same files: one service after the other may be reloaded, for
// ever.
func (c *Config) With(names []string, other *Config) *Config {
	mixed := *c
	mixed.Services, mixed.own = maps.Clone(c.Services), maps.Clone(c.own)
	if mixed.own == nil {
		mixed.own = map[string]*Config{}
	}
	for _, known := range c.own {
		if known.made.holds(other.made.Files) {
			other = known
			break
		}
	}
	same := c.made.holds(other.made.Files)
	for _, name := range names {
		if delete(mixed.own, name); !same {
			mixed.own[name] = other
		}
		delete(mixed.Services, name)
		if d, there := other.Services[name]; there {
			mixed.Services[name] = d
		}
	}
	return &mixed
}

// Bundle is what c is made of, for a successor to make it again.
func (c *Config) Bundle() Bundle {
	b := c.made
	at := map[*Config]int{}
	for _, name := range slices.Sorted(maps.Keys(c.own)) {
		other := c.own[name]
		i, known := at[other]
		if !known {
			i = len(b.Own)
			at[other], b.Own = i, append(b.Own, Own{Bundle: other.made})
		}
		b.Own[i].Names = append(b.Own[i].Names, name)
	}
	return b
}
