// Package service holds the definition of one supervised service: its fields,
// their defaults, how it is decoded from YAML and what makes it valid.
//
// It owns no process and touches no file but the one it is asked to decode.
package service

import (
	"time"

	"golang.org/x/sys/unix"
)

// Definition says how one service is run. Decode fills in every default, so
// that a reader of a Definition never has to know one.
//
// Invariant: only its maker may change one, and only until another goroutine has it. The
// configuration, the service that runs by it and the operations under way for that share
// one, without a lock. Another one is made of a copy.
type Definition struct {
	Name    string // as in status: "gateway-alice", "dashboard"
	Profile string // the profile it is the gateway of, or ""
	Kind    string // of that profile's gateway, as gateways has it; "" is the section gateway
	Port    int    // the profile's port; 0: none
	// SecretsVersion is which of the sets of secrets the profile has had is in force; 0:
	// it has none. What runs keeps those that it was given, so another number is another
	// definition.
	SecretsVersion int

	Command     []string // an argv; never a shell string
	User        string   // "" is the configured user; only root-owned configuration may name another
	Group       string
	Groups      []string // supplementary groups beyond the user's own
	WorkingDir  string
	Umask       uint32 // 0 to 0o777
	Environment map[string]Value
	EnvFile     []string // a leading ? makes one optional

	Type     Type
	Schedule *Schedule // nil: none
	Enabled  bool      // of one with a schedule: whether that runs it
	// Schedules are commands that are run as jobs beside the service, by name, while it is
	// to run.
	Schedules map[string]Recurring
	Control   Control // its permission at the control socket

	Requires, Wants, After []string

	Restart  Restart
	Exits    Exits
	Ready    *Probe // nil: ready as soon as it is alive
	Health   *Health
	Watchdog time.Duration // 0: none
	Deadline Deadline
	Stop     Stop
	Sockets  []Socket
	Log      Log
	Limits   Limits
	Sandbox  Sandbox

	Isolation Isolation
	Secrets   map[string]string // by name, the files that hold them: CREDENTIALS_DIRECTORY
}

// Type tells a daemon from a oneshot.
type Type string

// The types of service.
const (
	Daemon  Type = "daemon"
	Oneshot Type = "oneshot"
)

// Value is the value of an environment variable: Text, or the content of File,
// read when the service is spawned, less one trailing newline.
type Value struct {
	Text string
	File string
}

// RestartPolicy says which exits are followed by a restart.
type RestartPolicy string

// The restart policies.
const (
	RestartAlways    RestartPolicy = "always"
	RestartOnFailure RestartPolicy = "on-failure"
	RestartNo        RestartPolicy = "no"
)

// Restart says whether, when and how often a service is started again.
type Restart struct {
	Policy      RestartPolicy // "" until Check has filled in the default of the type
	Delay       time.Duration // before the second restart in a row
	Factor      float64       // each further one waits this much longer, 1 or more
	MaxDelay    time.Duration
	Jitter      float64       // 0 to 1: share of the delay that is random
	ResetAfter  time.Duration // a run this long was healthy: the next restart is immediate
	Limit       int           // more starts than this within Window: failed. 0: no limit
	Window      time.Duration
	RetryFailed time.Duration // a failed service is tried again this often. 0: never
}

// Exits sorts exit codes, 0 to 255, into classes.
type Exits struct {
	Success, Fatal, Restart []int
}

// Probe is one way to ask a service how it is: exactly one of Notify, TCP,
// HTTP and Exec is set.
type Probe struct {
	Notify  bool     // READY=1 by sd_notify(3)
	TCP     string   // host:port that must accept
	HTTP    string   // URL that must answer 2xx or 3xx
	Exec    []string // argv that must exit 0
	Timeout time.Duration
}

// Health is a probe that is repeated while the service runs.
type Health struct {
	Probe
	Interval    time.Duration
	Retries     int // failures in a row that make it unhealthy
	StartPeriod time.Duration
	Action      HealthAction
}

// HealthAction says what an unhealthy service gets.
type HealthAction string

// The actions on an unhealthy service.
const (
	HealthRestart HealthAction = "restart"
	HealthNone    HealthAction = "none"
)

// Stop says how a service is stopped.
type Stop struct {
	Signal  unix.Signal
	Timeout time.Duration // until SIGKILL
	Kill    KillScope     // the receivers of the first signal
}

// KillScope has the receivers of the stop signal: SIGKILL always goes to all.
type KillScope string

// The scopes of the stop signal.
const (
	KillGroup KillScope = "group"
	KillMain  KillScope = "main"
)

// Socket is a listener that is opened once and passed as LISTEN_FDS,
// sd_listen_fds(3).
type Socket struct {
	Network string // tcp, tcp4, tcp6, udp, unix, unixgram
	Address string // host:port, or a path
	Name    string // in LISTEN_FDNAMES
}

// Log says what becomes of stdout and stderr.
type Log struct {
	File       bool
	MaxSize    int64         // bytes
	MaxAge     time.Duration // 0: none
	MaxFiles   int
	Compress   bool // files that were rotated, gzip(1)
	Tee        Tee
	Timestamps bool
	Redact     []string // patterns that are masked; "secrets" is the set that is there by name
	Forward    *Forward // nil: lines go nowhere else
}

// Tee says whether a service's lines also go to the container's stdout.
type Tee string

// The settings of Tee.
const (
	TeeAuto Tee = "auto" // on, but for a main command that owns a terminal
	TeeOn   Tee = "on"
	TeeOff  Tee = "off"
)

// Unlimited is RLIM_INFINITY, setrlimit(2).
const Unlimited = ^uint64(0)

// Rlimit is a soft and a hard limit.
type Rlimit struct {
	Soft, Hard uint64
}

// Limits are the rlimits of a service, keyed by the RLIMIT_ number of
// setrlimit(2), and those of a cgroup, for setrlimit(2) knows no memory,
// processes or CPU of several processes together. Zero: not limited by rlminit.
type Limits struct {
	Rlimits map[int]Rlimit
	Memory  int64   // bytes
	Pids    int64   // processes and threads
	CPU     float64 // cores
}

// Sandbox has the rights of a service beyond those of its user.
type Sandbox struct {
	Capabilities []string // CAP_NET_BIND_SERVICE and so on; root-owned configuration only
	NoNewPrivs   bool
}
