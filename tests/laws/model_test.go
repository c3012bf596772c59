// Package laws runs random sequences of verbs on a real box and holds the laws against it
// that a user takes for granted: one model of a page says what each verb comes to, and
// after each step status, health, the trash, the secrets and the definitions must agree
// with it. Whatever fails is shrunk, and printed as a script of bash.
package laws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// settings are what a profile's process is started with.
type settings struct {
	kind   string
	value  string // of the variable A; "": unset
	secret string // of the secret T; "": none
}

// profile is one that exists.
type profile struct {
	settings
	desired bool      // it is meant to run, as recorded
	paused  bool      // stopped until the container's next start
	refused bool      // its definition is: it is not started with it
	started *settings // of its process; nil: it does not run
	run     int       // its process is the same as long as this is
}

func (p *profile) inForce() bool { return p.desired && !p.paused }

// verdict is how a user sees it: none is pending once the box has settled.
func (p *profile) verdict() string {
	switch {
	case p.inForce() && p.started == nil:
		return "ill"
	case p.inForce():
		return "ok"
	}
	return "off"
}

// model is what a box should look like. Its values are copied, never shared.
type model struct {
	profiles map[string]profile
	trash    map[string][]profile // by name, the newest last
	services map[string]profile   // of the configuration, by name
}

// ported is whether a kind's profiles have a port.
var ported = map[string]bool{"default": true, "loud": true, "quiet": false}

// begins is whether a kind's profiles are meant to run at their beginning.
var begins = map[string]bool{"default": true, "loud": true, "quiet": false}

func (m model) copy() model {
	trash := map[string][]profile{}
	for name, entries := range m.trash {
		trash[name] = slices.Clone(entries)
	}
	return model{maps.Clone(m.profiles), trash, maps.Clone(m.services)}
}

// change applies f to a profile that exists.
func (m model) change(name string, f func(*profile)) {
	p := m.profiles[name]
	f(&p)
	m.profiles[name] = p
}

// each applies f to all profiles and services.
func (m model) each(f func(name string, p *profile)) {
	for _, all := range []map[string]profile{m.profiles, m.services} {
		for name, p := range all {
			f(name, &p)
			all[name] = p
		}
	}
}

// settle starts what should run and does not, and stops what should not and does.
func (m model) settle() {
	m.each(func(_ string, p *profile) {
		switch {
		case !p.inForce():
			p.started = nil
		case p.started == nil && !p.refused:
			p.begin()
		}
	})
}

// restart has it run with what it has now, if it runs.
func (p *profile) restart() {
	if p.started != nil {
		p.begin()
	}
}

func (p *profile) begin() {
	now := p.settings
	p.started = &now
	p.run++
}

// outdated tells whether the process has older values than the profile.
func (p *profile) outdated() bool { return p.started != nil && *p.started != p.settings }

// create is profile create of a new name.
func (m model) create(name string, s settings, stopped bool) {
	m.profiles[name] = profile{settings: s, desired: begins[s.kind] && !stopped}
}

// remove is profile delete.
func (m model) remove(name string, keep, secrets bool) {
	p := m.profiles[name]
	delete(m.profiles, name)
	p.started, p.paused = nil, false
	if !secrets {
		p.secret = ""
		for i := range m.trash[name] {
			m.trash[name][i].secret = ""
		}
	}
	if keep {
		m.trash[name] = append(m.trash[name], p)
	}
}

// restore is profile restore of the newest entry.
func (m model) restore(name string) {
	entries := m.trash[name]
	m.profiles[name] = entries[len(entries)-1]
	if m.trash[name] = entries[:len(entries)-1]; len(m.trash[name]) == 0 {
		delete(m.trash, name)
	}
}

// String is the model on a few lines.
func (m model) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.profiles)) {
		p := m.profiles[name]
		fmt.Fprintf(&b, "%s: %+v desired %t paused %t refused %t", name, p.settings, p.desired, p.paused, p.refused)
		if p.started != nil {
			fmt.Fprintf(&b, " runs with %+v", *p.started)
		}
		b.WriteByte('\n')
	}
	runs := map[bool][]string{}
	for _, name := range slices.Sorted(maps.Keys(m.services)) {
		is := m.services[name].started != nil
		runs[is] = append(runs[is], name)
	}
	fmt.Fprintf(&b, "services that run: %v\nservices that do not: %v\n", runs[true], runs[false])
	for _, name := range slices.Sorted(maps.Keys(m.trash)) {
		fmt.Fprintf(&b, "trash of %s: %d\n", name, len(m.trash[name]))
	}
	return b.String()
}
