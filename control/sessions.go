package control

import "time"

// The defaults of a session, and its bounds.
const (
	DefaultSessionTTL  = 30 * time.Minute
	MostSessionTTL     = 24 * time.Hour
	DefaultSessionJobs = 1000
	MostExtensions     = 3
)

// CreateSession is the body of POST /v1/sessions.
type CreateSession struct {
	Key     string `json:"key,omitempty"` // one session for all requests with it
	Profile string `json:"profile,omitempty"`
	TTLMS   int64  `json:"ttl_ms,omitempty"`  // 0: DefaultSessionTTL
	Jobs    int    `json:"jobs,omitempty"`    // how many it may run; 0: DefaultSessionJobs
	TimeMS  int64  `json:"time_ms,omitempty"` // that they may take together; 0: no bound
}

// ExtendSession is the body of POST /v1/sessions/{id}/extend.
type ExtendSession struct {
	TTLMS int64 `json:"ttl_ms,omitempty"` // from now; 0: the time it was created with
}

// Session is a set of jobs with a directory and a budget.
type Session struct {
	Session string     `json:"session"`
	Key     *string    `json:"key"`
	State   string     `json:"state"`   // open, ending, ended
	Profile *string    `json:"profile"` // whose it is
	Service *string    `json:"service"` // the same, where it is a service's
	Dir     string     `json:"dir"`
	Actor   *uint32    `json:"actor"`
	Created time.Time  `json:"created"`
	Until   time.Time  `json:"until"`
	Extends int        `json:"extensions_left"`
	Jobs    int        `json:"jobs"` // that it has run, or runs
	JobsMax int        `json:"jobs_max"`
	TookMS  int64      `json:"took_ms"`
	TimeMS  int64      `json:"time_ms"` // 0: no bound
	Ended   *time.Time `json:"ended"`
	Cause   *string    `json:"cause"` // of its end
}

// WriteFile is the body of POST /v1/files, whose content is a text, or comes from a
// descriptor as a job's stdin does.
type WriteFile struct {
	Profile    string `json:"profile,omitempty"`
	Path       string `json:"path"` // below the profile's directory
	Content    string `json:"content,omitempty"`
	Descriptor bool   `json:"descriptor,omitempty"`
	Parents    bool   `json:"parents,omitempty"` // make the directories above it that are missing
	Key        string `json:"key,omitempty"`
}

// ReadFile is the body of POST /v1/files/read.
type ReadFile struct {
	Profile string `json:"profile,omitempty"`
	Path    string `json:"path"`
}
