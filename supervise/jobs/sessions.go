package jobs

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/job"
	"rlminit/job/history"
	"rlminit/supervise/api"
)

// session is one that is not over. What is recorded of it is in the history; this
// is the rest, the runner's goroutine's alone.
type session struct {
	id, key string
	book    *book // where it is recorded
	profile string
	dir     string
	made    chan struct{} // closed when its directory is there, or cannot be
	failure error         // why not; set before made is closed
	ending  chan struct{} // closed when it has ended; nil: it is not on its way
	endErr  error
	expiry  *time.Timer
	epoch   uint
}

// SessionsDir is where the directories of sessions lie, below the profile's.
const SessionsDir = ".rlminit-sessions"

func (r *Runner) addSessions(server *api.Server) {
	server.Handle("POST /v1/sessions", api.MayCommand, func(q *http.Request) (any, error) {
		var body control.CreateSession
		if err := api.Decode(q, &body); err != nil {
			return nil, err
		}
		return r.CreateSession(body, api.Actor(q))
	})
	server.Handle("GET /v1/sessions", api.MayCommand, func(*http.Request) (any, error) { return r.Sessions(), nil })
	server.Handle("GET /v1/sessions/{id}", api.MayCommand, func(q *http.Request) (any, error) { return r.Session(q.PathValue("id")) })
	server.Handle("POST /v1/sessions/{id}/extend", api.MayCommand, func(q *http.Request) (any, error) {
		var body control.ExtendSession
		if err := api.Decode(q, &body); err != nil {
			return nil, err
		}
		return r.ExtendSession(q.PathValue("id"), body)
	})
	server.Handle("DELETE /v1/sessions/{id}", api.MayCommand, func(q *http.Request) (any, error) {
		if err := r.EndSession(q.PathValue("id"), "by rlminit session end"); err != nil {
			return nil, err
		}
		return r.Session(q.PathValue("id"))
	})
}

// CreateSession makes a session, or finds the one that is open under the key.
func (r *Runner) CreateSession(c control.CreateSession, actor uint32) (control.Session, error) {
	if c.TTLMS == 0 {
		c.TTLMS = control.DefaultSessionTTL.Milliseconds()
	}
	if c.Jobs == 0 {
		c.Jobs = control.DefaultSessionJobs
	}
	switch {
	case c.TTLMS < 0 || c.TTLMS > control.MostSessionTTL.Milliseconds():
		return control.Session{}, control.BadRequest("the time to live may be above 0 and up to %s", control.MostSessionTTL)
	case c.Jobs < 0 || c.TimeMS < 0:
		return control.Session{}, control.BadRequest("the bounds of a session must be above 0")
	case len(c.Key) > 256 || strings.ContainsFunc(c.Key, func(r rune) bool { return r < ' ' }):
		return control.Session{}, control.BadRequest("a key has at most 256 bytes, and no control characters")
	}
	if err := r.named(&c.Profile); err != nil {
		return control.Session{}, err
	}
	who, err := r.host.Environment(c.Profile)
	if err != nil {
		return control.Session{}, err
	}
	base := who.Dir
	if base == "" {
		base = who.Home
	}
	var s *session
	var failure error
	fresh := false
	r.ask(func() {
		if s = r.sessionOf(c.Key); s != nil {
			if s.profile != c.Profile {
				failure = control.Conflict("session %s has the key %q, and is another profile's", s.id, c.Key)
			}
			return
		}
		if r.stopping || !r.started {
			failure = control.Refused("the container is stopping: no session is opened any more")
			return
		}
		if failure = r.vacant(c.Profile); failure != nil {
			return
		}
		b := r.book()
		id := b.nextSession()
		s = &session{id: id, book: b, key: c.Key, profile: c.Profile, dir: filepath.Join(base, SessionsDir, id), made: make(chan struct{})}
		r.sessions[id] = s
		fresh = true
	})
	if failure != nil {
		return control.Session{}, failure
	}
	if fresh {
		s.failure = s.book.Append(forRecord(), history.TypeSessionCreated, history.Session{
			Session: s.id, Key: c.Key, Profile: c.Profile, Dir: s.dir, Actor: &actor, TTLMS: c.TTLMS, JobsMax: c.Jobs, TimeMS: c.TimeMS,
		})
		if s.failure == nil {
			s.failure = r.makeSession(s, base)
		} else {
			s.failure = control.Failed("the session cannot be recorded: %v", s.failure)
		}
		close(s.made)
		r.ask(func() {
			if s.failure != nil {
				delete(r.sessions, s.id)
			} else {
				r.expire(s, time.Duration(c.TTLMS)*time.Millisecond)
			}
		})
		if s.failure != nil {
			_ = s.book.Append(forRecord(), history.TypeSessionEnded, history.SessionEnded{Session: s.id, Cause: "it could not be made"}) // as it is with the next boot
		}
	}
	<-s.made
	if s.failure != nil {
		return control.Session{}, s.failure
	}
	return r.Session(s.id)
}

// makeSession makes a session's directory, with the rights of its user.
func (r *Runner) makeSession(s *session, base string) error {
	result, err := r.internal(s.profile, []string{"make", base, filepath.Join(SessionsDir, s.id)})
	if err == nil && result.State != string(job.Succeeded) {
		err = errors.New(strings.TrimSpace(result.Stderr))
	}
	if err != nil {
		return control.Failed("cannot make the session's directory: %v", err)
	}
	return nil
}

// forgotten lets go of a session that is another container's to end now.
func (s *session) forgotten() {
	s.epoch++
	if s.expiry != nil {
		s.expiry.Stop()
	}
}

// sessionOf is the session that is open under a key.
func (r *Runner) sessionOf(key string) *session {
	for _, s := range r.sessions {
		if key != "" && s.key == key && s.ending == nil {
			return s
		}
	}
	return nil
}

// expire ends a session when its time is over.
func (r *Runner) expire(s *session, in time.Duration) {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.epoch++
	epoch := s.epoch
	s.expiry = time.AfterFunc(in, func() {
		current := false
		r.ask(func() { current = s.epoch == epoch && !r.stopping })
		if current {
			_ = r.EndSession(s.id, "its time to live was over") // or it has ended already
		}
	})
}

// adoptSessions takes over the sessions that the journal says are open. Those of
// an earlier boot end with it.
func (r *Runner) adoptSessions(b *book) {
	var open []history.SessionEntry
	b.View(func(h *history.History) {
		for _, e := range h.Sessions {
			if e.Ended == nil && r.sessions[e.Session.Session] == nil {
				open = append(open, *e)
			}
		}
	})
	for _, e := range open {
		s := &session{id: e.Session.Session, book: b, key: e.Key, profile: e.Profile, dir: e.Dir, made: make(chan struct{})}
		close(s.made)
		r.sessions[s.id] = s
		if e.Boot != b.Boot() {
			go func() { _ = r.EndSession(s.id, "the container ended") }() // or it is tried again at the next boot
			continue
		}
		r.expire(s, time.Until(e.Until))
	}
}

// sessionDir is where a session's jobs run; problem says why there is none.
func (r *Runner) sessionDir(id string) (dir, problem string) {
	if id == "" {
		return "", ""
	}
	var s *session
	r.ask(func() { s = r.sessions[id] })
	if s == nil {
		return "", fmt.Sprintf("session %s is over", id)
	}
	return s.dir, ""
}

// admitToSession refuses a job that its session has no room for.
func (r *Runner) admitToSession(t *task) error {
	id := t.request.Session
	if id == "" {
		return nil
	}
	s := r.sessions[id]
	entry := r.sessionEntry(id)
	switch {
	case entry == nil && s == nil:
		return control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no session %q; see rlminit session list", id))
	case s == nil || s.ending != nil || entry == nil:
		return control.Conflict("session %s is over", id)
	case t.request.Profile != "" && t.request.Profile != s.profile:
		return control.BadRequest("session %s is of profile %q, not %q", id, s.profile, t.request.Profile)
	}
	t.request.Profile = s.profile
	if err := r.vacant(s.profile); err != nil {
		return err
	}
	count, reserved := entry.Jobs, entry.TookMS
	for _, other := range r.tasks {
		if other.request.Session == id {
			reserved += other.request.TimeoutMS
			if other.state.Stage == job.Submitting {
				count++
			}
		}
	}
	if count >= entry.JobsMax {
		return control.Refused("session %s has run %d jobs, which is its budget", id, count)
	}
	if entry.TimeMS > 0 {
		left := entry.TimeMS - reserved
		if left <= 0 {
			return control.Refused("the jobs of session %s have had %d of the %d ms that they may take together", id, reserved, entry.TimeMS)
		}
		t.request.TimeoutMS = min(t.request.TimeoutMS, left)
	}
	return nil
}

// Sessions are those that are open, and those that are remembered.
func (r *Runner) Sessions() []control.Session {
	list := []control.Session{}
	for _, b := range r.books() {
		b.View(func(h *history.History) {
			for _, e := range h.Sessions {
				list = append(list, describeSession(e))
			}
		})
	}
	r.markEnding(list)
	slices.SortFunc(list, func(a, b control.Session) int { return job.Compare(a.Session, b.Session) })
	return list
}

// Session is one of them.
func (r *Runner) Session(id string) (control.Session, error) {
	entry := r.sessionEntry(id)
	if entry == nil {
		return control.Session{}, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no session %q; see rlminit session list", id))
	}
	found := []control.Session{describeSession(entry)}
	r.markEnding(found)
	return found[0], nil
}

// sessionEntry is what is recorded of a session; nil: nothing.
func (r *Runner) sessionEntry(id string) (entry *history.SessionEntry) {
	if b := r.bookOf(id); b != nil {
		b.View(func(h *history.History) {
			if e := h.Sessions[id]; e != nil {
				copied := *e
				entry = &copied
			}
		})
	}
	return entry
}

func (r *Runner) markEnding(list []control.Session) {
	r.ask(func() {
		for i := range list {
			if s := r.sessions[list[i].Session]; s != nil && s.ending != nil && list[i].State == "open" {
				list[i].State = "ending"
			}
		}
	})
}

func describeSession(e *history.SessionEntry) control.Session {
	s := control.Session{
		Session: e.Session.Session, Key: orNull(e.Key), State: "open", Profile: orNull(e.Profile), Dir: e.Dir, Actor: e.Actor,
		Created: e.At, Until: e.Until, Extends: control.MostExtensions - e.Extended, Jobs: e.Jobs, JobsMax: e.JobsMax,
		TookMS: e.TookMS, TimeMS: e.TimeMS, Ended: e.Ended, Cause: orNull(e.Cause),
	}
	if e.Ended != nil {
		s.State = "ended"
	}
	return s
}

// ExtendSession gives a session another time to live, from now.
func (r *Runner) ExtendSession(id string, x control.ExtendSession) (control.Session, error) {
	now, err := r.Session(id)
	if err != nil {
		return now, err
	}
	var ttl int64
	b := r.bookOf(id)
	if e := r.sessionEntry(id); e != nil {
		ttl = e.TTLMS
	}
	if x.TTLMS != 0 {
		ttl = x.TTLMS
	}
	switch {
	case ttl < 0 || ttl > control.MostSessionTTL.Milliseconds():
		return now, control.BadRequest("the time to live may be above 0 and up to %s", control.MostSessionTTL)
	case now.State != "open" || b == nil:
		return now, control.Conflict("session %s is over", id)
	}
	r.extending.Lock() // two at once are two of the extensions
	defer r.extending.Unlock()
	if now, err = r.Session(id); err != nil || now.Extends <= 0 {
		return now, control.Refused("session %s was extended %d times, which is all that there are", id, control.MostExtensions)
	}
	if err := b.Append(forRecord(), history.TypeSessionExtended, history.SessionExtended{Session: id, TTLMS: ttl}); err != nil {
		return now, control.Failed("the extension cannot be recorded: %v", err)
	}
	r.ask(func() {
		if s := r.sessions[id]; s != nil {
			r.expire(s, time.Duration(ttl)*time.Millisecond)
		}
	})
	return r.Session(id)
}

// EndSession ends a session: its jobs, its directory, and then itself, once.
func (r *Runner) EndSession(id, cause string) error {
	var s *session
	var tasks []*task
	first := false
	r.ask(func() {
		if s = r.sessions[id]; s == nil {
			return
		}
		if first = s.ending == nil; first {
			s.ending = make(chan struct{})
			for _, t := range r.ordered() {
				if t.request.Session == id {
					tasks = append(tasks, t)
					r.cancel(t, "its session ended")
				}
			}
		}
	})
	if s == nil {
		if _, err := r.Session(id); err != nil {
			return err
		}
		return control.Conflict("session %s is over already", id)
	}
	if !first {
		<-s.ending
		return s.endErr
	}
	<-s.made
	for _, t := range tasks {
		<-t.done
	}
	s.endErr = r.finishSession(s, cause)
	r.ask(func() {
		if s.expiry != nil {
			s.expiry.Stop()
		}
		if s.endErr == nil {
			delete(r.sessions, id)
		}
	})
	ending := s.ending
	if s.endErr != nil { // it can be ended again
		r.ask(func() { s.ending = nil })
	}
	close(ending)
	return s.endErr
}

func (r *Runner) finishSession(s *session, cause string) error {
	base, name := filepath.Dir(filepath.Dir(s.dir)), filepath.Join(SessionsDir, s.id)
	result, err := r.internal(s.profile, []string{"remove", base, name})
	if err == nil && result.State != string(job.Succeeded) {
		err = errors.New(strings.TrimSpace(result.Stderr))
	}
	if err != nil {
		var problem *control.Problem
		if errors.As(err, &problem) && problem.ExitCode == control.ExitNoSuchName {
			err = nil // the profile is gone, with all that was in it
		}
	}
	if err != nil {
		return control.Failed("cannot remove the directory of session %s: %v", s.id, err)
	}
	if err := s.book.Append(forRecord(), history.TypeSessionEnded, history.SessionEnded{Session: s.id, Cause: cause}); err != nil {
		return control.Failed("the end of session %s cannot be recorded: %v", s.id, err)
	}
	return nil
}

// internal runs a part of rlminit as a profile's user, as a job that nobody hears
// of: what touches a profile's files is done with that user's rights.
func (r *Runner) internal(profile string, args []string) (*control.JobResult, error) {
	if _, err := r.host.Environment(profile); err != nil {
		return nil, err
	}
	argv := append([]string{"/proc/self/exe", "files"}, args...)
	t := newTask("", kindInternal, nil, control.RunJob{
		Command: argv, Profile: profile, TimeoutMS: internalTimeout.Milliseconds(), MaxOutput: control.DefaultJobOutput, Detach: true,
	})
	t.argv = argv
	if err := r.begin(t); err != nil {
		return nil, err
	}
	<-t.done
	if t.result.State == string(job.Failed) && t.result.Stderr == "" && t.result.Error != nil {
		return t.result, errors.New(*t.result.Error)
	}
	return t.result, nil
}

// begin runs a job that is not recorded, out of turn.
func (r *Runner) begin(t *task) (failure error) {
	r.ask(func() {
		if !r.started || r.stopping {
			failure = control.Refused("the container is stopping")
			return
		}
		r.internals++
		t.id = "i" + strconv.FormatUint(r.internals, 10)
		if failure = t.writeSpec(); failure != nil {
			return
		}
		r.tasks[t.id] = t
		t.hold(r)
		t.state.Stage = job.Queued
		r.step(t, job.Event{Kind: job.Turn})
	})
	return failure
}

// kindInternal is the kind of a job that is neither recorded nor listed.
const kindInternal = "internal"

const internalTimeout = 5 * time.Minute
