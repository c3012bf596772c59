package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/job"
	"rlminit/job/table"
)

// session is one that is not over. What is recorded of it is in the table; this
// is the rest, the runner's goroutine's alone.
type session struct {
	id, key string
	journal *jobJournal // where it is recorded
	of      Owner
	dir     string
	made    chan struct{} // closed when its directory is there, or cannot be
	failure error         // why not; set before made is closed
	ending  chan struct{} // closed when it has ended; nil: it is not on its way
	endErr  error
	expiry  *time.Timer // the newest; nil: its time is not counted
}

// sessions are those that are not over.
type sessions struct {
	runner *Runner
	open   map[string]*session // the runner's goroutine's alone

	extending sync.Mutex // two extensions at once are two of those that there are
}

// create makes a session, or finds the one that is open under the key.
func (ss *sessions) create(c control.CreateSession, actor uint32) (control.Session, error) {
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
	}
	if err := checkKey(c.Key); err != nil {
		return control.Session{}, err
	}
	of, err := ss.runner.place.named(c.Profile)
	if err != nil {
		return control.Session{}, err
	}
	who, err := ss.runner.host.Environment(of)
	if err != nil {
		return control.Session{}, err
	}
	var s *session
	fresh := false
	ss.runner.loop.Ask(func() { s, fresh, err = ss.enter(c.Key, of, cmp.Or(who.Dir, who.Home)) })
	if err != nil {
		return control.Session{}, err
	}
	if fresh {
		ss.furnish(s, c, actor)
	}
	<-s.made
	if s.failure != nil {
		return control.Session{}, s.failure
	}
	return ss.show(s.id)
}

// enter is the session that is open under a key, or one that is to be made below base,
// by the runner's goroutine.
func (ss *sessions) enter(key string, of Owner, base string) (s *session, fresh bool, err error) {
	if s = ss.of(key); s != nil {
		if s.of != of {
			err = control.Conflict("session %s has the key %q, and is another profile's", s.id, key)
		}
		return s, false, err
	}
	if ss.runner.stopping || !ss.runner.started {
		return nil, false, control.Refused("the container is stopping: no session is opened any more")
	}
	if err := ss.runner.doors.vacant(of.Profile); err != nil {
		return nil, false, err
	}
	b := ss.runner.journal.Load()
	if !b.durable() {
		_, lacks := ss.runner.host.Volume()
		return nil, false, control.Conflict("no session can be opened, for its directory is on the volume: %s", cmp.Or(lacks, notHere))
	}
	id := ss.runner.numbers.nextSession(b)
	s = &session{id: id, journal: b, key: key, of: of, dir: newDir(base, id), made: make(chan struct{})}
	ss.open[id] = s
	return s, true, nil
}

// furnish records a session, and makes its directory. Whoever waits for it is told.
func (ss *sessions) furnish(s *session, c control.CreateSession, actor uint32) {
	s.failure = s.journal.Append(table.TypeSessionCreated, table.Session{
		Session: s.id, Key: c.Key, Profile: s.of.Profile, Service: s.of.Service, Dir: s.dir, Actor: &actor, TTLMS: c.TTLMS, JobsMax: c.Jobs, TimeMS: c.TimeMS,
	})
	if s.failure == nil {
		s.failure = ss.make(s, false)
	} else {
		s.failure = control.Failed("the session cannot be recorded: %v", s.failure)
	}
	close(s.made)
	ss.runner.loop.Ask(func() {
		if s.failure != nil {
			delete(ss.open, s.id)
		} else {
			ss.expire(s, time.Duration(c.TTLMS)*time.Millisecond)
		}
	})
	if s.failure != nil {
		_ = s.journal.Append(table.TypeSessionEnded, table.SessionEnded{Session: s.id, Cause: "it could not be made"}) // as it is with the next boot
	}
}

// below opens what a session's directory is below, with the rights of an owner's user,
// and its path from there.
func (ss *sessions) below(s *session, of Owner) (base *durable.Dir, rel string, err error) {
	if _, err := ss.runner.host.Environment(of); err != nil {
		return nil, "", err
	}
	_, user := ss.runner.host.User(of)
	at, rel := s.place()
	base, err = user.Dir(at)
	return base, rel, err
}

// make makes a session's directory: one that is not there yet, or its own once more.
func (ss *sessions) make(s *session, again bool) error {
	base, rel, err := ss.below(s, s.of)
	if err == nil {
		defer base.Close()
		err = base.MkdirAll(filepath.Dir(rel), 0o700)
	}
	if err == nil {
		if err = base.Mkdir(rel, 0o700); again && errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return control.Failed("cannot make the session's directory: %v", err)
	}
	return nil
}

// stop has its time counted no more.
func (s *session) stop() {
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
}

// of is the session that is open under a key.
func (ss *sessions) of(key string) *session {
	for _, s := range ss.open {
		if key != "" && s.key == key && s.ending == nil {
			return s
		}
	}
	return nil
}

// expire ends a session when its time is over.
func (ss *sessions) expire(s *session, in time.Duration) {
	s.stop()
	var timer *time.Timer
	timer = time.AfterFunc(in, func() {
		current := false
		ss.runner.loop.Ask(func() { current = s.expiry == timer && !ss.runner.stopping })
		if current {
			_ = ss.end(s.id, "its time to live was over") // or it has ended already
		}
	})
	s.expiry = timer
}

// adopt takes over the sessions that the journal says are open. Those of
// an earlier boot end with it. The others have their directories made, one after the
// other: a predecessor may have been killed before it had made one, or had told that it
// was removed.
func (ss *sessions) adopt(b *jobJournal) {
	var open []table.SessionEntry
	b.View(func(h *table.Table) {
		for _, e := range h.Sessions {
			if e.Ended == nil && ss.open[e.Session.Session] == nil {
				open = append(open, *e)
			}
		}
	})
	var ours []*session
	defer func() { go ss.makeAgain(ours) }()
	for _, e := range open {
		s := &session{id: e.Session.Session, journal: b, key: e.Key, of: Owner{e.Profile, e.Service}, dir: e.Dir, made: make(chan struct{})}
		ss.open[s.id] = s
		if e.Boot != b.Boot() {
			close(s.made)
			go func() { _ = ss.end(s.id, "the container ended") }() // or it is tried again at the next boot
			continue
		}
		ss.expire(s, time.Until(e.Until))
		ours = append(ours, s)
	}
}

// makeAgain makes the directories of sessions that were adopted.
func (ss *sessions) makeAgain(adopted []*session) {
	for _, s := range adopted {
		s.failure = ss.make(s, true)
		close(s.made)
		if s.failure != nil {
			_ = ss.end(s.id, "its directory could not be made again: "+s.failure.Error()) // or its time does
		}
	}
}

// lose lets go of all, which are another container's to end now.
func (ss *sessions) lose() {
	for _, s := range ss.open {
		s.stop()
	}
	clear(ss.open)
}

// A session's directory is .rlminit-sessions/N-… below its profile's, or below the home of
// the services' user. The next boot that has the volume ends it by its record, if nobody
// has. No name can be foreseen, and a directory that is there is never taken.

// newDir is where a session below base has its directory.
func newDir(base, id string) string {
	return filepath.Join(base, job.SessionsDir, fmt.Sprintf("%s-%08x", id, rand.Uint32()))
}

// place is a session's directory as it is made and removed: below which, and by what name.
func (s *session) place() (base, name string) {
	return filepath.Dir(filepath.Dir(s.dir)), filepath.Join(job.SessionsDir, filepath.Base(s.dir))
}

// ofProfile are the numbers of those of a profile that are open.
func (ss *sessions) ofProfile(profile string) (ids []string) {
	for id, s := range ss.open {
		if s.of == (Owner{Profile: profile}) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, job.Compare)
	return ids
}

// dir is where a session's jobs run; problem says why there is none.
func (ss *sessions) dir(id string) (dir, problem string) {
	if id == "" {
		return "", ""
	}
	var s *session
	ss.runner.loop.Ask(func() { s = ss.open[id] })
	if s == nil {
		return "", fmt.Sprintf("session %s is over", id)
	}
	if <-s.made; s.failure != nil {
		return "", s.failure.Error()
	}
	return s.dir, ""
}

// ownerOf is whose a job is: of one in a session, the session's owner.
func (ss *sessions) ownerOf(q *control.RunJob) Owner {
	of := ownerOf(q)
	if q.Session == "" || of != (Owner{}) {
		return of
	}
	found := make(chan Owner, 1)
	ss.runner.loop.Do(func() {
		if s := ss.open[q.Session]; s != nil {
			found <- s.of
			return
		}
		found <- of // it will be refused
	})
	return <-found
}

// admit refuses a job that its session has no room for.
func (ss *sessions) admit(t *task) error {
	id := t.spec.Request.Session
	if id == "" {
		return nil
	}
	s := ss.open[id]
	entry := ss.entry(id)
	switch {
	case entry == nil && s == nil:
		return control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no session %q; see rlminit session list", id))
	case s == nil || s.ending != nil || entry == nil:
		return control.Conflict("session %s is over", id)
	}
	if of := ownerOf(&t.spec.Request); of != (Owner{}) && of != s.of {
		return control.BadRequest("session %s is of %s, not of %s", id, s.of, of)
	}
	s.of.give(&t.spec.Request)
	if err := ss.runner.doors.vacant(s.of.Profile); err != nil {
		return err
	}
	count, reserved := entry.Jobs, entry.TookMS
	for _, other := range ss.runner.tasks.byID {
		if other.spec.Request.Session == id {
			reserved += other.spec.Request.TimeoutMS
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
		t.spec.Request.TimeoutMS = min(t.spec.Request.TimeoutMS, left)
	}
	return nil
}

// list is those that are open, and those that are remembered.
func (ss *sessions) list() []control.Session {
	list := []control.Session{}
	ss.runner.journal.Load().View(func(h *table.Table) {
		for _, e := range h.Sessions {
			list = append(list, describeSession(e))
		}
	})
	ss.markEnding(list)
	slices.SortFunc(list, func(a, b control.Session) int { return job.Compare(a.Session, b.Session) })
	return list
}

// show is one of them.
func (ss *sessions) show(id string) (control.Session, error) {
	entry := ss.entry(id)
	if entry == nil {
		return control.Session{}, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no session %q; see rlminit session list", id))
	}
	found := []control.Session{describeSession(entry)}
	ss.markEnding(found)
	return found[0], nil
}

// entry is what is recorded of a session; nil: nothing.
func (ss *sessions) entry(id string) (entry *table.SessionEntry) {
	ss.runner.journal.Load().View(func(h *table.Table) {
		if e := h.Sessions[id]; e != nil {
			copied := *e
			entry = &copied
		}
	})
	return entry
}

func (ss *sessions) markEnding(list []control.Session) {
	ss.runner.loop.Ask(func() {
		for i := range list {
			if s := ss.open[list[i].Session]; s != nil && s.ending != nil && list[i].State == "open" {
				list[i].State = "ending"
			}
		}
	})
}

func describeSession(e *table.SessionEntry) control.Session {
	s := control.Session{
		Session: e.Session.Session, Key: orNull(e.Key), State: "open", Profile: orNull(e.Profile), Service: orNull(e.Service), Dir: e.Dir, Actor: e.Actor,
		Created: e.At, Until: e.Until, Extends: control.MostExtensions - e.Extended, Jobs: e.Jobs, JobsMax: e.JobsMax,
		TookMS: e.TookMS, TimeMS: e.TimeMS, Ended: e.Ended, Cause: orNull(e.Cause),
	}
	if e.Ended != nil {
		s.State = "ended"
	}
	return s
}

// extend gives a session another time to live, from now.
func (ss *sessions) extend(id string, x control.ExtendSession) (control.Session, error) {
	now, err := ss.show(id)
	if err != nil {
		return now, err
	}
	var ttl int64
	if e := ss.entry(id); e != nil {
		ttl = e.TTLMS
	}
	if x.TTLMS != 0 {
		ttl = x.TTLMS
	}
	switch {
	case ttl < 0 || ttl > control.MostSessionTTL.Milliseconds():
		return now, control.BadRequest("the time to live may be above 0 and up to %s", control.MostSessionTTL)
	case now.State != "open":
		return now, control.Conflict("session %s is over", id)
	}
	ss.extending.Lock()
	defer ss.extending.Unlock()
	if now, err = ss.show(id); err != nil || now.Extends <= 0 {
		return now, control.Refused("session %s was extended %d times, which is all that there are", id, control.MostExtensions)
	}
	if err := ss.runner.journal.Load().Append(table.TypeSessionExtended, table.SessionExtended{Session: id, TTLMS: ttl}); err != nil {
		return now, control.Failed("the extension cannot be recorded: %v", err)
	}
	ss.runner.loop.Ask(func() {
		if s := ss.open[id]; s != nil {
			ss.expire(s, time.Duration(ttl)*time.Millisecond)
		}
	})
	return ss.show(id)
}

// end ends a session: its jobs, its directory, and then itself, once.
func (ss *sessions) end(id, cause string) error {
	var s *session
	var tasks []*task
	var ending chan struct{}
	first := false
	ss.runner.loop.Ask(func() {
		if s = ss.open[id]; s == nil {
			return
		}
		if first = s.ending == nil; first {
			s.ending = make(chan struct{})
			tasks = ss.runner.tasks.which(func(t *task) bool { return t.spec.Request.Session == id })
			for _, t := range tasks {
				ss.runner.cancel(t, "its session ended")
			}
		}
		ending = s.ending
	})
	if s == nil {
		if _, err := ss.show(id); err != nil {
			return err
		}
		return control.Conflict("session %s is over already", id)
	}
	if !first {
		<-ending
		return s.endErr
	}
	<-s.made
	for _, t := range tasks {
		<-t.outcome.done
	}
	s.endErr = ss.finish(s, cause)
	ss.runner.loop.Ask(func() {
		close(ending)
		if s.stop(); s.endErr == nil {
			delete(ss.open, id)
		} else { // it can be ended again
			s.ending = nil
		}
	})
	return s.endErr
}

func (ss *sessions) finish(s *session, cause string) error {
	remove := func(of Owner) error {
		base, rel, err := ss.below(s, of)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer base.Close()
		return base.RemoveAll(rel)
	}
	err := remove(s.of)
	var problem *control.Problem
	switch {
	case !errors.As(err, &problem) || problem.ExitCode != control.ExitNoSuchName:
	case s.of.Service != "": // which is gone, and not what the services' user has of it
		err = remove(Owner{})
	default:
		err = nil // the profile is gone, with all that was in it
	}
	if err != nil {
		return control.Failed("cannot remove the directory of session %s: %v", s.id, err)
	}
	if err := s.journal.Append(table.TypeSessionEnded, table.SessionEnded{Session: s.id, Cause: cause}); err != nil {
		return control.Failed("the end of session %s cannot be recorded: %v", s.id, err)
	}
	return nil
}
