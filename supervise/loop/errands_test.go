package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/profiles"
	"rlminit/profiles/overrides"
	"rlminit/service"
	"rlminit/supervise/registry"
)

// What a simulation commands of its profiles, each beside whatever else goes on, and what
// must be true of them then and when none is under way.

// errand is a command on profiles that is under way.
type errand struct {
	verb      string
	of        *home
	from, to  string // names; "": none
	intent    service.Intent
	touched   map[string]int
	failures  int
	unlike    bool   // what was true of the service before
	latest    uint32 // the command whose intent it had
	over      chan struct{}
	answered  bool // by one who was alive
	contested bool // there was another for the same profile or name at the same time
	problem   error
	cancel    context.CancelFunc
}

func (e *errand) names() []string {
	return slices.DeleteFunc([]string{e.from, e.to}, func(name string) bool { return name == "" })
}

// housekeep begins a command on a profile.
func (s *simulation) housekeep(everything context.Context) {
	h, w := s.homes, s.world
	name := h.names[s.rand.IntN(len(h.names))]
	for _, e := range h.errands {
		if s.rand.IntN(4) > 0 && slices.Contains(e.names(), name) {
			return // as a rule one at a time
		}
	}
	names, trash := h.lie()
	is := ""
	for id, at := range names {
		if at == name {
			is = id
		}
	}
	e := &errand{over: make(chan struct{})}
	luck := s.rand.IntN(100)
	entries := slices.Sorted(maps.Keys(trash))
	switch {
	case is == "" && luck >= 90 && len(entries) > 0:
		e.verb, e.of = "empty", h.all[entries[s.rand.IntN(len(entries))]]
		for _, other := range h.errands { // beside one who wants it back, if there is one
			if other.verb == "restore" && trash[other.of.id] != "" {
				e.of = other.of
			}
		}
	case is == "" && luck < 50 && len(entries) > 0:
		e.verb, e.to, e.of = "restore", name, h.all[entries[s.rand.IntN(len(entries))]]
	case is == "":
		h.made++
		e.verb, e.to, e.of = "create", name, &home{id: fmt.Sprint("id", h.made)}
		h.all[e.of.id] = e.of
	case luck < 15:
		e.verb, e.from, e.of = "delete", name, h.all[is]
	case luck < 25:
		e.verb, e.from, e.of = "purge", name, h.all[is]
	case luck < 90:
		e.verb, e.from, e.to, e.of = "rename", name, h.names[s.rand.IntN(len(h.names))], h.all[is]
		for range 3 { // to one that nobody has, as a rule
			if slices.Contains(slices.Collect(maps.Values(names)), e.to) {
				e.to = h.names[s.rand.IntN(len(h.names))]
			}
		}
	default:
		e.verb, e.from, e.of = "set", name, h.all[is]
	}
	if len(s.orders.rolling) > 0 {
		w.tally(e.verb + " when rolling")
	}
	h.begin(e, trash)
	switch how := s.rand.IntN(8); how {
	case 0, 1:
		w.killAfter(1 + s.rand.IntN(14))
	case 2, 3:
		w.endAfter(1 + s.rand.IntN(40))
	case 4:
		time.Sleep(time.Duration(s.rand.Int64N(int64(3 * time.Second))))
		synctest.Wait()
		if !s.dead() {
			w.tally("killed in an errand")
			s.succeed(everything)
		}
	}
}

// begin gives a command.
func (h *homes) begin(e *errand, trash map[string]string) {
	s, w := h.sim, h.sim.world
	s.meddled(slices.Collect(maps.Keys(s.defs)))
	e.failures, e.touched = w.failures(), map[string]int{}
	h.contest(e)
	for _, name := range slices.Backward(e.names()) { // that which there is last
		svc := profiles.GatewayName(name)
		if name == e.from {
			e.latest = s.orders.latest[svc]
			if e.of.intent = s.orders.intents[svc]; e.contested {
				e.of.intent = service.IntentNone
			}
		}
		for _, g := range s.orders.rolling { // it may leave whom it does not come to as they were
			if name == e.from && (slices.Contains(g.names, svc) || slices.Contains(g.along, svc)) {
				e.of.intent = service.IntentNone
			}
		}
		e.unlike = s.orders.unlike[svc]
		if e.verb != "set" {
			s.orders.forget(svc)
			delete(s.wanted, svc)
			s.orders.unlike[svc] = true
		}
		e.touched[svc] = h.touched[svc]
	}
	by := control.Actor{UID: 7}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	var wait *control.Wait
	if s.rand.IntN(2) == 0 {
		wait = &control.Wait{TimeoutMS: 5000}
	}
	create := control.CreateProfile{Name: e.to, Wait: wait, Environment: map[string]string{"HOME_ID": e.of.id}, Secrets: map[string]string{"ID": e.of.id}}
	e.intent = e.of.intent
	if e.verb == "create" {
		e.intent = service.Running
	}
	if stopped := s.rand.IntN(3) == 0; (e.verb == "create" || e.verb == "restore") && stopped {
		create.Stopped, e.intent = true, service.Stopped
	}
	value := fmt.Sprint(s.rand.IntN(100))
	if e.verb == "restore" {
		create.Environment, create.Secrets, create.Restore = nil, nil, trash[e.of.id]
		h.leave(e.of, false) // from now on it may come back
	}
	w.mu.Lock()
	w.note("%s of %s from %q to %q, wanted %q", e.verb, e.of.id, e.from, e.to, e.intent)
	w.mu.Unlock()
	of, dead := s.now.Registry.Profiles, s.dead
	go func() {
		defer close(e.over)
		switch e.verb {
		case "create", "restore":
			_, e.problem = of.Create(ctx, create, by)
		case "delete", "purge":
			_, e.problem = of.Delete(ctx, e.from, control.Deletion{Purge: e.verb == "purge"}, by)
		case "empty":
			_, e.problem = of.Purge(trash[e.of.id], false, by)
		case "rename":
			_, e.problem = of.Rename(ctx, e.from, control.RenameProfile{To: e.to, Wait: wait}, by)
		case "set":
			e.problem = setOne(of, e.from, value, by)
		}
		if e.answered = !dead(); e.answered && e.problem == nil && (e.verb == "delete" || e.verb == "purge" || e.verb == "empty") {
			h.leave(e.of, true)
		}
	}()
	h.errands = append(h.errands, e)
	synctest.Wait()
}

// setOne gives a profile another value, unless somebody else changes it meanwhile.
func setOne(of *registry.Profiles, name, value string, by control.Actor) error {
	is, err := of.Text(name)
	if err != nil {
		return err
	}
	text, err := overrides.Set("profile.yaml", []byte(is.Text), overrides.Changes{Environment: map[string]*string{"N": &value}})
	if err == nil {
		_, err = of.Edit(name, control.ReplaceProfile{Text: string(text), Base: &is.Text, ID: &is.ID}, by)
	}
	return err
}

// leave notes that a profile is gone for good, until somebody has it back.
func (h *homes) leave(of *home, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of.gone, h.gone[of.id] = gone, gone
}

// finished takes note of a command that is over.
func (h *homes) finished(e *errand) {
	s, w := h.sim, h.sim.world
	e.cancel()
	how := "killed"
	switch {
	case !e.answered:
	case e.problem == nil:
		how = "done"
	case strings.Contains(e.problem.Error(), durable.ErrInDoubt.Error()):
		how = "in doubt"
	default:
		how = "refused"
	}
	w.mu.Lock()
	w.counts[e.verb+" "+how]++
	w.note("%s of %s from %q to %q is %s: %v", e.verb, e.of.id, e.from, e.to, how, e.problem)
	w.mu.Unlock()
	s.meddled(slices.Collect(maps.Keys(s.defs)))
	unwritten := w.failures() > e.failures || how == "killed"
	was := maps.Clone(h.lagging)
	for _, name := range e.names() {
		if unwritten {
			h.lagging[name] = true
		}
	}
	names, trash := h.lie()
	at, entry := names[e.of.id], trash[e.of.id]
	is := func(want, lies string) {
		if at != want || (entry != "") != (lies != "") {
			w.wrongly("%s of %s from %q to %q is %s, and it is at %q, in the trash as %q", e.verb, e.of.id, e.from, e.to, how, at, entry)
		}
	}
	if e.contested { // somebody else may have done something to it since
		e.of.intent = service.IntentNone
		return
	}
	intent := e.intent
	switch how + " " + e.verb {
	case "done create", "done restore", "done rename":
		is(e.to, "")
		at = e.to
	case "done delete":
		is("", "trash")
		if svc := profiles.GatewayName(e.from); h.touched[svc] != e.touched[svc] || unwritten { // the file there is a copy
			e.of.intent = service.IntentNone
		}
		return
	case "done purge", "done empty":
		is("", "")
		return
	case "refused empty":
		is("", "trash")
		return
	case "done set":
		is(e.from, "")
		return
	case "refused create":
		is("", "")
		return
	case "refused restore":
		is("", "trash")
		h.leave(e.of, true)
		if w.failures() > e.failures { // its state file may have what was asked for: a disk that fails takes nothing back, which is said
			e.of.intent = service.IntentNone
		}
		return
	case "refused delete", "refused purge", "refused rename":
		is(e.from, "")
		at, intent = e.from, e.of.intent
	case "killed set", "in doubt set", "refused set":
		is(e.from, "")
		return
	default:
		if at == "" && e.verb != "create" && e.verb != "purge" && e.verb != "empty" && entry == "" {
			is("somewhere", "")
		}
		if e.verb == "empty" && at != "" {
			is("", "")
		}
		if at != "" && !slices.Contains(e.names(), at) {
			is(e.names()[0], "")
		}
		if e.verb == "restore" && at == "" {
			h.leave(e.of, true)
		}
		if how == "in doubt" || w.failures() > e.failures || was[at] { // nobody could record what is found, or the journal has something else
			intent = service.IntentNone
		} else if e.verb != "rename" { // restored as it was, or not
			intent = e.of.intent
			if e.verb == "restore" && intent != e.intent {
				intent = service.IntentNone
			}
		}
	}
	touched := slices.ContainsFunc(e.names(), func(name string) bool { // commanded meanwhile
		svc := profiles.GatewayName(name)
		return h.touched[svc] != e.touched[svc]
	})
	if touched {
		intent = service.IntentNone
	}
	if e.of.intent = intent; at == "" {
		return
	}
	svc := profiles.GatewayName(at)
	e.of.intent = service.IntentNone
	if intent != service.IntentNone {
		s.orders.intents[svc], s.orders.latest[svc] = intent, e.latest
	}
	switch {
	case touched: // it may have been stopped for now
	case how == "refused":
		s.orders.unlike[svc] = e.unlike
	case how == "done":
		delete(s.orders.unlike, svc)
	}
}

// contest notes, of a command that is to begin, that others are for what it is for.
func (h *homes) contest(e *errand) {
	for _, other := range h.errands {
		if other.of == e.of || slices.ContainsFunc(e.names(), func(name string) bool { return slices.Contains(other.names(), name) }) {
			e.contested, other.contested = true, true
		}
	}
}

// agree holds what lies on the volume against what is registered and recorded, when no
// command on a profile is under way.
func (h *homes) agree(journal map[string]service.Intent) {
	if h == nil || len(h.errands) > 0 {
		return
	}
	s, w := h.sim, h.sim.world
	names, _ := h.lie()
	by := map[string]string{}
	for id, name := range names {
		by[name] = id
		if h.all[id] == nil || h.all[id].gone {
			w.wrongly("%s is there as %s, and its deletion was acknowledged", id, name)
		}
	}
	rests := map[string]control.Service{}
	for _, at := range s.now.Registry.AtRest.List() {
		rests[at.Name] = at
	}
	slotted, err := s.slots.List()
	if err != nil {
		s.Error(err)
	}
	s.now.ask(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range h.names {
			svc := profiles.GatewayName(name)
			u, at, there := s.now.fleet.units[svc], rests[svc], by[name] != ""
			switch {
			case !there && u != nil && !u.state.Removed && u.life.Turn().String() != "remove":
				w.fault("there is no profile %s, and %s is supervised: %+v", name, svc, u.state)
			case !there && at.Name != "":
				w.fault("there is no profile %s, and %s is at rest", name, svc)
			case !there && u == nil && slices.Contains(slotted, svc):
				w.fault("there is no profile %s, and %s has a slot", name, svc)
			case !there && journal[svc] != service.IntentNone && !h.lagging[name]:
				w.fault("there is no profile %s, and %s is recorded of it", name, journal[svc])
			case there && u == nil && at.Name == "" && h.out[name]:
			case there && u == nil && at.Name == "":
				w.fault("the profile %s is not registered", name)
			case there && u == nil && journal[svc] != "" && at.Desired != string(journal[svc]):
				w.fault("%s is at rest as %s, and %s is recorded", svc, at.Desired, journal[svc])
			case there && u == nil && at.Desired == string(service.Running):
				w.fault("%s is at rest, and is to run", svc)
			case there && u != nil && u.definition.Environment["HOME_ID"].Text != by[name] && !u.state.Removed:
				w.fault("%s is that of %q, and its directory that of %s", svc, u.definition.Environment["HOME_ID"].Text, by[name])
			}
			if u != nil && !u.state.Removed && u.life.Turn().String() != "remove" {
				delete(h.out, name)
			}
			if intent, sure := s.orders.intents[svc]; there && u == nil && sure && journal[svc] != "" && intent != journal[svc] {
				w.fault("%s is at rest, was to be %s, and %s is recorded", svc, intent, journal[svc])
			}
		}
	})
}
