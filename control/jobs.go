package control

import (
	"fmt"
	"time"

	"rlminit/isolate"
)

// The defaults of a job, and its bounds.
const (
	DefaultJobTimeout = 30 * time.Second
	MostJobTimeout    = 7 * 24 * time.Hour
	DefaultJobOutput  = 64 << 10 // bytes of each stream in the result
	MostJobOutput     = 16 << 20
	MostJobArguments  = 1 << 20 // bytes of the command and its environment
)

// RunJob is the body of POST /v1/jobs.
type RunJob struct {
	Command     []string          `json:"command"`
	Profile     string            `json:"profile,omitempty"` // the owner; a name that no profile has may be a service's
	Service     string            `json:"service,omitempty"` // the same, of a service alone
	Session     string            `json:"session,omitempty"`
	Dir         string            `json:"dir,omitempty"`         // where it starts; relative to the profile's or session's
	Environment map[string]string `json:"environment,omitempty"` // beside the profile's
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`  // 0: DefaultJobTimeout
	MaxOutput   int64             `json:"max_output,omitempty"`  // bytes of each stream in the result; 0: DefaultJobOutput
	Stdin       string            `json:"stdin,omitempty"`       // its input; nothing where it is absent
	// Descriptor says that one came with the request's first byte, SCM_RIGHTS of
	// unix(7): it is the job's stdin itself.
	Descriptor bool `json:"descriptor,omitempty"`

	Isolation         string            `json:"isolation,omitempty"` // none, profile, strict; "": as the profile has it
	IsolationFallback bool              `json:"isolation_fallback,omitempty"`
	Limits            map[string]string `json:"limits,omitempty"`

	DryRun bool `json:"dry_run,omitempty"`
	Detach bool `json:"detach,omitempty"` // goes on when nobody has asked for it for 5 s
	Retry  bool `json:"retry,omitempty"`  // run it again if the container ended before it did
	// Key makes a request that is sent twice one job.
	Key string `json:"key,omitempty"`
}

// JobResult is what came of a job: `run --json`.
type JobResult struct {
	Job             string           `json:"job"`
	State           string           `json:"state"`
	Record          *uint64          `json:"record"` // the number of that of its outcome in the journal; null: it is in none
	Stdout          string           `json:"stdout"`
	Stderr          string           `json:"stderr"`
	StdoutBase64    []byte           `json:"stdout_base64,omitempty"` // in place of stdout where that is no UTF-8
	StderrBase64    []byte           `json:"stderr_base64,omitempty"`
	ExitCode        *int             `json:"exit_code"` // null: it did not exit by itself, or never ran
	Signal          *string          `json:"signal"`    // TERM, KILL, …
	TimedOut        bool             `json:"timed_out"`
	Cancelled       bool             `json:"cancelled"`
	ExecutionTimeMS int64            `json:"execution_time_ms"`
	OutputTruncated bool             `json:"output_truncated"`
	OutputFilePath  *string          `json:"output_file_path"` // all of a stream that was truncated
	TelemetryBefore *Telemetry       `json:"telemetry_before"`
	TelemetryAfter  *Telemetry       `json:"telemetry_after"`
	Spawned         int              `json:"spawned"`     // known processes: itself, and those that it left
	LeftBehind      []LeftBehind     `json:"left_behind"` // what still ran at its end, and was ended then
	Isolation       string           `json:"isolation"`   // in force
	Tried           []IsolationTried `json:"tried"`       // limits that were asked for and cannot be had here
	Refused         *string          `json:"refused"`     // which guard, and its figure
	Error           *string          `json:"error"`       // why it did not run, or what went wrong beside it
}

// LeftBehind is a process that a job left.
type LeftBehind struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// IsolationTried is an isolation or a limit that was asked for, and why it is not
// in force, or how much of it is.
type IsolationTried struct {
	Isolation string `json:"isolation"`
	Limit     string `json:"limit,omitempty"`
	Error     string `json:"error"`
}

// Telemetry is how the container is doing. Absent values could not be read.
type Telemetry struct {
	At             time.Time  `json:"at"`
	Load           [3]float64 `json:"load"`
	CPUPressure    *float64   `json:"cpu_pressure"` // per cent of the last 10 s with a process that waited
	MemoryPressure *float64   `json:"memory_pressure"`
	MemoryUsed     int64      `json:"memory_used"`  // bytes
	MemoryLimit    int64      `json:"memory_limit"` // the container's, or the machine's
	DiskUsed       int64      `json:"disk_used"`    // of the volume's file system
	DiskSize       int64      `json:"disk_size"`
	Processes      int        `json:"processes"`
	Zombies        int        `json:"zombies"`
}

// Why is why a job has failed, in words.
func (r *JobResult) Why() string {
	switch {
	case r.Refused != nil:
		return "refused: " + *r.Refused
	case r.TimedOut:
		return "it had not ended by its deadline"
	case r.Error != nil:
		return *r.Error
	case r.Signal != nil:
		return "killed by " + *r.Signal
	case r.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *r.ExitCode)
	}
	return r.State
}

// Job is one element of `job list --json`, and `job show --json` with its result.
type Job struct {
	Job       string     `json:"job"`
	State     string     `json:"state"`
	Kind      string     `json:"kind"` // run, write, undo, schedule, hook
	Command   []string   `json:"command"`
	Profile   *string    `json:"profile"` // whose it is
	Service   *string    `json:"service"` // the same, where it is a service's
	Session   *string    `json:"session"`
	Actor     *uint32    `json:"actor"` // the uid that asked; null: rlminit itself
	Submitted time.Time  `json:"submitted"`
	Started   *time.Time `json:"started"`
	Ended     *time.Time `json:"ended"`
	PID       *int       `json:"pid"`
	TimeoutMS int64      `json:"timeout_ms"`
	Result    *JobResult `json:"result,omitempty"` // of one that is over
}

// DryRun is what POST /v1/jobs answers with dry_run.
type DryRun struct {
	Command     []string         `json:"command"`
	Program     string           `json:"program"` // the file that would be executed
	UID         uint32           `json:"uid"`
	GID         uint32           `json:"gid"`
	Groups      []uint32         `json:"groups"`
	Dir         string           `json:"dir"`
	Environment []string         `json:"environment"` // names alone where a value may be a secret
	TimeoutMS   int64            `json:"timeout_ms"`
	Isolation   string           `json:"isolation"`
	Tried       []IsolationTried `json:"tried"`
	Waiting     int              `json:"waiting"` // jobs before it in the queue
	Refused     *string          `json:"refused"` // which guard would refuse it, and its figure
	Error       *string          `json:"error"`   // why it could not be run
	Telemetry   *Telemetry       `json:"telemetry"`
}

// JobOutput is one line of GET /v1/jobs/{id}/output: the job's id, a piece of a
// stream, or the result, which is the last.
type JobOutput struct {
	Job    string     `json:"job,omitempty"`
	Stream string     `json:"stream,omitempty"` // stdout, stderr
	Offset int64      `json:"offset,omitempty"` // of the piece in the stream
	Text   string     `json:"text,omitempty"`
	Base64 []byte     `json:"base64,omitempty"` // in place of text where that is no UTF-8
	Lost   int64      `json:"lost,omitempty"`   // so many bytes before this piece are kept nowhere
	Result *JobResult `json:"result,omitempty"`
}

// Bytes is the content of the piece.
func (o *JobOutput) Bytes() []byte {
	if o.Base64 != nil {
		return o.Base64
	}
	return []byte(o.Text)
}

// Capabilities is the answer of GET /v1/capabilities.
type Capabilities struct {
	Tags       bool                `json:"tags"`       // a job's processes are known whatever they do; else by session and group
	Isolations map[string]Enforced `json:"isolations"` // none, profile, strict
	// Kernel is what of isolation the kernel and the container engine allow.
	Kernel isolate.Capabilities `json:"kernel"`
	Limits map[string]Enforced  `json:"limits"` // of jobs: memory, pids, cpu, and those of setrlimit(2)
	// ServiceLimits are memory, pids and cpu of services.
	ServiceLimits map[string]Enforced `json:"service_limits"`
	// Guards are the keys of jobs.guards.
	Guards map[string]Enforced `json:"guards"`
	// ProfileUsers tells whether profiles can have users of their own: gateway.user.
	ProfileUsers Enforced `json:"profile_users"`
}

// Enforced tells whether something is in force here, and if not, or not wholly, why.
type Enforced struct {
	Enforced bool   `json:"enforced"`
	Why      string `json:"why,omitempty"`
}
