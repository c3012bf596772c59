package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/job/table"
	"rlminit/wire"
)

// spec is what a job is to do. Invariant: once it is written down it stays as it is,
// so that a successor, who reads it, goes on with the same job.
type spec struct {
	ID        string         `json:"id"` // "": it has none yet
	Kind      string         `json:"kind"`
	Actor     *uint32        `json:"actor"`
	Request   control.RunJob `json:"request"`
	Argv      []string       `json:"argv,omitempty"` // what is executed, in place of the request's command; nil: that
	Submitted time.Time      `json:"submitted"`
	Stdin     bool           `json:"stdin"`             // goes along with it
	Redact    []string       `json:"redact,omitempty"`  // patterns that are masked in what it writes
	Shown     []string       `json:"shown,omitempty"`   // its command as others see it; nil: of an older version
	Secrets   []string       `json:"secrets,omitempty"` // values that are masked in what is shown of it
	Attempt   int            `json:"attempt,omitempty"`
	Occurs    *time.Time     `json:"occurs,omitempty"`   // of a schedule: the time that it is for
	Schedule  string         `json:"schedule,omitempty"` // the service that has it
	Hook      string         `json:"hook,omitempty"`     // whose it is
	Event     uint64         `json:"event,omitempty"`    // of a hook: the number of the record that it is told of
	About     string         `json:"about,omitempty"`    // of a hook: the profile or service that the record is of

	Again  json.RawMessage `json:"-"` // what it is run by once more, as it was recorded
	Path   string          `json:"-"` // of a write
	Digest string          `json:"-"` // as it was recorded; "": the request has the whole command
}

// mostSpec bounds one that is read, in bytes.
const mostSpec = 64 << 20

func (s *spec) name() string { return namePrefix + s.ID }

// shown is its command as it is recorded and listed.
func (s *spec) shown() []string {
	if s.Shown != nil {
		return s.Shown
	}
	return shortened(s.masks(), s.Request.Command)
}

// masks takes its secrets out of what is shown.
func (s *spec) masks() redact.Set { return redact.NewSet(s.Secrets...) }

// submission is the record of a job that somebody wants run.
func (s *spec) submission() table.Submitted {
	q := &s.Request
	record := table.Submitted{
		Job: s.ID, Kind: s.Kind, Command: s.shown(), Profile: q.Profile, Service: q.Service, Session: q.Session,
		Actor: s.Actor, TimeoutMS: q.TimeoutMS, Key: q.Key, Again: s.Again, Attempt: s.Attempt, Occurs: s.Occurs, Schedule: s.Schedule, Path: s.Path, Digest: s.Digest, Hook: s.Hook, Event: s.Event,
	}
	if q.Key != "" && record.Digest == "" { // of the whole command: Command is shortened, and without secrets
		record.Digest = digest(q.Command)
	}
	if q.Retry && s.Again == nil {
		record.Again, _ = json.Marshal(q) // of strings and numbers
	}
	if record.Again != nil {
		record.Redact = s.Redact
	}
	return record
}

// digest tells one command from another, however long they are.
func digest(argv []string) string {
	sum := sha256.Sum256([]byte(strings.Join(argv, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// held are the descriptors that a job has before it has a process, -1 for none. Tier 1
// has them too.
type held struct {
	spec  int // a memfd
	stdin int
}

// write puts a spec where a successor finds it.
func (h *held) write(s *spec) error {
	s.Stdin = h.stdin >= 0
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	h.spec, err = wire.Sealed("rlminit-spec", content)
	return err
}

// closeStdin closes the stdin of a job that does not begin.
func (h *held) closeStdin() {
	if h.stdin >= 0 {
		closeFD(h.stdin)
		h.stdin = -1
	}
}

// take are those that there are, which are the caller's now.
func (h *held) take() (fds []int) {
	for _, fd := range []int{h.spec, h.stdin} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	h.spec, h.stdin = -1, -1
	return fds
}
