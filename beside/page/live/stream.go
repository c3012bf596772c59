package live

import (
	"context"
	"time"

	"rlminit/control"
)

// settle is for how long the first event of a stream may take. A journal that holds
// none yet has no last one to begin with.
const settle = 250 * time.Millisecond

// The pause before a stream is tried again grows from the first to the second.
const (
	pauseLeast = 100 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// follow begins the stream of events.
func (h *Hub) follow() {
	ctx, stop := context.WithCancel(h.ctx)
	h.stop = stop
	h.streams++
	stream := h.streams
	h.ticks = 0
	h.all = true
	mine := func(do func()) {
		h.put(func() {
			if stream == h.streams {
				do()
			}
		})
	}
	go func() {
		for pause := pauseLeast; ctx.Err() == nil; pause = min(2*pause, pauseMost) {
			began := time.Now()
			err := h.read(ctx, mine)
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > pauseMost {
				pause = pauseLeast
			}
			why := "the supervisor was replaced"
			if err != nil {
				why = err.Error()
			}
			mine(func() { h.linked(why) })
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}()
	time.AfterFunc(every/5, func() { h.put(func() { h.tick(stream) }) })
}

// read reads one stream to its end. When it has begun, everything is asked for once:
// what happened before the first event that comes is in that.
func (h *Hub) read(ctx context.Context, mine func(func())) error {
	one := 1
	begun := false
	begin := func() {
		begun = true
		mine(h.begun)
	}
	events := make(chan control.Event)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		ended <- h.ask.client.Events(ctx, control.EventQuery{Follow: true, Last: &one}, func(e control.Event) error {
			e.Raw = append([]byte(nil), e.Raw...) // the next line takes its place
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	late := time.NewTimer(settle)
	defer late.Stop()
	for {
		select {
		case e := <-events:
			if begun {
				mine(func() { h.news(e) })
				continue
			}
			mine(func() { h.last(Position{Boot: e.Boot, Seq: e.Seq}) })
			begin()
		case <-late.C:
			if !begun {
				begin()
			}
		case err := <-ended:
			return err
		}
	}
}

// begun has everything asked for and shown anew. While that is under way, it is done once
// more afterwards: what was asked before this stream began may lack what happened between.
func (h *Hub) begun() {
	if h.surveying {
		h.surveyAgain = true
		return
	}
	h.surveying, h.surveyAgain = true, false
	stream := h.streams
	go func() {
		services, err := h.ask.Services(h.ctx)
		h.put(func() { h.surveyed(stream, services, err) })
	}()
}

// surveyed takes in what was asked for, or has it asked for again a second later.
func (h *Hub) surveyed(stream int, services []control.Service, err error) {
	again := func() {
		h.surveying = false
		if h.stop != nil {
			h.begun()
		}
	}
	switch {
	case stream != h.streams:
		again()
		return
	case err != nil:
		h.linked(err.Error())
		time.AfterFunc(time.Second, func() { h.put(again) })
		return
	}
	h.surveying = false
	h.linked("")
	h.state.take(&h.state, finding{services: services, all: true})
	h.all = false
	for _, r := range h.rooms {
		if r.shown {
			r.anew()
		} else {
			r.shown = true
			r.work()
		}
	}
	if h.surveyAgain {
		h.begun()
	}
}
