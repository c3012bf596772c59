package live

import (
	"context"
	"maps"
	"time"
)

// room is the tabs that show one view. It belongs to the hub: what is rendered for it is
// rendered by one other goroutine at a time, and put back into the hub's mailbox.
type room struct {
	hub  *Hub
	view View
	tabs map[*Tab]bool

	ctx   context.Context
	close context.CancelFunc

	pending   Batch
	full      bool // everybody is to be sent everything
	newcomers []*Tab
	busy      bool
	shown     bool // its tabs have been sent something since the stream began
	again     bool // what was to be rendered could not be: it is tried again later
}

func newRoom(h *Hub, view View) *room {
	r := &room{hub: h, view: view, tabs: map[*Tab]bool{}}
	r.ctx, r.close = context.WithCancel(h.ctx)
	return r
}

// changed has a batch shown.
func (r *room) changed(b Batch) {
	r.pending.add(b)
	r.work()
}

// welcome has a new tab sent what its page does not show yet.
func (r *room) welcome(t *Tab) {
	r.newcomers = append(r.newcomers, t)
	r.work()
}

// anew has everybody sent everything.
func (r *room) anew() {
	r.full = true
	r.work()
}

// tell sends a message to all.
func (r *room) tell(m Message) {
	for t := range r.tabs {
		if !t.send(m) {
			r.hub.leave(t)
		}
	}
}

// need is what one new tab lacks: everything, or what has happened since a position, or
// nothing.
type need struct {
	tab  *Tab
	full bool
	from Position // of a batch in work.since; unless full
}

// work is what a room is to render, and from what.
type work struct {
	now        *State
	batch      Batch
	everything bool // for all tabs
	full       bool // for one at least
	needs      []need
	since      map[Position]Batch
}

// rendered is what came of it.
type rendered struct {
	all, full []byte
	since     map[Position][]byte
	err       error
}

// work begins to render what is pending, unless that is done already or nothing is known
// of services yet.
func (r *room) work() {
	h := r.hub
	if r.busy || h.state.byName == nil || r.pending.empty() && !r.full && len(r.newcomers) == 0 {
		return
	}
	w := work{now: h.state, batch: r.pending, everything: r.full, full: r.full, since: map[Position]Batch{}}
	for _, t := range r.newcomers {
		n := need{tab: t, full: true}
		if missed, ok := h.since(t.seen); ok && !r.full {
			n.full, n.from = false, *t.seen
			w.since[n.from] = missed
		}
		w.full = w.full || n.full
		w.needs = append(w.needs, n)
	}
	r.pending, r.full, r.newcomers, r.busy, r.shown = Batch{}, false, nil, true, true
	go func() {
		ctx, cancel := context.WithTimeout(r.ctx, renderTime)
		defer cancel()
		out := w.render(ctx, r.view)
		h.put(func() { r.deliver(w, out) })
	}()
}

func (w work) render(ctx context.Context, view View) (out rendered) {
	if w.full {
		out.full, out.err = view.Full(ctx, w.now)
	}
	if out.err == nil && !w.everything && !w.batch.empty() {
		out.all, out.err = view.Changed(ctx, w.now, w.batch)
	}
	out.since = map[Position][]byte{}
	for from, missed := range w.since {
		if out.err == nil && !missed.empty() {
			out.since[from], out.err = view.Changed(ctx, w.now, missed)
		}
	}
	return out
}

// deliver sends what was rendered.
func (r *room) deliver(w work, out rendered) {
	r.busy = false
	if r.ctx.Err() != nil {
		return
	}
	if out.err != nil && isFinal(out.err) {
		return // there is nothing to show, as of an operation that there is not
	}
	if out.err != nil {
		// The supervisor has not answered. All of it is rendered again when it does.
		for _, n := range w.needs {
			r.newcomers = append(r.newcomers, n.tab)
		}
		r.full = true
		if !r.again {
			r.again = true
			time.AfterFunc(time.Second, func() { r.hub.put(func() { r.again = false; r.work() }) })
		}
		return
	}
	id, fresh := w.now.At.String(), map[*Tab]bool{}
	for _, n := range w.needs {
		fresh[n.tab] = true
		data := out.since[n.from]
		if n.full {
			data = out.full
		}
		r.send(n.tab, Message{Event: Swap, ID: id, Data: data})
	}
	data := out.all
	if w.everything {
		data = out.full
	}
	for t := range maps.Clone(r.tabs) {
		if !fresh[t] {
			r.send(t, Message{Event: Swap, ID: id, Data: data})
		}
	}
	r.work()
}

func (r *room) send(t *Tab, m Message) {
	if r.tabs[t] && len(m.Data) > 0 && !t.send(m) {
		r.hub.leave(t)
	}
}
