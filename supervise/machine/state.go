package machine

import "golang.org/x/sys/unix"

// Want is what somebody asked of the service: an intent, not an observation.
type Want string

// The wants. The zero value is WantDown.
const (
	WantDown Want = ""
	WantUp   Want = "up"
)

// Phase is the known state of the service's process. It is finer than the states
// that the status shows: see State.Public.
type Phase string

// The phases. The zero value is Stopped.
const (
	Stopped  Phase = ""         // no process, and none wanted
	Waiting  Phase = "waiting"  // wanted, but something that it requires is not up
	Backoff  Phase = "backoff"  // waits for the time of its next start
	Failed   Phase = "failed"   // given up; a timer may try again
	Exited   Phase = "exited"   // done by itself, and its policy leaves it at that
	Spawning Phase = "spawning" // a spawn was asked for and not answered yet
	Parked   Phase = "parked"   // the spawn is stuck in the kernel; still not answered
	Starting Phase = "starting" // alive, not ready yet
	Running  Phase = "running"  // alive and ready
	Stopping Phase = "stopping" // alive, and expected to end by a deadline
	Sweeping Phase = "sweeping" // the main process is gone, others that bear its tag are not
	Gone     Phase = "gone"     // its definition was removed and nothing is left: forget the State
)

// Phases lists every phase.
var Phases = []Phase{
	Stopped, Waiting, Backoff, Failed, Exited, Spawning, Parked,
	Starting, Running, Stopping, Sweeping, Gone,
}

// StopBy says why a live process is being stopped.
type StopBy string

// The reasons to stop a live process.
const (
	StopNone      StopBy = ""
	StopCommand   StopBy = "command"   // stop, restart, remove, or a changed definition
	StopNotReady  StopBy = "not-ready" // the ready timeout passed
	StopUnhealthy StopBy = "unhealthy"
	StopWatchdog  StopBy = "watchdog"
	StopSelf      StopBy = "self" // the service said STOPPING=1
)

// Verdict is the class of a run's end.
type Verdict string

// The verdicts.
const (
	VerdictNone    Verdict = ""
	VerdictSuccess Verdict = "success" // a code of exits.success
	VerdictRestart Verdict = "restart" // a code of exits.restart: restarted whatever the policy
	VerdictFatal   Verdict = "fatal"   // a code of exits.fatal: never restarted by itself
	VerdictFailure Verdict = "failure" // any other code, any signal, or we had to end it
)

// Health is the last result of the health check.
type Health string

// The results of health checks.
const (
	HealthUnknown Health = "" // no check, or not checked yet
	Healthy       Health = "healthy"
	Unhealthy     Health = "unhealthy" // as many failures in a row as the policy's retries
)

// Exit is how a main process ended. If Signal is not 0 it was killed by it and
// Code is 0. Lost means that the status is not known.
type Exit struct {
	Code   int         `json:"code"`
	Signal unix.Signal `json:"signal,omitempty"`
	Lost   bool        `json:"lost,omitempty"`
	Memory string      `json:"memory,omitempty"` // the kernel's evidence that memory was why
	Wall   int64       `json:"wall"`             // nanoseconds since 1970
}

// State is all that is known of one service. It is a value: another process can
// read it as JSON and go on from there.
// The zero State is a service that is stopped and not wanted.
type State struct {
	Want    Want  `json:"want"`
	Phase   Phase `json:"phase"`
	Removed bool  `json:"removed,omitempty"`  // ends in Gone, not in Stopped
	NoRetry bool  `json:"no_retry,omitempty"` // Failed for good, but for a command

	// Why the State is as it is: Reason for a person who reads the status,
	// Cause and Actor (a uid; null: rlminit itself) of the last transition.
	Reason string  `json:"reason,omitempty"`
	Cause  string  `json:"cause,omitempty"`
	Actor  *uint32 `json:"actor,omitempty"`
	Since  int64   `json:"since,omitempty"` // wall time of the last change of Public(), ns since 1970

	// Blocked says which dependency is not met; "" if all are.
	Blocked string `json:"blocked,omitempty"`

	Run

	LastID uint64 `json:"last_id,omitempty"` // the highest id ever used
	Text   string `json:"text,omitempty"`    // STATUS= of sd_notify(3), until the next run

	History

	Lease     Lease     `json:"lease,omitzero"`
	Deadlines Deadlines `json:"deadlines"`
	Timer     Timer     `json:"timer"`
}

// Lease is the fence and deadline of a service that needs one, as a start gave them last.
type Lease struct {
	Fence string `json:"fence"`
	At    int64  `json:"at"` // when tier 1 ends what runs under it, in nanoseconds of the events' clock
}

// Run is one spawn, from the request until its end was handled. Invariant: it is zero if
// the service is stopped or waits for its next run, but for Verdict and NeverReady in
// the phase Exited.
type Run struct {
	ID         uint64 `json:"id,omitempty"`      // 0: there is none, or its exit is acknowledged
	StartAgain bool   `json:"again,omitempty"`   // start again after this run, whatever its exit
	Probing    Probe  `json:"probing,omitempty"` // the probe that runs now

	Process

	// Its end.
	StopBy     StopBy      `json:"stop_by,omitempty"`
	StopReason string      `json:"stop_reason,omitempty"` // why the run is ending, then how it ended
	StopWithin int64       `json:"stop_within,omitempty"` // ns for this stop; 0: as the policy says
	Killed     bool        `json:"killed,omitempty"`      // SIGKILL was sent
	Verdict    Verdict     `json:"verdict,omitempty"`
	GoodRun    bool        `json:"good_run,omitempty"`    // the run was as long as reset_after
	NeverReady bool        `json:"never_ready,omitempty"` // it ended before it was ready, where the policy has a readiness check
	Leftovers  int         `json:"leftovers,omitempty"`
	SweepWith  unix.Signal `json:"sweep_with,omitempty"`
	SweepPause int64       `json:"sweep_pause,omitempty"` // ns until the next look
}

// Process is the main process of a run, and what that has reported. Invariant: it is
// zero once the process has ended.
type Process struct {
	PID         int    `json:"pid,omitempty"`
	StartTime   uint64 `json:"start_time,omitempty"`   // in clock ticks since boot, proc_pid_stat(5)
	StartedAt   int64  `json:"started_at,omitempty"`   // monotonic
	StartedWall int64  `json:"started_wall,omitempty"` // ns since 1970
	ReadyAt     int64  `json:"ready_at,omitempty"`     // monotonic; 0: not yet
	GoodAt      int64  `json:"good_at,omitempty"`      // monotonic; the last sign of health
	ReadyEarly  bool   `json:"ready_early,omitempty"`  // READY=1 came before the spawn's answer
	NotReady    string `json:"not_ready,omitempty"`    // the last result of the readiness probe
	Adopted     bool   `json:"adopted,omitempty"`      // a supervisor was replaced meanwhile, and may have missed READY=1
	StopMax     int64  `json:"stop_max,omitempty"`     // EXTEND_TIMEOUT_USEC= reaches no further; 0: no bound

	// Health.
	Health Health `json:"health,omitempty"`
	Fails  int    `json:"fails,omitempty"` // failed checks in a row

	// By sd_notify(3).
	MainPID       int   `json:"main_pid,omitempty"`    // MAINPID=; for show
	ReportedErrno int   `json:"told_errno,omitempty"`  // ERRNO=, until it is ready
	ReportedExit  *int  `json:"told_exit,omitempty"`   // EXIT_STATUS=
	Reloading     bool  `json:"reloading,omitempty"`   // RELOADING=1, until the next READY=1
	WatchdogNS    int64 `json:"watchdog_ns,omitempty"` // WATCHDOG_USEC=; 0: as the policy says
}

// Public is the state that status shows: stopped, waiting, starting, running,
// stopping, backoff, failed or exited.
func (s State) Public() string {
	switch s.Phase {
	case Stopped, Gone:
		return "stopped"
	case Spawning:
		if s.Want == WantDown {
			return "stopping"
		}
		return "starting"
	case Parked:
		return "failed"
	case Sweeping:
		return "stopping"
	}
	return string(s.Phase)
}

// Alive reports whether a main process is known to live.
func (s State) Alive() bool {
	return s.Phase == Starting || s.Phase == Running || s.Phase == Stopping
}

// asked reports whether a spawn was asked for, and not answered.
func (s *State) asked() bool { return s.Phase == Spawning || s.Phase == Parked }

// Satisfies reports whether what requires this service may start: a daemon must
// be running, a oneshot must have exited with success.
func (s State) Satisfies(p Policy) bool {
	if p.Oneshot {
		return s.Phase == Exited && s.Verdict == VerdictSuccess
	}
	return s.Phase == Running
}

// EndedBadly reports whether the service is down, or about to be, because its run was
// faulty. A run that a command ended was not.
func (s *State) EndedBadly() bool {
	bad := s.Verdict != VerdictSuccess || s.NeverReady
	switch s.Phase {
	case Backoff, Failed:
		return true
	case Exited:
		return bad
	case Stopping:
		return s.byUs()
	case Sweeping:
		return bad && s.StopBy != StopCommand
	}
	return false
}

// Settled reports whether the service will not change without an event from outside
// or the timer of a retry. Whoever waits for the outcome of a start or stop is
// answered then, and services that stop after this one wait no longer.
func (s State) Settled() bool {
	switch s.Phase {
	case Stopped, Gone, Running, Failed, Exited, Parked:
		return true
	}
	return false
}
