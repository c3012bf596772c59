package forward

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"

	"rlminit/internal/inbox"
	"rlminit/logs"
	"rlminit/service"
)

// Target says where a log goes. The zero value is nowhere.
type Target struct {
	To      string // as in service.Forward
	Format  service.ForwardFormat
	Profile string // that the log is of; "": none
	Dir     string // where it lies, as in logs.Config; "": it has no file
}

// State is a destination as people see it.
type State struct {
	To     string
	Format string
	Down   string    // why it takes nothing; "": it does, or was not asked yet
	Since  time.Time // since when
}

// Options are a Forwarder's.
type Options struct {
	Logs   *logs.Collector
	Dir    func() string // where cursors are kept, on the volume; "": there is none now
	Stdout int           // the container's: non-blocking, its own open file description; negative for none
}

// Forwarder sends logs on. Its methods may be called from any goroutine, and wait for
// nothing but each other.
type Forwarder struct {
	work  inbox.Work
	given given

	mu      sync.Mutex // for what follows
	members map[string]*member
	states  map[*destination]State

	// What follows is its goroutine's.
	store        store
	destinations map[Target]*destination // by To and Format alone
	saving       bool
	fresh        []func() // give logs that are new to their destinations
}

// New is one that has nothing to send yet, and costs nothing before it has.
func New(o Options) (*Forwarder, error) {
	feed, err := logs.NewFeed(o.Logs)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	f := &Forwarder{work: inbox.NewWork(), members: map[string]*member{}, states: map[*destination]State{}, destinations: map[Target]*destination{}}
	f.store = store{dir: o.Dir, cursors: map[string]cursor{}, begun: map[string][]cursor{}}
	f.given = given{
		feed: feed, host: host, stdout: o.Stdout,
		sent: func(m *member, c cursor) { f.work.Do(func() { f.sent(m, c) }) },
		left: func(m *member, c cursor) { f.work.Do(func() { f.left(m, c) }) },
		entered: func(all []entered) {
			done := make(chan struct{})
			if f.work.Put(func() { f.store.enter(all); close(done) }) {
				<-done
			}
		},
		begun: func(m *member, d *destination) { f.work.Do(func() { f.begun(m, d) }) },
		shown: func(d *destination, now State) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.states[d] = now
		},
	}
	go f.work.Run()
	return f, nil
}

// Set says where a log goes from here on, and returns what is to be told that it has
// grown, and what tells how many of its lines the destination does not have, for all that
// is known; nil: it goes nowhere.
func (f *Forwarder) Set(name string, t Target) (grew func(), unsent func() uint64) {
	f.mu.Lock()
	m := f.members[name]
	if m == nil && t.To != "" {
		m = &member{name: name}
		f.members[name] = m
	}
	f.mu.Unlock()
	if m == nil {
		return nil, nil
	}
	f.work.Do(func() { f.set(m, t) })
	if t.To == "" {
		return nil, nil
	}
	return m.ring, m.unsent.Load
}

// Leave says that the service of a log is gone: what there is of it is sent, if its
// destination takes it.
func (f *Forwarder) Leave(name string) {
	f.mu.Lock()
	m := f.members[name]
	delete(f.members, name)
	f.mu.Unlock()
	if m == nil {
		return
	}
	f.work.Do(func() {
		m.target = Target{} // where it is on its way, it does not stay
		if d := m.of.Load(); d != nil && !m.moving {
			d.Do(func() { d.leave(m) })
		}
	})
}

// States are the destinations.
func (f *Forwarder) States() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []State
	for _, s := range f.states {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Format, b.Format)) })
	return all
}

// Close sends what there is, within a time, to those that take it, and writes how far that
// got. A successor goes on there.
func (f *Forwarder) Close(within time.Duration) {
	done := make(chan struct{})
	open := f.work.Put(func() {
		var all sync.WaitGroup
		for _, d := range f.destinations {
			all.Add(1)
			d.Do(func() {
				d.ending = append(d.ending, all.Done)
				if d.state.Down != "" {
					d.end()
				}
				d.hear()
			})
		}
		go func() {
			all.Wait()
			f.work.Do(func() { f.end(done) })
		}()
	})
	if !open {
		return // it was closed before
	}
	select {
	case <-done:
	case <-time.After(within):
	}
}

// end writes what was sent, and sends no more.
func (f *Forwarder) end(done chan<- struct{}) {
	f.save()
	for _, d := range f.destinations {
		d.Do(d.close)
	}
	f.work.Close()
	close(done)
}

// set moves a log to another destination.
func (f *Forwarder) set(m *member, t Target) {
	was := m.target
	if m.target = t; was == t || m.moving {
		return
	}
	d := m.of.Load()
	if d == nil {
		f.place(m)
		return
	}
	m.moving = true
	d.Do(func() {
		c := d.drop(m)
		f.work.Do(func() {
			m.moving = false
			f.sent(m, c)
			f.retire(d)
			f.place(m)
		})
	})
}

// place gives a log to the destination where it is to go.
func (f *Forwarder) place(m *member) {
	if m.target.To == "" {
		return
	}
	by := Target{To: m.target.To, Format: m.target.Format}
	d := f.destinations[by]
	if d == nil {
		d = newDestination(by.To, by.Format, &f.given)
		f.destinations[by] = d
		f.given.shown(d, d.state)
	}
	m.moving = true // until it has it
	at := f.store.of(m.name, m.target.Dir)
	source := logs.Source{Name: m.name, Dir: m.target.Dir}
	fresh := at.unnamed() && at.begin(f.given.feed.Lines(source, at.Place))
	f.sent(m, at)
	if fresh {
		f.store.begun[m.name] = []cursor{at}
	}
	if !fresh {
		f.give(m, d, at)
		return
	}
	f.fresh = append(f.fresh, func() { f.give(m, d, at) })
	if len(f.fresh) == 1 {
		time.AfterFunc(gatherFor, func() { f.work.Do(f.admit) })
	}
}

// begun takes back a log whose first line is there from the destination that found it, and
// gives it to its destination again when its cursor is written.
func (f *Forwarder) begun(m *member, d *destination) {
	if !m.moving && m.of.Load() == nil { // else it has not arrived yet, or is elsewhere by now
		f.place(m)
	}
	f.retire(d) // it may be nobody's by now
}

// gatherFor is how long logs that are new are gathered, for cursors that name their files
// are written before their first lines are sent: else a successor could not tell which lines
// had which numbers.
const gatherFor = 20 * time.Millisecond

// admit gives logs that are new to their destinations.
func (f *Forwarder) admit() {
	f.store.save()
	fresh := f.fresh
	f.fresh = nil
	for _, give := range fresh {
		give()
	}
}

// give has a destination take a log over.
func (f *Forwarder) give(m *member, d *destination, at cursor) {
	t := m.target
	if t.To != d.to || t.Format != d.format {
		m.moving = false
		f.place(m) // it is to go elsewhere by now
		return
	}
	begun := slices.Clone(f.store.begun[m.name])
	d.Do(func() {
		m.begun = begun
		d.add(m, t, at)
		f.work.Do(func() {
			m.moving = false
			if now := m.target; now != t {
				m.target = t
				f.set(m, now)
			} else {
				f.begun(m, d) // it may have been, at once
			}
		})
	})
}

// retire ends a destination that nobody needs any more.
func (f *Forwarder) retire(d *destination) {
	d.Do(func() {
		if len(d.members) > 0 {
			return
		}
		f.work.Do(func() { f.retired(d) })
	})
}

func (f *Forwarder) retired(d *destination) {
	by := Target{To: d.to, Format: d.format}
	if f.destinations[by] != d {
		return
	}
	for _, m := range f.all() {
		if m.target.To == d.to && m.target.Format == d.format {
			return // one is on its way there
		}
	}
	delete(f.destinations, by)
	f.mu.Lock()
	delete(f.states, d)
	f.mu.Unlock()
	d.Do(d.close)
}

// all are the logs that go somewhere.
func (f *Forwarder) all() (all []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		all = append(all, m)
	}
	return all
}

// left notes that a log is gone.
func (f *Forwarder) left(m *member, c cursor) {
	f.sent(m, c)
	for _, d := range f.destinations {
		f.retire(d)
	}
}

// saveEvery is how often cursors are written, at most.
const saveEvery = time.Second

// sent notes how far a log was sent.
func (f *Forwarder) sent(m *member, c cursor) {
	f.store.put(m.name, c)
	if !f.saving {
		f.saving = true
		time.AfterFunc(saveEvery, func() { f.work.Do(f.save) })
	}
}

// save writes the cursors; it tries again where that fails.
func (f *Forwarder) save() {
	f.saving = false
	if f.store.save(); f.store.dirty && f.store.dir() != "" {
		f.saving = true
		time.AfterFunc(10*saveEvery, func() { f.work.Do(f.save) })
	}
}
