// Package table is what the journal says of jobs and sessions: the records, and
// the state that follows from them, as a pure fold.
package table

import (
	"encoding/json"
	"time"

	"rlminit/job"
)

// The types of records. What they hold is below, with JSON's keys.
const (
	TypeSubmitted  = "job_submitted"
	TypeValidated  = "job_validated"
	TypeStarted    = "job_started"
	TypeCompleted  = "job_completed"
	TypeFailed     = "job_failed" // every outcome but success
	TypeRolledBack = "job_rolled_back"

	// TypeScheduled is a schedule that has come into force.
	TypeScheduled = "schedule_set"
	// TypeSkipped are occurrences of a schedule that are not run.
	TypeSkipped = "schedule_skipped"

	TypeSessionCreated  = "session_created"
	TypeSessionExtended = "session_extended"
	TypeSessionEnded    = "session_ended"
)

// Submitted is a job that somebody wants run: job_submitted. What it is run with,
// secrets included, is not in the journal but in a memfd that tier 1 holds.
type Submitted struct {
	Job       string          `json:"job"`
	Kind      string          `json:"kind"`
	Command   []string        `json:"command"`           // shortened to what a person needs, without secrets
	Profile   string          `json:"profile,omitempty"` // whose it is
	Service   string          `json:"service,omitempty"` // the same, where it is a service's of the configuration
	Session   string          `json:"session,omitempty"`
	Actor     *uint32         `json:"actor"` // null: rlminit itself
	TimeoutMS int64           `json:"timeout_ms"`
	Key       string          `json:"key,omitempty"`
	Digest    string          `json:"digest,omitempty"` // of the whole command, of one that has a key
	Again     json.RawMessage `json:"again,omitempty"`  // all that is needed to run it once more: with retry
	Redact    []string        `json:"redact,omitempty"` // with Again: the patterns that are masked in what it writes
	Attempt   int             `json:"attempt,omitempty"`
	Path      string          `json:"path,omitempty"`     // of a write: the file, below the profile's directory
	Occurs    *time.Time      `json:"occurs,omitempty"`   // of a schedule: the time that it is for
	Schedule  string          `json:"schedule,omitempty"` // the service that has it
	Hook      string          `json:"hook,omitempty"`     // whose it is
	Event     uint64          `json:"event,omitempty"`    // of a hook: the number of the record that it is told of; 0: a sample
	// TurnedAway says that it was refused before it was put in line.
	TurnedAway bool `json:"turned_away,omitempty"`
}

// Validated is a job that every guard let pass: job_validated.
type Validated struct {
	Job string `json:"job"`
}

// Started is a job whose program runs: job_started.
type Started struct {
	Job string `json:"job"`
	PID int    `json:"pid"`
}

// Ended is a job's outcome: job_completed, job_failed.
type Ended struct {
	Job      string          `json:"job"`
	Kind     string          `json:"kind,omitempty"`
	Profile  string          `json:"profile,omitempty"` // as in Submitted
	Service  string          `json:"service,omitempty"`
	State    job.Status      `json:"state"`
	ExitCode *int            `json:"exit_code"` // null: it did not exit by itself, or never ran
	TookMS   int64           `json:"took_ms"`
	Wrote    json.RawMessage `json:"wrote,omitempty"` // of a write: what undoing it needs
	Result   json.RawMessage `json:"result"`          // control.JobResult without its output
}

// RolledBack is a write that was undone: job_rolled_back.
type RolledBack struct {
	Job string `json:"job"`
	By  string `json:"by"` // the job that did it
}

// Skipped are occurrences of a schedule that are not run: schedule_skipped.
type Skipped struct {
	Schedule string     `json:"schedule"`         // the service
	Occurs   *time.Time `json:"occurs,omitempty"` // the last of them; absent where a later one is run
	Count    int        `json:"count"`
	Cause    string     `json:"cause"`
}

// TypeOf is the type of an outcome's record.
func TypeOf(s job.Status) string {
	if s == job.Succeeded {
		return TypeCompleted
	}
	return TypeFailed
}

// Session is a set of jobs with a directory and a budget: session_created.
type Session struct {
	Session string  `json:"session"`
	Key     string  `json:"key,omitempty"`
	Profile string  `json:"profile,omitempty"` // whose it is
	Service string  `json:"service,omitempty"` // the same, where it is a service's of the configuration
	Dir     string  `json:"dir"`
	Actor   *uint32 `json:"actor"`
	TTLMS   int64   `json:"ttl_ms"`
	JobsMax int     `json:"jobs_max"`
	TimeMS  int64   `json:"time_ms"` // that all its jobs may take together
}

// SessionExtended gives a session another time to live: session_extended.
type SessionExtended struct {
	Session string `json:"session"`
	TTLMS   int64  `json:"ttl_ms"` // from the time of the record
}

// SessionEnded ends one: session_ended.
type SessionEnded struct {
	Session string `json:"session"`
	Cause   string `json:"cause"`
}

// Scheduled is a schedule that has come into force, or changed: schedule_set. Without
// Cron it is in force no more.
type Scheduled struct {
	Schedule string `json:"schedule"` // the service
	Cron     string `json:"cron"`
	Timezone string `json:"timezone,omitempty"`
}
