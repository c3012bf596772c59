package table

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"rlminit/job"
	"rlminit/journal/places"
)

// Bounds of what is remembered of what is over.
const (
	mostOver         = 1000
	mostTurnedAway   = 100 // so that they do not drive out what was run
	mostOverSessions = 100
)

// Table is what the records say of jobs and sessions: a pure fold. It forgets
// the oldest of those that are over.
type Table struct {
	Last        uint64                   `json:"last"` // the highest number that was given
	LastSession uint64                   `json:"last_session"`
	Jobs        map[string]*Entry        `json:"jobs"`
	Sessions    map[string]*SessionEntry `json:"sessions"`
	Schedules   map[string]*Schedule     `json:"schedules"` // by service
	Over        []string                 `json:"over"`      // jobs that are, the oldest first
	TurnedAway  []string                 `json:"turned_away,omitempty"`
	Hooks       Hooked                   `json:"hooks"`

	// The newest job of each key, but for those that were refused: follows from Jobs.
	keys map[string]string
}

// Entry is what the records say of a job.
type Entry struct {
	Submitted
	At         time.Time       `json:"submitted"`
	Boot       string          `json:"boot"`
	Started    *time.Time      `json:"started,omitempty"`
	PID        int             `json:"pid,omitempty"`
	Passed     bool            `json:"passed,omitempty"` // the guards
	Ended      *time.Time      `json:"ended,omitempty"`
	State      job.Status      `json:"state,omitempty"` // once it is over
	Result     json.RawMessage `json:"result,omitempty"`
	Record     uint64          `json:"record,omitempty"` // the number of that of its outcome
	Wrote      json.RawMessage `json:"wrote,omitempty"`
	RolledBack string          `json:"rolled_back,omitempty"` // by which job
	In         places.Place    `json:"in,omitempty"`          // where its profile's directory is now; "": where it was
}

// SessionEntry is what the records say of a session.
type SessionEntry struct {
	Session
	At       time.Time  `json:"created"`
	Boot     string     `json:"boot"`
	Until    time.Time  `json:"until"`
	Extended int        `json:"extended,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	Cause    string     `json:"cause,omitempty"`
	Jobs     int        `json:"jobs_run"`
	TookMS   int64      `json:"took_ms"` // of those that are over
}

// Schedule is what the records say of a service's schedule.
type Schedule struct {
	Cron     string    `json:"cron"`
	Timezone string    `json:"timezone,omitempty"`
	Since    time.Time `json:"since"` // it is in force
	Last     time.Time `json:"last"`  // occurrence that was run; zero: none
	Dealt    time.Time `json:"dealt"` // the last that was skipped or run; zero: none
	Job      string    `json:"job,omitempty"`
	State    string    `json:"-"`
}

// New knows of nothing.
func New() *Table {
	return &Table{Jobs: map[string]*Entry{}, Sessions: map[string]*SessionEntry{}, Schedules: map[string]*Schedule{}, keys: map[string]string{}}
}

// Record is one record, as the journal has it.
type Record struct {
	Seq  uint64
	Type string
	At   time.Time
	Boot string
	Line []byte // its keys, as JSON
}

// Apply takes a record. One of another type, or that makes no sense, changes
// nothing.
func (h *Table) Apply(r Record) {
	h.Hooks.apply(r)
	switch r.Type {
	case TypeSubmitted:
		with(r, func(s *Submitted) { h.submitted(r, s) })
	case TypeValidated:
		with(r, func(v *Validated) { h.open(v.Job, func(e *Entry) { e.Passed = true }) })
	case TypeStarted:
		with(r, func(s *Started) {
			h.open(s.Job, func(e *Entry) { e.Started, e.PID, e.Passed = &r.At, s.PID, true })
		})
	case TypeCompleted, TypeFailed:
		with(r, func(end *Ended) {
			h.open(end.Job, func(e *Entry) {
				e.State, e.Ended, e.Result, e.Record, e.Wrote, e.Again = end.State, &r.At, end.Result, r.Seq, end.Wrote, nil
				if in := h.Sessions[e.Session]; in != nil {
					in.TookMS += end.TookMS
				}
				h.over(e)
			})
		})
	case TypeRolledBack:
		with(r, func(b *RolledBack) {
			if e := h.Jobs[b.Job]; e != nil && e.State == job.Succeeded {
				e.State, e.RolledBack = job.UndoneAs, b.By
			}
		})
	case TypeScheduled:
		with(r, func(s *Scheduled) { h.scheduled(r, s) })
	case TypeSkipped:
		with(r, func(s *Skipped) {
			if e := h.Schedules[s.Schedule]; e != nil && s.Occurs != nil && s.Occurs.After(e.Dealt) {
				e.Dealt = *s.Occurs
			}
		})
	case TypeSessionCreated:
		with(r, func(s *Session) { h.created(r, s) })
	case TypeSessionExtended:
		with(r, func(x *SessionExtended) {
			if s := h.Sessions[x.Session]; s != nil && s.Ended == nil {
				s.Until = r.At.Add(time.Duration(x.TTLMS) * time.Millisecond)
				s.Extended++
			}
		})
	case TypeSessionEnded:
		with(r, func(x *SessionEnded) {
			if s := h.Sessions[x.Session]; s != nil && s.Ended == nil {
				s.Ended, s.Cause = &r.At, x.Cause
				h.forgetSessions()
			}
		})
	}
}

func with[T any](r Record, f func(*T)) {
	v := new(T)
	if json.Unmarshal(r.Line, v) == nil {
		f(v)
	}
}

func (h *Table) submitted(r Record, s *Submitted) {
	n := job.Number(s.Job)
	before := h.Jobs[s.Job]
	if n == 0 || before != nil && s.Attempt <= before.Attempt {
		return // twice
	}
	h.Last = max(h.Last, n)
	if s.Service == "" && s.Schedule != "" && s.Profile == s.Schedule { // as it was written before they were told apart
		s.Profile, s.Service = "", s.Schedule
	}
	at := r.At
	if before != nil { // it is run once more, and was asked for then
		at = before.At
	}
	h.Jobs[s.Job] = &Entry{Submitted: *s, At: at, Boot: r.Boot}
	h.Hooks.told(r, s)
	h.keyed(h.Jobs[s.Job])
	if e := h.Sessions[s.Session]; e != nil && !s.TurnedAway {
		e.Jobs++
	}
	if e := h.Schedules[s.Schedule]; e != nil && s.Occurs != nil && s.Occurs.After(e.Last) {
		e.Last, e.Job = *s.Occurs, s.Job
		if e.Last.After(e.Dealt) {
			e.Dealt = e.Last
		}
	}
}

// mostSchedules bounds what is remembered of services that are no more.
const mostSchedules = 10000

func (h *Table) scheduled(r Record, s *Scheduled) {
	e := h.Schedules[s.Schedule]
	if e == nil {
		if len(h.Schedules) >= mostSchedules {
			return
		}
		e = new(Schedule)
		h.Schedules[s.Schedule] = e
	}
	e.Cron, e.Timezone, e.Since = s.Cron, s.Timezone, r.At
}

// open changes a job that is not over.
func (h *Table) open(job string, change func(*Entry)) {
	if e := h.Jobs[job]; e != nil && e.State == "" {
		change(e)
	}
}

// keyed notes whose the key of a job is.
func (h *Table) keyed(e *Entry) {
	if e.Key != "" && !e.TurnedAway && job.Compare(h.keys[e.Key], e.Job) < 0 {
		h.keys[e.Key] = e.Job
	}
}

// Keyed is the job that was submitted under a key, as long as it is remembered; nil: there
// is none. One that was refused was not run, and does not count; neither does a write into
// a profile that is not there under its name any more.
func (h *Table) Keyed(key string) *Entry {
	if e := h.Jobs[h.keys[key]]; e != nil && e.State != job.RefusedAs && !e.hasMoved() {
		return e
	}
	return nil
}

// over puts a job among those that are over, and forgets the oldest of them.
func (h *Table) over(e *Entry) {
	list, most := &h.Over, mostOver
	if e.TurnedAway {
		list, most = &h.TurnedAway, mostTurnedAway
	}
	*list = append(*list, e.Job)
	for len(*list) > most {
		if old := h.Jobs[(*list)[0]]; old != nil && h.keys[old.Key] == old.Job {
			delete(h.keys, old.Key)
		}
		delete(h.Jobs, (*list)[0])
		*list = (*list)[1:]
	}
}

func (h *Table) created(r Record, s *Session) {
	n := job.Number(s.Session)
	if n == 0 || h.Sessions[s.Session] != nil {
		return
	}
	h.LastSession = max(h.LastSession, n)
	h.Sessions[s.Session] = &SessionEntry{
		Session: *s, At: r.At, Boot: r.Boot,
		Until: r.At.Add(time.Duration(s.TTLMS) * time.Millisecond),
	}
}

func (h *Table) forgetSessions() {
	var over []*SessionEntry
	for _, s := range h.Sessions {
		if s.Ended != nil {
			over = append(over, s)
		}
	}
	slices.SortFunc(over, func(a, b *SessionEntry) int { return a.Ended.Compare(*b.Ended) })
	for len(over) > mostOverSessions {
		delete(h.Sessions, over[0].Session.Session)
		over = over[1:]
	}
}

// Unfinished are the jobs without an outcome, the oldest first.
func (h *Table) Unfinished() []*Entry {
	var all []*Entry
	for _, e := range h.Jobs {
		if e.State == "" {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *Entry) int { return job.Compare(a.Job, b.Job) })
	return all
}

// All are the jobs that are remembered, the oldest first.
func (h *Table) All() []*Entry {
	return slices.SortedFunc(maps.Values(h.Jobs), func(a, b *Entry) int { return job.Compare(a.Job, b.Job) })
}

// Restore takes what was marshalled of a Table.
func (h *Table) Restore(section []byte) error {
	n := New()
	if err := json.Unmarshal(section, n); err != nil {
		return err
	}
	for id, e := range n.Jobs {
		if e == nil || e.Job != id {
			return errors.New("a job's number is not that of its entry")
		}
		n.keyed(e)
	}
	for id, s := range n.Sessions {
		if s == nil || s.Session.Session != id {
			return errors.New("a session's number is not that of its entry")
		}
	}
	*h = *n
	return nil
}
