package laws

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"pgregory.net/rapid"

	"rlminit/control"
)

// step is a verb with its arguments, and what it comes to.
type step struct {
	none   bool // there is nothing that it could be done to
	argv   []string
	in     string // its standard input
	code   int    // with which it ends
	after  model
	editor string // what the editor writes, if the verb has one
	// file is a declared set of the profile named of, which is planned before; "": none.
	file, of string
	// undone: the last revision is rolled back afterwards; undo is what that comes to.
	undone bool
	undo   model
}

var (
	names    = []string{"a", "b", "chat-2", "chat-10"}
	patterns = []string{"chat-*", "*"}
	kinds    = []string{"default", "loud", "quiet"}
	values   = []string{"", "1", "2"}
)

// verbs are all that is drawn from, by name.
var verbs = map[string]func(*rapid.T, model) step{
	"create": create, "create again": createAgain, "delete": remove, "restore": restore, "purge": purge,
	"rename": rename, "clone": clone, "move": exportImport,
	"set": set, "set of many": setMany, "edit": edit, "take back": takeBack, "forget": forget,
	"start": start, "stop": stop, "pause": pause, "restart": restart,
	"start of many": startMany, "stop of many": stopMany, "restart of many": restartMany,
	"start by state": startByState, "stop by state": stopByState,
	"reload": reload, "apply": apply,
}

func one(t *rapid.T) string    { return rapid.SampledFrom(names).Draw(t, "name") }
func chance(t *rapid.T) bool   { return rapid.Bool().Draw(t, "option") }
func value(t *rapid.T) string  { return rapid.SampledFrom(values).Draw(t, "value") }
func kindOf(t *rapid.T) string { return rapid.SampledFrom(kinds).Draw(t, "kind") }

// must has a step refused unless a condition holds.
func (s *step) must(holds bool, otherwise int, before model) bool {
	if !holds {
		s.code, s.after = otherwise, before
	}
	return holds
}

func given(s settings) (flags []string, in string) {
	if s.value != "" {
		flags = append(flags, "--env", "A="+s.value)
	}
	if s.secret != "" {
		flags, in = append(flags, "--secret", "T=-"), s.secret
	}
	return flags, in
}

func create(t *rapid.T, m model) (s step) {
	name, of := one(t), settings{kindOf(t), value(t), value(t)}
	flags, in := given(of)
	s.argv, s.in = append([]string{"profile", "create", name, "--kind", of.kind}, flags...), in
	stopped := chance(t)
	if stopped {
		s.argv = append(s.argv, "--stopped")
	}
	_, exists := m.profiles[name]
	if s.must(!exists, control.ExitExists, m) {
		s.after = m.copy()
		s.after.create(name, of, stopped)
	}
	return s
}

func createAgain(t *rapid.T, m model) (s step) {
	name, of, again := one(t), settings{"default", value(t), value(t)}, chance(t)
	flags, in := given(of)
	s.argv, s.in = append([]string{"profile", "create", name, "--exist-ok"}, flags...), in
	if again {
		s.argv = append(s.argv, "--restart")
	}
	s.after = m.copy()
	if _, exists := m.profiles[name]; !exists {
		s.after.create(name, of, false)
		return s
	}
	s.after.change(name, func(p *profile) {
		if of.value != "" {
			p.value = of.value
		}
		if of.secret != "" {
			p.secret = of.secret
		}
		if again && p.outdated() {
			p.restart()
		}
	})
	return s
}

func remove(t *rapid.T, m model) (s step) {
	name, how := one(t), rapid.SampledFrom([]string{"", "--purge", "--forget-secrets"}).Draw(t, "how")
	s.argv = []string{"profile", "delete", name}
	if how != "" {
		s.argv = append(s.argv, how)
	}
	_, exists := m.profiles[name]
	if s.must(exists, control.ExitNoSuchName, m) {
		s.after = m.copy()
		s.after.remove(name, how != "--purge", how == "")
	}
	return s
}

func restore(t *rapid.T, m model) (s step) {
	name := one(t)
	s.argv = []string{"profile", "restore", name}
	_, exists := m.profiles[name]
	if s.must(len(m.trash[name]) > 0, control.ExitNoSuchName, m) && s.must(!exists, control.ExitExists, m) {
		s.after = m.copy()
		s.after.restore(name)
	}
	return s
}

func purge(t *rapid.T, m model) (s step) {
	name := one(t)
	s.argv = []string{"profile", "purge", name, "--needed"}
	if s.must(len(m.trash[name]) > 0, control.ExitNoSuchName, m) {
		s.after = m.copy()
		delete(s.after.trash, name)
	}
	return s
}

// two are two names, of which the second is to be new.
func two(t *rapid.T, m model, s *step, verb string) (from, to string, ok bool) {
	from, to = one(t), one(t)
	s.argv = []string{"profile", verb, from, to}
	if from == to {
		s.none = true
		return from, to, false
	}
	_, exists := m.profiles[from]
	_, taken := m.profiles[to]
	return from, to, s.must(exists, control.ExitNoSuchName, m) && s.must(!taken, control.ExitExists, m)
}

func rename(t *rapid.T, m model) (s step) {
	from, to, ok := two(t, m, &s, "rename")
	if ok {
		s.after = m.copy()
		p := m.profiles[from]
		p.restart()
		delete(s.after.profiles, from)
		s.after.profiles[to] = p
	}
	return s
}

func clone(t *rapid.T, m model) (s step) {
	from, to, ok := two(t, m, &s, "clone")
	if ok {
		s.after = m.copy()
		of := m.profiles[from].settings
		of.secret = ""
		s.after.create(to, of, false)
	}
	return s
}

// exportImport is a profile that goes through an archive.
func exportImport(t *rapid.T, m model) (s step) {
	from, to, ok := two(t, m, &s, "export")
	if !ok {
		return step{none: true} // nothing to export, or to import
	}
	s.argv = []string{"profile", "export", from, "|", "profile", "import", "-", "--as", to}
	s.after = m.copy()
	of := m.profiles[from]
	s.after.profiles[to] = profile{settings: settings{of.kind, of.value, ""}, desired: of.desired}
	return s
}

// drawSet has a change of settings as flags.
func drawSet(t *rapid.T) (flags []string, in string, f func(*profile)) {
	switch rapid.SampledFrom([]string{"value", "unset", "secret"}).Draw(t, "what") {
	case "value":
		v := rapid.SampledFrom(values[1:]).Draw(t, "value")
		return []string{"A=" + v}, "", func(p *profile) { p.value = v }
	case "unset":
		return []string{"--unset", "A"}, "", func(p *profile) { p.value = "" }
	}
	v := rapid.SampledFrom(values[1:]).Draw(t, "value")
	return []string{"--secret", "T=-"}, v, func(p *profile) { p.secret = v }
}

func set(t *rapid.T, m model) (s step) {
	name, again := one(t), chance(t)
	flags, in, f := drawSet(t)
	s.argv, s.in = append([]string{"profile", "set", name}, flags...), in
	if again {
		s.argv = append(s.argv, "--restart")
	}
	_, exists := m.profiles[name]
	if s.must(exists, control.ExitNoSuchName, m) {
		s.after = m.copy()
		s.after.change(name, func(p *profile) {
			if f(p); again && p.outdated() {
				p.restart()
			}
		})
	}
	return s
}

// edit is profile edit, with an editor that writes a whole text.
func edit(t *rapid.T, m model) (s step) {
	name, v, again := one(t), value(t), chance(t)
	if p, exists := m.profiles[name]; !exists || p.value == v {
		return step{none: true} // nothing to edit
	}
	return edited(m, name, v, again)
}

func edited(m model, name, v string, again bool) (s step) {
	s.editor = fmt.Sprintf("kind: %s\nenvironment: {%s}\n", m.profiles[name].kind, variable(v))
	s.argv = []string{"profile", "edit", name}
	if again {
		s.argv = append(s.argv, "--restart")
	}
	s.after = m.copy()
	s.after.change(name, func(p *profile) {
		if p.value = v; again && p.outdated() {
			p.restart()
		}
	})
	return s
}

// takeBack is profile edit that brings back the value which the process was started with.
func takeBack(t *rapid.T, m model) step {
	var older []string
	for _, name := range matching(m, "*") {
		if p := m.profiles[name]; p.started != nil && p.started.value != p.value {
			older = append(older, name)
		}
	}
	if len(older) == 0 {
		return step{none: true} // nothing was changed
	}
	name := rapid.SampledFrom(older).Draw(t, "name")
	return edited(m, name, m.profiles[name].started.value, chance(t))
}

// startByState starts what is stopped, and stopByState stops what runs; a state is taken at
// its word.
func startByState(_ *rapid.T, m model) step {
	return byState(m, func(p *profile) bool { return p.started == nil }, func(p *profile) { p.desired, p.paused = true, false }, "start", "stopped")
}

func stopByState(_ *rapid.T, m model) step {
	return byState(m, func(p *profile) bool { return p.started != nil }, func(p *profile) { p.desired = false }, "stop", "running")
}

func byState(m model, is func(*profile) bool, f func(*profile), verb, state string) (s step) {
	s.argv, s.after = []string{verb, "--all", "--state", state}, m.copy()
	s.after.each(func(_ string, p *profile) {
		if is(p) {
			f(p)
		}
	})
	return s
}

// matching are the profiles that a pattern fits.
func matching(m model, pattern string) (fit []string) {
	for name := range m.profiles {
		if is, _ := path.Match(pattern, name); is {
			fit = append(fit, name)
		}
	}
	slices.Sort(fit)
	return fit
}

func setMany(t *rapid.T, m model) (s step) {
	pattern, again := rapid.SampledFrom(patterns).Draw(t, "pattern"), chance(t)
	flags, in, f := drawSet(t)
	s.argv, s.in = append([]string{"profile", "set", pattern}, flags...), in
	if again {
		s.argv = append(s.argv, "--restart")
	}
	fit := matching(m, pattern)
	if s.must(len(fit) > 0, control.ExitNoSuchName, m) {
		s.after = m.copy()
		for _, name := range fit {
			s.after.change(name, func(p *profile) {
				if f(p); again && p.outdated() {
					p.restart()
				}
			})
		}
	}
	return s
}

func forget(t *rapid.T, m model) (s step) {
	name := one(t)
	s.argv = []string{"profile", "secret", "forget", name, "T"}
	p, exists := m.profiles[name]
	if !exists || p.secret == "" {
		return step{none: true} // no secret
	}
	s.after = m.copy()
	s.after.change(name, func(p *profile) { p.secret = "" })
	for i := range s.after.trash[name] {
		s.after.trash[name][i].secret = ""
	}
	return s
}

// command is a verb of one service.
func command(t *rapid.T, m model, f func(*profile), words ...string) (s step) {
	name := rapid.SampledFrom(append(slices.Clone(names), "plain")).Draw(t, "name")
	s.argv = append(words, name)
	s.after = m.copy()
	if p, exists := m.services[name]; exists {
		f(&p)
		s.after.services[name] = p
	} else if _, exists := m.profiles[name]; s.must(exists, control.ExitNoSuchName, m) {
		s.after.change(name, f)
	}
	return s
}

func start(t *rapid.T, m model) step {
	return command(t, m, func(p *profile) { p.desired, p.paused = true, false }, "start")
}

func stop(t *rapid.T, m model) step {
	return command(t, m, func(p *profile) { p.desired, p.paused = false, false }, "stop")
}

func pause(t *rapid.T, m model) step {
	return command(t, m, func(p *profile) { p.paused = p.desired }, "stop", "--runtime")
}

func restart(t *rapid.T, m model) step {
	return command(t, m, func(p *profile) {
		p.desired, p.paused = true, false
		p.restart()
	}, "restart")
}

// sets are the ways to say a set of services: what a verb is given, and who is in it.
func drawMany(t *rapid.T, m model, s *step, words ...string) (fit []string, ok bool) {
	way := rapid.SampledFrom([]string{"--all", "*", "chat-*", "loud", "quiet"}).Draw(t, "set")
	s.argv = append(words, way)
	switch way {
	case "--all", "*":
		fit = append(matching(m, "*"), slices.Sorted(maps.Keys(m.services))...)
	case "chat-*":
		fit = matching(m, way)
	default:
		s.argv = append(words, "--kind", way)
		for _, name := range matching(m, "*") {
			if m.profiles[name].kind == way {
				fit = append(fit, name)
			}
		}
		return fit, true // a kind is no name: it may have no profile
	}
	return fit, s.must(len(fit) > 0, control.ExitNoSuchName, m)
}

// many applies f to the members of a set that f concerns.
func many(t *rapid.T, m model, concerns func(*profile) bool, f func(*profile), verb string) (s step) {
	fit, ok := drawMany(t, m, &s, verb)
	if !ok {
		return s
	}
	s.after = m.copy()
	s.after.each(func(name string, p *profile) {
		if slices.Contains(fit, name) && concerns(p) {
			f(p)
		}
	})
	return s
}

func startMany(t *rapid.T, m model) step {
	return many(t, m, func(*profile) bool { return true }, func(p *profile) { p.desired, p.paused = true, false }, "start")
}

func stopMany(t *rapid.T, m model) step {
	return many(t, m, (*profile).inForce, func(p *profile) { p.desired = false }, "stop")
}

func restartMany(t *rapid.T, m model) step {
	return many(t, m, (*profile).inForce, (*profile).restart, "restart")
}

// reload changes nothing here; with --wait it restarts the services that are outdated.
func reload(t *rapid.T, m model) (s step) {
	s.argv, s.after = []string{"reload"}, m.copy()
	if chance(t) {
		s.argv = append(s.argv, "--wait")
		s.after.each(func(_ string, p *profile) {
			if p.outdated() {
				p.restart()
			}
		})
	}
	return s
}

// apply declares one profile, and perhaps takes that back.
func apply(t *rapid.T, m model) (s step) {
	name, of, desired := one(t), settings{kindOf(t), value(t), ""}, chance(t)
	before, exists := m.profiles[name]
	if exists && (before.secret != "" || before.paused || before.outdated()) {
		return step{none: true} // a set without secrets would take them away
	}
	if exists {
		of.kind = before.kind
	}
	s.argv = []string{"apply", "--steady", "10ms"}
	s.of, s.file = name, fmt.Sprintf("version: 1\nprofiles:\n  %s: {kind: %s, environment: {%s}, state: %s}\n", name, of.kind, variable(of.value), state(desired))
	s.code, s.after = control.ExitApplied, m.copy()
	if exists && before.settings == of && before.desired == desired {
		s.code = 0
		return s
	}
	after := profile{settings: of, desired: desired, started: before.started, run: before.run}
	if after.outdated() && desired {
		after.restart()
	}
	s.after.profiles[name] = after
	if s.undone = chance(t); s.undone {
		s.undo = s.after.copy()
		s.undo.settle()
		if !exists {
			s.undo.remove(name, true, true)
			return s
		}
		s.undo.change(name, func(p *profile) {
			p.settings, p.desired = before.settings, before.desired
			if p.outdated() && p.desired {
				p.restart()
			}
		})
	}
	return s
}

func variable(value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf("A: %q", value)
}

func state(desired bool) string {
	if desired {
		return "running"
	}
	return "stopped"
}
