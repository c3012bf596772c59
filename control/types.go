// Package control is the language of the control socket: the requests, answers
// and problems that travel as JSON over HTTP on control.sock, and the client
// that speaks it.
//
// The server is in supervise. This package owns no state.
package control

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"rlminit/service"
)

// Service is one element of `status --json`. Absent values are null.
type Service struct {
	Name     string     `json:"name"`
	Profile  *string    `json:"profile"`
	Kind     *string    `json:"kind"`    // of its profile's gateway; null: it is no profile's
	Type     string     `json:"type"`    // daemon, oneshot
	State    string     `json:"state"`   // stopped, waiting, starting, running, stopping, backoff, failed, exited
	Desired  string     `json:"desired"` // running, stopped
	PID      *int       `json:"pid"`
	Ready    *bool      `json:"ready"`   // null: no probe
	Healthy  *bool      `json:"healthy"` // null: no check, or not checked yet
	Since    *time.Time `json:"since"`   // of the state
	UptimeS  *float64   `json:"uptime_s"`
	Restarts int        `json:"restarts"` // since rlminit started
	LastExit *Exit      `json:"last_exit"`
	Reason   *string    `json:"reason"`
	Port     *int       `json:"port"`
	Deadline *Deadline  `json:"deadline,omitempty"` // of its run; nil: it has none, or it has passed
	UID      *uint32    `json:"uid"`                // of its profile's own user; null: it has none, or none yet

	// Outdated: its process has older values than its definition or secrets have now, until
	// it is started again. OutdatedWhy says which.
	Outdated    bool   `json:"outdated"`
	OutdatedWhy string `json:"outdated_why,omitempty"`

	// Verdict says whether the service is well: ok, pending, ill or off. ReasonCode is the
	// reason, a word that never changes its meaning. Both are empty of a tier.
	Verdict    string `json:"verdict"`
	ReasonCode string `json:"reason_code"`
	Flapping   bool   `json:"flapping"`          // three restarts within ten minutes that nobody asked for
	Refused    string `json:"refused,omitempty"` // why its newest definition is not in force

	Schedule  *Schedule           `json:"schedule,omitempty"`
	Schedules map[string]Schedule `json:"schedules,omitempty"` // of the commands that are run beside it

	StatusText *string  `json:"status_text,omitempty"` // STATUS= of sd_notify(3)
	LastLines  []string `json:"last_lines,omitempty"`  // the end of a failed service's log

	LogLostBytes   uint64  `json:"log_lost_bytes,omitempty"`   // what its log could not keep
	LogUnsentLines *uint64 `json:"log_unsent_lines,omitempty"` // that the receiver does not have, for all that is known; nil: it is sent nowhere

	Usage *Usage `json:"usage,omitempty"` // of status --wide and show
}

// Deadline is when PID 1 ends a service, whatever happens to the supervisor or to whoever
// moves it on. Fence names whose run it is: a number or a word of at most 64 characters,
// which the service has as RLMINIT_FENCE.
type Deadline struct {
	Name  string    `json:"name,omitempty"` // of POST /v1/deadlines: the service, or its profile
	AtNS  int64     `json:"at_ns"`          // of CLOCK_BOOTTIME, clock_gettime(2)
	At    time.Time `json:"at,omitzero"`    // in answers: about when that is
	Fence string    `json:"fence"`
}

// Deadlines is the body of POST /v1/deadlines.
type Deadlines struct {
	Deadlines []Deadline `json:"deadlines"`
}

// Unmoved is a deadline that was not moved on, and why.
type Unmoved struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Prolonged is the answer of POST /v1/deadlines.
type Prolonged struct {
	Refused []Unmoved `json:"refused"`
}

// Definition is the answer of GET /v1/services/{name}/definition: what a service
// is run by, without its secrets.
type Definition struct {
	Service string          `json:"service"`
	Profile string          `json:"profile"` // whose gateway it is; "": of none
	Fault   string          `json:"fault"`   // why a newer definition is not in force; "": there is none
	Stored  *Stored         `json:"stored"`  // nil: it has no notify socket, and can store none
	Fields  []service.Field `json:"fields"`
	// NotInForce are fields that have no effect in this place, and why.
	NotInForce map[string]string `json:"not_in_force"`
	Files      []DefinitionFile  `json:"files"` // that it was read from; none: that is not known
	Edges      Edges             `json:"edges"`
}

// Stored is how many descriptors a service has stored, sd_pid_notify_with_fds(3), and
// how many it may.
type Stored struct {
	Count int `json:"count"`
	Most  int `json:"most"`
}

// DefinitionFile is a file of the configuration that a definition was read from.
type DefinitionFile struct {
	File  string `json:"file"`  // relative to the configuration's directory
	Sum   string `json:"sum"`   // SHA-256 of what it held then, in hexadecimal digits
	First int    `json:"first"` // the lines that are the definition's, both included; 0: none
	Last  int    `json:"last"`
}

// Edges are a service's dependencies, both ways.
type Edges struct {
	Requires   []string `json:"requires"`
	Wants      []string `json:"wants"`
	After      []string `json:"after"`
	RequiredBy []string `json:"required_by"`
	WantedBy   []string `json:"wanted_by"`
	Before     []string `json:"before"`
}

// NoEdges are those of a service that nothing depends on and that depends on nothing.
func NoEdges() Edges {
	return Edges{Requires: []string{}, Wants: []string{}, After: []string{}, RequiredBy: []string{}, WantedBy: []string{}, Before: []string{}}
}

// Add adds the dependencies of a service called name, as far as it
// is about the one called of: its own, or those that lead to it.
func (e *Edges) Add(of, name string, requires, wants, after []string) {
	if name == of {
		e.Requires, e.Wants, e.After = append(e.Requires, requires...), append(e.Wants, wants...), append(e.After, after...)
		return
	}
	for _, list := range []struct {
		to *[]string
		of []string
	}{{&e.RequiredBy, requires}, {&e.WantedBy, wants}, {&e.Before, after}} {
		if slices.Contains(list.of, of) {
			*list.to = append(*list.to, name)
		}
	}
}

// Dependencies is one element of GET /v1/dependencies: the dependencies of a service.
type Dependencies struct {
	Service  string   `json:"service"`
	Profile  string   `json:"profile"`
	State    string   `json:"state"`
	Requires []string `json:"requires"`
	Wants    []string `json:"wants"`
	After    []string `json:"after"`
}

// Usage is the resources of a service's processes, all together.
type Usage struct {
	MemoryBytes int64   `json:"memory_bytes"` // resident, shared pages in each; of a cgroup, its charge, less cache
	CPUS        float64 `json:"cpu_s"`        // seconds of CPU time
	Processes   int     `json:"processes"`
	Threads     int     `json:"threads"`

	Cgroup *CgroupUsage `json:"cgroup,omitempty"` // nil: it has no cgroup of its own, or is of no service
}

// CgroupUsage has the further figures of a service's cgroup.
type CgroupUsage struct {
	MemoryMax *int64   `json:"memory_max_bytes"` // null: no limit is in force
	Pressure  Pressure `json:"pressure"`
}

// Pressure is the share of the last ten seconds in which one of the processes
// waited for a resource, in per cent; -1 where that is not counted.
type Pressure struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	IO     float64 `json:"io"`
}

// Counts is the answer of GET /v1/metrics: what is counted beside the status of
// services, since the supervisor began.
type Counts struct {
	Journal  *JournalCounts  `json:"journal"`  // null: there is none
	Services []ServiceCounts `json:"services"` // those with counts
	Jobs     []JobCounts     `json:"jobs"`     // that have ended, since the supervisor began
}

// JobCounts is how many jobs of a kind have ended in a state.
type JobCounts struct {
	Kind  string `json:"kind"`  // run, write, undo, schedule, hook
	State string `json:"state"` // succeeded, failed, timed_out, refused, cancelled, interrupted
	Count uint64 `json:"count"`
}

// JournalCounts are the counters of the journal.
type JournalCounts struct {
	Records      uint64  `json:"records"` // appended
	Bytes        uint64  `json:"bytes"`   // of these
	Syncs        uint64  `json:"syncs"`
	SyncS        float64 `json:"sync_s"`        // of all these
	Refused      uint64  `json:"refused"`       // records that a command was told of that they cannot be appended
	Dropped      uint64  `json:"dropped"`       // records that nobody was told of
	Segments     uint64  `json:"segments"`      // begun
	SegmentBytes int64   `json:"segment_bytes"` // of the one that is written
}

// ServiceCounts is one service's.
type ServiceCounts struct {
	Service  string       `json:"service"`
	LogBytes uint64       `json:"log_bytes"` // that it has written to stdout and stderr
	Ready    *ProbeCounts `json:"ready"`     // null: it was not asked
	Health   *ProbeCounts `json:"health"`
}

// ProbeCounts are the counters of one probe.
type ProbeCounts struct {
	Asked  uint64  `json:"asked"`
	Failed uint64  `json:"failed"`
	TookS  float64 `json:"took_s"` // of all of them
	LastS  float64 `json:"last_s"` // of the latest
	Passed bool    `json:"passed"` // the latest
}

// Schedule is when a oneshot with a schedule runs.
type Schedule struct {
	Next      *time.Time `json:"next"`
	Last      *time.Time `json:"last"` // the last occurrence that was run; null: none
	LastJob   *string    `json:"last_job"`
	LastState *string    `json:"last_state"`        // of that job; null: it is not over
	NotRun    string     `json:"not_run,omitempty"` // why there is no next
}

// Exit tells how a process ended: a code, or a signal.
type Exit struct {
	Code   *int      `json:"code"`
	Signal *string   `json:"signal"` // TERM, KILL, …
	At     time.Time `json:"at"`
}

// Profile is one element of `profile list --json`.
type Profile struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind"`
	Dir         string            `json:"dir"`
	Profile     string            `json:"profile"` // the name
	Service     string            `json:"service"`
	Port        *int              `json:"port"`
	Desired     string            `json:"desired"`
	State       string            `json:"state"`
	Environment map[string]string `json:"environment"`
	Reason      *string           `json:"reason"`
	UID         *uint32           `json:"uid"`      // of its own user; null: it has none, or none yet
	Outdated    bool              `json:"outdated"` // its gateway runs with older values
}

// CreateProfile is the body of POST /v1/profiles.
type CreateProfile struct {
	Name        string            `json:"name"`
	Kind        string            `json:"kind,omitempty"`    // "": the default
	Command     []string          `json:"command,omitempty"` // where the kind has command: any
	Stopped     bool              `json:"stopped,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	Secrets     map[string]string `json:"secrets,omitempty"` // shown nowhere
	Port        int               `json:"port,omitempty"`
	PortAny     bool              `json:"port_any,omitempty"` // it need not be in gateway.ports
	ExistOK     bool              `json:"exist_ok,omitempty"`
	Restart     bool              `json:"restart,omitempty"` // with exist_ok: what runs with older values
	Clone       string            `json:"clone,omitempty"`   // the profile whose files it begins with
	Restore     string            `json:"restore,omitempty"` // an entry of the trash, or a profile whose newest is meant
	Claimed     bool              `json:"claimed,omitempty"` // only if its gateway runs only under a deadline
	Wait        *Wait             `json:"wait,omitempty"`
}

// ImportProfile says how an archive becomes a profile.
type ImportProfile struct {
	Name    string // "": that of the profile in the archive
	Stopped bool
	Wait    *Wait
}

// ProfileText is the answer of GET /v1/profiles/{name}/text: its profile.yaml.
type ProfileText struct {
	Text string `json:"text"` // "": there is none
	ID   string `json:"id"`   // of the profile: another one that has its name later has another
	Kind string `json:"kind"` // of its gateway
	Says string `json:"says"` // the kind's values of the keys that the file may have; "": there is no such kind

	Secrets []string `json:"secrets,omitempty"` // the names of the profile's secrets
}

// ReplaceProfile is the body of POST /v1/profiles/{name}/replace: a profile.yaml.
type ReplaceProfile struct {
	Text string  `json:"text"`
	Base *string `json:"base,omitempty"` // the text it was made from; null: any
	ID   *string `json:"id,omitempty"`   // of the profile that it was made for; null: whichever has the name
	// Claimed: only if its gateway runs only under a deadline, as it is and as it is to be.
	Claimed bool `json:"claimed,omitempty"`
	Restart bool `json:"restart,omitempty"` // what runs with the text before
}

// RenameProfile is the body of POST /v1/profiles/{name}/rename.
type RenameProfile struct {
	To   string `json:"to"`
	Wait *Wait  `json:"wait,omitempty"` // for the gateway, if it ran
}

// Trashed is one element of GET /v1/trash: a deleted profile.
type Trashed struct {
	Entry   string    `json:"entry"`
	Profile string    `json:"profile"`
	At      time.Time `json:"at"`

	Revision int  `json:"revision,omitempty"` // that has moved it there; absent: a person has
	Needed   bool `json:"needed,omitempty"`   // a rollback of that revision takes it
}

// AdoptProfile is the body of POST /v1/profiles/{name}/adopt.
type AdoptProfile struct {
	Wait *Wait `json:"wait,omitempty"` // for its gateway
}

// Repaired is the answer of POST /v1/profiles/{name}/repair.
type Repaired struct {
	Profile string   `json:"profile"`
	Changed int      `json:"changed"`        // how many files and directories have another owner now
	Left    []string `json:"left,omitempty"` // with several names, which keep theirs: the first of them
}

// SetProfile is the body of PATCH /v1/profiles/{name}: a null value removes
// the variable.
type SetProfile struct {
	Environment map[string]*string `json:"environment"`
	Secrets     map[string]string  `json:"secrets,omitempty"`      // beside those that it has; shown nowhere
	OnlyPresent bool               `json:"only_present,omitempty"` // a secret only if it has that already
	Restart     bool               `json:"restart,omitempty"`      // what runs with older values
	Wait        *Wait              `json:"wait,omitempty"`         // with Restart: for its gateway, if that is to run
}

// ProfileSet is its answer.
type ProfileSet struct {
	Profile
	Revision int `json:"revision"` // which rlminit rollback takes back; 0: there is none
}

// SetProfiles is the body of POST /v1/set: what some profiles are to have from their next
// start on.
type SetProfiles struct {
	Names       []string           `json:"names,omitempty"`       // of profiles, or patterns; none: all
	Kind        string             `json:"kind,omitempty"`        // only gateways of this kind
	Environment map[string]*string `json:"environment,omitempty"` // a null value removes the variable
	Secrets     map[string]string  `json:"secrets,omitempty"`     // beside those that they have; shown nowhere
	DryRun      bool               `json:"dry_run,omitempty"`

	OnlyPresent bool `json:"only_present,omitempty"` // a secret only for profiles that have it

	Restart  bool  `json:"restart,omitempty"` // what runs with older values is started again
	Rolling  int   `json:"rolling,omitempty"` // at most so many are out of service at once; 0: in one go
	SteadyMS int64 `json:"steady_ms,omitempty"`
}

// SetAnswer is its answer, when all of them have the new values.
type SetAnswer struct {
	Profiles  []string          `json:"profiles"`  // that were meant
	Changed   []string          `json:"changed"`   // that had other values
	Revision  int               `json:"revision"`  // which rlminit rollback takes back; 0: there is none
	Operation uint64            `json:"operation"` // that restarts them; 0: there is none
	Outdated  []OutdatedProfile `json:"outdated"`  // that still ran with older values then
	Plan      string            `json:"plan,omitempty"`
}

// OutdatedProfile is one that runs with older values.
type OutdatedProfile struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Wait asks that a request is answered when its outcome is known.
type Wait struct {
	TimeoutMS int64 `json:"timeout_ms,omitempty"` // 0: as long as it takes
}

// Operate is the body of POST /v1/services/{name}/start, stop and restart.
// The name "all" stands for every service.
type Operate struct {
	Wait    *Wait `json:"wait,omitempty"`
	Runtime bool  `json:"runtime,omitempty"` // stop: leave the intent as it is
	Failed  bool  `json:"failed,omitempty"`  // start: of "all", only those that failed

	Deadline *Deadline `json:"deadline,omitempty"` // start, of a service that needs one
	// Claimed: start or stop the gateway of the profile of that name, and nothing else that has
	// the name. It is refused unless that runs only under a deadline, which is looked at when
	// the command is carried out.
	Claimed bool `json:"claimed,omitempty"`

	// With "all": only these, which may be patterns, and only those in this state.
	Names []string `json:"names,omitempty"`
	State string   `json:"state,omitempty"`
	Kind  string   `json:"kind,omitempty"` // only gateways of this kind
}

// Outcome is the answer to an operation on one service. Problem is null where
// it succeeded.
type Outcome struct {
	Service Service  `json:"service"`
	Changed bool     `json:"changed"` // false: it was so already
	Problem *Problem `json:"problem"`
	Along   []string `json:"along,omitempty"` // services that were started, stopped or restarted with it
	Note    string   `json:"note,omitempty"`  // the lacks of a profile that was created; the remains of a stop

	// Left: the service is in the set, and the verb leaves it as it is, since it is stopped,
	// scheduled or disabled.
	Left string `json:"left,omitempty"`
}

// Left is a service of a set that a verb leaves as it is.
type Left struct {
	Name string `json:"name"` // as people call it
	Why  string `json:"why"`  // stopped, scheduled or disabled
}

// The reasons for which a verb leaves a service of a set as it is.
const (
	LeftStopped   = "stopped"
	LeftScheduled = "scheduled"
	LeftDisabled  = "disabled"
)

// Signal is the body of POST /v1/services/{name}/signal.
type Signal struct {
	Signal string `json:"signal"` // HUP, SIGHUP or 1
}

// WaitFor is the body of POST /v1/services/{name}/wait.
type WaitFor struct {
	For       string `json:"for"` // running, stopped
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// Reload is the body of POST /v1/reload.
type Reload struct {
	Names  []string `json:"names,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`

	Operation bool  `json:"operation,omitempty"` // all restarts and starts are one operation
	Rolling   int   `json:"rolling,omitempty"`   // and at most so many are out of service at once; 0: in one go
	SteadyMS  int64 `json:"steady_ms,omitempty"`
}

// Reloaded is its answer: one line for each thing that changed (or would).
type Reloaded struct {
	Changes []Change `json:"changes"`
	Notes   []string `json:"notes"` // changes that need a new container, or were refused

	Operation uint64 `json:"operation,omitempty"` // its id; 0: none was asked for, or nothing is restarted or started
}

// Change is one thing that a reload does.
type Change struct {
	Service string `json:"service"`
	Action  string `json:"action"` // add, remove, update, restart, start (it had failed or was in back-off), refuse
	Why     string `json:"why"`
}

// Refused tells whether the definition has a fault.
func (c Change) Refused() bool { return c.Action == "refuse" }

// Health is the answer of GET /v1/health.
type Health struct {
	OK      bool     `json:"ok"`
	Reasons []string `json:"reasons"`
	// Missing is why there may be profiles that nothing here shows: another container
	// has the volume, or it cannot be read; or are some whose names services have. It
	// is among the reasons too.
	Missing string `json:"missing,omitempty"`
	// Walls are those that the configuration asks for and that cannot be had here, a
	// sentence each.
	Walls []string `json:"walls,omitempty"`
	// Unsent is where logs cannot be sent on to now (log.forward), and why, a sentence each.
	Unsent []string `json:"unsent,omitempty"`

	Supervisor *Supervisor `json:"supervisor,omitempty"` // nil: a pure init, or one that does not say
}

// Supervisor is rlminit's two processes, by their ids in the
// PID namespace of the container.
type Supervisor struct {
	Name    string `json:"name"`     // rlminit
	Version string `json:"version"`  // devel: of no release
	PID     int    `json:"pid"`      // of the one that decides, and answers
	InitPID int    `json:"init_pid"` // of the one that reaps and starts; 1, unless another init began it
}

// Deleted is the answer of DELETE /v1/profiles/{name}.
type Deleted struct {
	Trash   string `json:"trash"`    // where the directory is now; "": nowhere
	LogLeft string `json:"log_left"` // the log that purge had to leave, behind a link; "": none

	Left []string `json:"left,omitempty"` // what purge could not remove of a profile that is gone

	Secrets   []string `json:"secrets,omitempty"`           // names of those that are kept until a purge
	Forgotten []string `json:"forgotten_secrets,omitempty"` // and of those that were removed
}

// Secret is one of a profile's secrets, without its value.
type Secret struct {
	Name    string    `json:"name"`
	Version int       `json:"version"` // of the profile's secrets, that brought its value
	At      time.Time `json:"at"`      // since when it has that
	UID     *uint32   `json:"uid"`     // of the caller that gave it; null: nobody knows
	InUse   bool      `json:"in_use"`  // the gateway runs, and began with it
}

// ForgetSecrets is the body of POST /v1/profiles/{name}/secrets/forget.
type ForgetSecrets struct {
	Names []string `json:"names"`
}

// ForgottenSecrets is its answer.
type ForgottenSecrets struct {
	Profile   string   `json:"profile"`
	Names     []string `json:"names"`
	Own       bool     `json:"own"`       // the profile had one of them
	Trash     []string `json:"trash"`     // entries that had one
	Revisions []int    `json:"revisions"` // and revisions
}

// Deletion says how a profile is deleted.
type Deletion struct {
	Purge         bool // its directory and its log are removed
	ForgetSecrets bool // so are its secrets, everywhere
}

// Purged is the answer of DELETE /v1/trash/{entry}.
type Purged struct {
	Left []string `json:"left,omitempty"` // what could not be removed of an entry that is gone
}

// Environment is the answer of GET /v1/environment/{profile}, and of GET
// /v1/environment for a command that belongs to no profile: how `rlminit exec`
// runs a command.
type Environment struct {
	Environment []string `json:"environment"` // NAME=value, complete
	UID         uint32   `json:"uid"`
	GID         uint32   `json:"gid"`
	Groups      []uint32 `json:"groups"` // supplementary, with the tag
	Dir         string   `json:"dir"`    // the definition's or the profile's; "": home if it can be entered, else /
	Home        string   `json:"home"`
}

// Event is one line of GET /v1/events.
type Event struct {
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	Boot    string    `json:"boot,omitempty"` // the start of the container
	Type    string    `json:"type,omitempty"` // "transition", or another record's; the keys below are a transition's
	Service string    `json:"service"`
	Profile string    `json:"profile,omitempty"` // whose gateway it is
	From    string    `json:"from"`
	To      string    `json:"to"`
	Cause   string    `json:"cause"`
	Actor   *uint32   `json:"actor"` // the uid that asked; null: rlminit itself
	PID     *int      `json:"pid"`

	// Raw is the whole line.
	Raw json.RawMessage `json:"-"`
}

// TypeBooted is the type of the record of a boot that is over, Booted.
const TypeBooted = "booted"

// Booted is the record of a supervisor that is ready.
type Booted struct {
	Generation int        `json:"generation"` // of the supervisor in this start of the container, from 1
	Services   int        `json:"services"`
	Steps      []BootStep `json:"steps"`
}

// BootStep is a step of a boot. MS is when it was over, in milliseconds: since
// PID 1 began, or of a supervisor that took over since it itself began.
type BootStep struct {
	Step string  `json:"step"`
	MS   float64 `json:"ms"`
}

// UnmarshalJSON reads a line of GET /v1/events. Of a record that is no transition
// it takes what every record has: the other keys may mean something else there.
func (e *Event) UnmarshalJSON(line []byte) error {
	type plain Event
	head := struct {
		Seq  uint64    `json:"seq"`
		At   time.Time `json:"at"`
		Boot string    `json:"boot"`
		Type string    `json:"type"`
	}{}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	if head.Type == "" || head.Type == "transition" {
		return json.Unmarshal(line, (*plain)(e))
	}
	*e = Event{Seq: head.Seq, At: head.At, Boot: head.Boot, Type: head.Type}
	return nil
}

// RecordTypes are the types that a record of the journal can have, as Event.Type
// has them; cmd/rlminit has the words for each.
var RecordTypes = []string{
	"apply_refused", "boot_begun", "boot_ended", "booted", "found", "gone", "hooks_set",
	"job_completed", "job_failed", "job_rolled_back", "job_started", "job_submitted", "job_validated",
	"notes_lost", "oom_outlived", "oom_seen", "operation", "operation_ended", "plan_proposed", "plan_refused", "plan_withdrawn",
	"profile_adopted", "profile_changed", "profile_created", "profile_deleted",
	"profile_purged", "profile_renamed", "profile_user", "revision_begun", "revision_ended",
	"revision_resumed", "revision_step", "revision_turned", "schedule_set", "schedule_skipped",
	"session_created", "session_ended", "session_extended", "snapshot", "threshold", "transition",
}

// CheckTypes refuses a request about records of a type that none can have.
func CheckTypes(types []string) error {
	for _, kind := range types {
		if !slices.Contains(RecordTypes, kind) {
			return NoneOf("no type of record", kind, RecordTypes, "there are "+strings.Join(RecordTypes, ", "))
		}
	}
	return nil
}

// EventQuery says which events are wanted. The zero value is all that are kept.
type EventQuery struct {
	Since, Until time.Time
	Types        []string // none: all
	Names        []string // of services or profiles; none: all
	Last         *int     // of those that there are, the last so many; nil: all
	After        uint64   // those of a higher seq: with it a reader goes on where it was; 0: all
	Follow       bool     // also those to come
}

// Problem is an RFC 9457 problem document. Detail is the line that a person
// reads, without the leading "rlminit: ".
type Problem struct {
	Type     string `json:"type"` // a URN: urn:rlminit:no-such-name
	Title    string `json:"title"`
	Status   int    `json:"status"` // HTTP
	Detail   string `json:"detail"`
	ExitCode int    `json:"exit_code"` // the exit code of the command
	// Retryable: the same request may succeed at another time, with nothing changed by
	// whoever makes it. False is no promise that it cannot.
	Retryable bool   `json:"retryable"`
	Job       string `json:"job,omitempty"` // the number under which a refused job is recorded
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Detail }
