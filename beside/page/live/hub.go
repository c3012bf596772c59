package live

import (
	"context"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/internal/inbox"
)

const (
	// gather is for how long events are gathered before they are shown: of a boot there
	// are thousands, and what is one page at the end need not be rendered in between.
	gather = 25 * time.Millisecond
	// linger is for how long the stream stays when the last tab has gone: who follows a
	// link closes one tab and opens another.
	linger = 3 * time.Second
	// every is how often memory and CPU are measured, which asks the supervisor nothing,
	// and resync after how many of these all services are asked for again: a status text
	// changes without an event.
	every  = 5 * time.Second
	resync = 3
	// eventsKept is how many events are kept for tabs that come back.
	eventsKept = 4096
	// fewTouched is up to how many services are asked for one by one.
	fewTouched = 8
	// renderTime is how long it may take to render what a view shows.
	renderTime = 10 * time.Second
)

// Hub is what tabs are fed by. New makes one, Run is its life.
type Hub struct {
	ask  *Supervisor
	proc string // where /proc is

	mail *inbox.Inbox[func()]
	ctx  context.Context

	rooms map[string]*room
	tabs  int
	down  string // why the supervisor does not answer; "": it does

	state   *State
	events  []control.Event // the latest
	pending Batch           // gathered, and not asked about yet
	asking  bool            // somebody asks about what was gathered before
	all     bool            // all services are to be asked for
	ticks   int

	surveying, surveyAgain bool // all services are asked for, as a stream begins; and are to be once more

	stop    context.CancelFunc // ends the stream; nil: there is none
	streams int                // which stream it is: what one before says does not count
	idle    *time.Timer
	meter   meter
}

// New makes a hub.
func New(ask *Supervisor, proc string) *Hub {
	return &Hub{ask: ask, proc: proc, mail: inbox.New[func()](), rooms: map[string]*room{}, state: &State{}}
}

// put has something done by the owner. What is put after the end is not done.
func (h *Hub) put(do func()) bool { return h.mail.Put(do) }

// Run serves tabs until the context is done.
func (h *Hub) Run(ctx context.Context) {
	h.ctx = ctx
	unhook := context.AfterFunc(ctx, func() { h.put(func() { h.mail.Close() }) })
	defer unhook()
	h.mail.Serve(func(do func()) { do() })
	h.halt()
	for _, r := range h.rooms {
		for t := range r.tabs {
			close(t.gone)
		}
	}
	h.rooms = map[string]*room{}
}

// Open has a tab fed with what a view shows. seen is up to where its page shows what has
// happened already; nil: it is sent everything.
func (h *Hub) Open(view View, seen *Position) (*Tab, error) {
	t := &Tab{hub: h, view: view, seen: seen, messages: make(chan Message, waitingMost), gone: make(chan struct{})}
	answer := make(chan error, 1)
	if !h.put(func() { answer <- h.enter(t) }) {
		return nil, ErrFull
	}
	if err := <-answer; err != nil {
		return nil, err
	}
	return t, nil
}

// Tabs is how many are open, and Streaming whether there is a stream from the supervisor.
func (h *Hub) Tabs() (tabs int, streaming bool) {
	answer := make(chan struct{})
	if !h.put(func() { tabs, streaming = h.tabs, h.stop != nil; close(answer) }) {
		return 0, false
	}
	<-answer
	return tabs, streaming
}

// Now is how everything was a moment ago; nil: the page ends. While no tab is open it has
// no services, and what was measured before.
func (h *Hub) Now() (now *State) {
	answer := make(chan struct{})
	if h.put(func() { now = h.state; close(answer) }) {
		<-answer
	}
	return now
}

func (h *Hub) enter(t *Tab) error {
	key := t.view.Key()
	r := h.rooms[key]
	if h.tabs >= tabsMost || r == nil && len(h.rooms) >= viewsMost {
		return ErrFull
	}
	if r == nil {
		r = newRoom(h, t.view)
		h.rooms[key] = r
	}
	h.tabs++
	r.tabs[t] = true
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
	if h.stop == nil {
		h.follow()
	}
	if h.down != "" {
		t.send(linkMessage(h.down))
	}
	if len(h.meter.shown) > 0 {
		t.send(usageMessage(h.meter.shown))
	}
	r.welcome(t)
	return nil
}

// leave takes a tab out, if it is still in.
func (h *Hub) leave(t *Tab) {
	key := t.view.Key()
	r := h.rooms[key]
	if r == nil || !r.tabs[t] {
		return
	}
	delete(r.tabs, t)
	close(t.gone)
	h.tabs--
	if len(r.tabs) == 0 {
		r.close()
		delete(h.rooms, key)
	}
	if h.tabs == 0 {
		h.idle = time.AfterFunc(linger, func() {
			h.put(func() {
				if h.tabs == 0 {
					h.halt()
				}
			})
		})
	}
}

// halt ends the stream: from then on nothing here wakes anybody.
func (h *Hub) halt() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
		h.streams++
	}
	h.pending, h.asking, h.all = Batch{}, false, false
	h.state, h.events, h.down = &State{samples: h.state.samples}, nil, "" // nobody knows how it goes on
	h.meter.rest()
}

// news takes an event in.
func (h *Hub) news(e control.Event) {
	last := h.state.At
	at := Position{Boot: e.Boot, Seq: e.Seq}
	switch {
	case at == last:
		return // a stream begins with the last one
	case at.Boot != last.Boot || e.Seq != last.Seq+1:
		h.events = nil // those who come back must be sent everything
		h.all = true
	}
	h.move(at)
	h.events = append(h.events, e)
	if len(h.events) > eventsKept {
		h.events = slices.Clone(h.events[len(h.events)-eventsKept/2:])
	}
	h.pending.add(Batch{Events: []control.Event{e}, Touched: touchedBy(e)})
	if !h.asking {
		h.gather(gather)
	}
}

// last takes in up to where a stream that begins has come: what was before is asked for
// as it is now.
func (h *Hub) last(at Position) {
	if at != h.state.At {
		h.events = nil // those who come back must be sent everything
		h.move(at)
	}
}

// move makes a position that of the state.
func (h *Hub) move(at Position) {
	next := *h.state
	next.At = at
	h.state = &next
}

func touchedBy(e control.Event) map[string]bool {
	if e.Service == "" {
		return nil
	}
	return map[string]bool{e.Service: true}
}

// gather asks, after a while, how those services are that something has happened to.
func (h *Hub) gather(after time.Duration) {
	h.asking = true
	stream := h.streams
	time.AfterFunc(after, func() { h.put(func() { h.inquire(stream) }) })
}

// inquire has what was gathered asked about, and goes on with the answer.
func (h *Hub) inquire(stream int) {
	if stream != h.streams {
		return
	}
	batch, all := h.pending, h.all
	// What is no transition may make or remove a service.
	all = all || len(batch.Touched) > fewTouched || batch.Any("profile_*", "revision_step", "revision_ended", "found", "gone", "booted")
	h.pending, h.all = Batch{}, false
	go func() {
		found := look(h.ctx, h.ask, batch.Touched, all)
		h.put(func() {
			if stream == h.streams {
				h.found(batch, found)
			}
		})
	}()
}

// finding is what came of asking about services.
type finding struct {
	services []control.Service // all of them, if all was asked, or those that were asked for
	all      bool
	gone     []string
	err      error
}

func look(ctx context.Context, ask *Supervisor, names map[string]bool, all bool) (f finding) {
	if f.all = all; all {
		f.services, f.err = ask.Services(ctx)
		return f
	}
	for name := range names {
		s, err := ask.Service(ctx, name)
		switch {
		case err == nil:
			f.services = append(f.services, s)
		case isNoSuchName(err):
			f.gone = append(f.gone, name)
		default:
			f.err = err
			return f
		}
	}
	return f
}

// found takes an answer in, shows what has changed, and goes on with what has happened
// meanwhile.
func (h *Hub) found(batch Batch, f finding) {
	h.asking = false
	if f.err != nil {
		h.all = true // the stream says if nobody answers
	} else {
		batch.add(Batch{Touched: h.state.take(&h.state, f)})
	}
	h.show(batch)
	switch {
	case f.err != nil:
		h.pending.add(Batch{})
		h.gather(time.Second)
	case !h.pending.empty() || h.all:
		h.gather(gather)
	}
}

// show has each room show a batch.
func (h *Hub) show(b Batch) {
	if b.empty() {
		return
	}
	for _, r := range h.rooms {
		r.changed(b)
	}
}

// tick comes every few seconds while there is a tab.
func (h *Hub) tick(stream int) {
	if stream != h.streams {
		return
	}
	if h.ticks++; h.ticks%resync == 0 && h.down == "" {
		h.all = true
		if !h.asking {
			h.gather(0)
		}
	}
	h.measure(stream)
	time.AfterFunc(every, func() { h.put(func() { h.tick(stream) }) })
}

// since is what has happened since a position, if all of it is kept.
func (h *Hub) since(seen *Position) (b Batch, ok bool) {
	switch {
	case seen == nil || seen.Seq == 0 || seen.Boot != h.state.At.Boot || seen.Seq > h.state.At.Seq:
		return b, false
	case seen.Seq == h.state.At.Seq:
		return b, true
	case len(h.events) == 0 || h.events[0].Seq > seen.Seq+1:
		return b, false
	}
	for _, e := range h.events {
		if e.Seq > seen.Seq {
			b.add(Batch{Events: []control.Event{e}, Touched: touchedBy(e)})
		}
	}
	return b, true
}

// linked says whether the supervisor answers.
func (h *Hub) linked(why string) {
	if h.down == why {
		return
	}
	h.down = why
	for _, r := range h.rooms {
		r.tell(linkMessage(why))
	}
}
