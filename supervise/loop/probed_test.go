package loop

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/wire"
)

// What the services of a simulation answer when they are asked how they are.

// mood is how a service answers.
type mood int

const (
	well mood = iota
	refuses
	wrong
	hangs
)

// checkTimeout is how long a health check of a simulation may take.
const checkTimeout = 200 * time.Millisecond

// asked is what the world knows of a service's process and its checks.
type asked struct {
	rand    *rand.Rand
	listens int64 // the boot clock's time from which on it may answer well
	deafTo  mood  // how it answers until then
	ill     mood  // how it answers since it is ill
	passed  bool  // told a readiness probe that it is ready
	said    bool  // READY=1
	latest  int64 // when its health was asked last
	changed int64 // when its definition changed last

	fine     bool  // a health check passed
	failed   int   // health checks that failed
	inRow    int   // of these in a row, told to this supervisor under this definition
	rowSince int64 // when the first of them failed
}

// asking is what the world knows of a program that is a probe.
type asking struct {
	of        *body
	kind      string
	since     int64
	abandoned bool
}

// probes gives a definition what it is asked by; the address says who and what.
func (s *simulation) probes(d *service.Definition) {
	probe := func(kind string) service.Probe {
		switch s.rand.IntN(3) {
		case 0:
			return service.Probe{TCP: d.Name + "." + kind + ":1"}
		case 1:
			return service.Probe{HTTP: "http://" + d.Name + "/" + kind}
		}
		return service.Probe{Exec: []string{"/bin/true", kind}}
	}
	if d.Ready == nil && d.Type != service.Oneshot && s.rand.IntN(2) == 0 {
		p := probe("ready")
		p.Timeout = 2 * time.Second
		d.Ready = &p
	}
	d.Health = nil
	if d.Type != service.Oneshot && s.rand.IntN(3) > 0 {
		h := service.Health{
			Probe: probe("health"), Retries: 1 + s.rand.IntN(3), Action: service.HealthRestart,
			Interval:    200*time.Millisecond + time.Duration(s.rand.IntN(300_000))*time.Microsecond,
			StartPeriod: time.Duration(s.rand.IntN(2)) * time.Second,
		}
		h.Timeout = checkTimeout
		if s.rand.IntN(4) == 0 {
			h.Action = service.HealthNone
		}
		d.Health = &h
	}
}

// awake decides when a process that was just born begins to answer, and when it
// is ill.
func (w *world) awake(b *body) {
	b.asked = asked{rand: rand.New(rand.NewPCG(w.seed+1, b.id)), listens: boottime()}
	switch {
	case w.peaceful:
		return
	case b.asked.rand.IntN(8) == 0:
		b.listens += int64(time.Hour)
	default:
		b.listens += b.asked.rand.Int64N(int64(3 * time.Second))
	}
	b.deafTo = mood(1 + b.asked.rand.IntN(3))
	if b.asked.rand.IntN(2) == 0 {
		w.sicken(b)
	}
}

func (w *world) sicken(b *body) {
	some := func() time.Duration { return time.Duration(b.asked.rand.ExpFloat64() * float64(3*time.Second)) }
	w.later(some(), func() {
		if w.peaceful || b.state != wire.ChildAlive {
			return
		}
		b.ill = mood(1 + b.asked.rand.IntN(3))
		w.note("%s is ill: %d", b.name, b.ill)
		w.counts["ill"]++
		w.later(some(), func() {
			b.ill = well
			w.sicken(b)
		})
	})
}

// living is the process of a service.
func (w *world) living(name string) *body {
	for _, b := range w.table {
		if b.name == name && b.state == wire.ChildAlive && b.asking == nil {
			return b
		}
	}
	return nil
}

// ask is how a service answers now, and how long that takes.
func (w *world) ask(b *body) (mood, time.Duration) {
	if b == nil {
		return refuses, time.Millisecond
	}
	is := b.ill
	if boottime() < b.listens {
		is = b.deafTo
	}
	return is, time.Duration(b.asked.rand.Int64N(int64(50 * time.Millisecond)))
}

// network is a probe by tcp or http.
func (w *world) network(ctx context.Context, p service.Probe) error {
	name, kind, _ := strings.Cut(strings.TrimSuffix(p.TCP, ":1"), ".")
	if p.TCP == "" {
		name, kind, _ = strings.Cut(strings.TrimPrefix(p.HTTP, "http://"), "/")
	}
	w.mu.Lock()
	b := w.living(name)
	is, takes := w.ask(b)
	w.questioned(b, kind)
	w.mu.Unlock()
	if is == hangs {
		takes = time.Hour
	}
	answer := time.NewTimer(takes)
	defer answer.Stop()
	select {
	case <-answer.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled): // nobody wants to know any more
		return ctx.Err()
	case ctx.Err() != nil:
		w.answered(b, kind, false)
		return errors.New("no answer")
	}
	w.answered(b, kind, is == well)
	return map[mood]error{refuses: unix.ECONNREFUSED, wrong: errors.New("status 503")}[is]
}

func (w *world) questioned(b *body, kind string) {
	w.counts["asked"]++
	if b != nil && kind == "health" {
		b.latest = boottime()
	}
}

// answered is what a supervisor hears of a service.
func (w *world) answered(b *body, kind string, good bool) {
	switch {
	case b == nil:
	case kind == "ready":
		b.passed = b.passed || good
	case good:
		b.fine, b.inRow = true, 0
	default:
		if b.inRow == 0 {
			b.rowSince = boottime()
		}
		b.inRow++
		b.failed++
	}
}

// probe is a program that asks.
func (w *world) probe(b *body, kind string) {
	b.asking = &asking{of: w.living(wire.ServiceOf(b.name)), kind: kind, since: boottime()}
	w.questioned(b.asking.of, kind)
	delay := time.Duration(b.rand.Int64N(int64(20 * time.Millisecond)))
	luck := b.rand.IntN(100)
	if luck < 5 && !w.peaceful {
		delay += time.Duration(b.rand.Int64N(int64(5 * time.Second)))
	}
	w.later(delay, func() {
		if luck >= 90 && !w.peaceful {
			w.fell(b, wire.StepFork, unix.EAGAIN)
			return
		}
		w.lastPID++
		b.bornAt = boottime()
		b.state, b.pid, b.started = wire.ChildAlive, w.lastPID, uint64(boottime())/wire.Tick
		w.say(&wire.Spawned{ID: b.id, PID: b.pid, StartTime: b.started})
		is, takes := w.ask(b.asking.of)
		if is == hangs && !w.peaceful {
			w.counts["hanging probe"]++
			return
		}
		w.later(takes, func() { w.dies(b, int32(min(is, 1)), 0) })
	})
}

// concluded is the end of a probe's program, as its supervisor hears of it.
func (w *world) concluded(b *body, good bool) {
	w.tell(func() {
		if !b.asking.abandoned {
			w.answered(b.asking.of, b.asking.kind, good)
		}
	})
}

// abandon is a supervisor that waits for a probe's program no longer.
func (w *world) abandon(b *body) {
	if !b.asking.abandoned && b.asking.kind == "health" && boottime()-b.asking.since >= int64(checkTimeout) {
		w.answered(b.asking.of, b.asking.kind, false)
	}
	b.asking.abandoned = true
}

// unasked is what is wrong with how a unit that runs is watched over.
func unasked(u *unit, b *body, w *world, must func(bool, string)) {
	const slack = int64(time.Second)
	now := boottime()
	must(u.policy().Ready != "probe" || b.passed, "it runs, and no probe has passed")
	must(u.policy().Ready != "notify" || b.said || u.state.Adopted, "it runs, and has not said that it is ready")
	must(u.state.Health != "healthy" || b.fine, "it is healthy, and no check has passed")
	must(u.state.Health != "unhealthy" || b.failed > 0, "it is unhealthy, and no check has failed")
	if !u.policy().Health {
		return
	}
	h := u.definition.Health
	patience := int64(2*h.Interval+h.Timeout) + slack
	if since := max(u.state.ReadyAt, w.takenOver, b.changed); now-since > patience {
		must(now-b.latest <= patience, "nobody asks for its health")
	}
	if b.inRow >= h.Retries && b.rowSince-u.state.ReadyAt >= int64(h.StartPeriod) {
		must(!u.policy().HealthRestart, "it is unhealthy, and is not restarted")
		must(u.state.Health == "unhealthy", "it is unhealthy, and nobody says so")
	}
}

// orphaned is a probe's program whose supervisor has ended. Once its time is over
// that supervisor may have decided on it, and kept what it decided, though nobody
// heard it say so.
func (w *world) orphaned(b *body) {
	a := b.asking
	if !a.abandoned && a.of != nil && a.kind == "health" && boottime()-a.since >= int64(checkTimeout) {
		a.of.failed++
	}
	a.abandoned = true
}
