package registry

import (
	"bytes"
	"log/slog"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/slots"
)

// noticed looks at a slot that somebody may have put there, changed or taken
// away by hand. As a rule it was the registry itself, which knows by its stamp what
// it has written: that is not read.
func (r *Registry) noticed(name string) {
	stamp := r.slots.Stamp(name)
	if r.knows(name, stamp) || !r.there() {
		return
	}
	// It may have been looked for before the directory was there.
	if stamp = r.slots.Stamp(name); r.knows(name, stamp) || !r.there() {
		return
	}
	if stamp == "" {
		if r.names.befall(name, Vanished) == Remove {
			slog.Info("a service was taken out of the service directory", "service", name)
			r.remove(name, "taken out of the service directory", nil, false)
		}
		return
	}
	if r.names.befall(name, Put) != Take {
		return
	}
	e := r.names.entry(name)
	e.slot = stamp // a definition put there while it is read is looked at again
	source, err := r.slots.Read(name, slots.DefinitionFile, slots.DefinitionMax)
	p := Proposal{Name: name, Profile: e.profile, source: source, Start: true, Cause: "put into the service directory"}
	r.reader.understand(&p, e, err)
	if p.Fault == "" {
		p.Start = p.Value.StartsAtBoot()
	}
	r.reader.recognise(&p)
	// A predecessor was killed between a slot and the note of its stamp, or somebody has put
	// the same there again: that asks for no restart.
	p.Later = p.Fault == "" && e.fault == "" && p.Fingerprint == e.source
	if p.Recorded && !p.Ours && r.settings.Holds(name) {
		// PID 1 would run its own command with a stranger's settings beside it:
		// with his sockets, say.
		p.Fault = "it has another user or a privilege, and so is as the configuration has it; change it there"
	}
	if !p.Ours && p.Fault == "" && config.Privileged(p.Value) {
		slog.Warn("a definition that was put here by hand gets no other user or group and no privilege; it runs as the service user", "service", name)
	}
	if p.Ours {
		e.configured = p.Fingerprint
	}
	r.publisher.force(e, p)
	r.services.Define([]Proposal{p})
	r.services.Published([]string{name})
}

// knows tells whether a slot's content is no news.
func (r *Registry) knows(name, stamp string) bool {
	e := r.names.of[name]
	if e == nil || e.life == Resting {
		return stamp == ""
	}
	return e.life != Supervised || e.slot == stamp
}

// rescan looks at every slot, and at every name whose slot may be gone.
func (r *Registry) rescan() {
	if !r.there() {
		return
	}
	names, err := r.slots.List()
	if err != nil {
		r.directory.lookAgain(err)
		return
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for name, e := range r.names.of {
		if !there[name] && e.life != Resting {
			names = append(names, name)
		}
	}
	for _, name := range names {
		r.noticed(name)
	}
}

// Recall is the definition that a predecessor had in force of a service, whose record
// is on the volume if recorded. Its slot is looked at later. It and Restored
// are called before Start.
func (r *Registry) Recall(name, profile string, recorded bool) Proposal {
	e := &entry{profile: profile, recorded: recorded}
	source, fault := r.publisher.kept(name, e)
	p := Proposal{Name: name, Profile: profile, Recorded: recorded, source: source, Ours: e.ours, Fault: fault}
	if own, ok := r.settings.Current().Services[name]; ok {
		encoded := service.Encode(own)
		if recorded && r.settings.Holds(name) { // whatever was in force: PID 1 has this one
			p.source, p.Fault, p.Ours = encoded, "", true
		}
		if p.Ours && bytes.Equal(p.source, encoded) { // as a rule
			p.Value = own
		}
	}
	if p.Fault == "" {
		if p.Fingerprint = fingerprint(p.source); p.Value == nil {
			r.reader.decode(&p)
		}
	}
	e.ours, e.fault = p.Ours, p.Fault
	if p.Fault == "" {
		e.source, e.size = p.Fingerprint, len(p.source)
		r.names.sources += e.size
	}
	if e.ours && e.configured != e.source {
		r.publisher.held = append(r.publisher.held, p) // Settle publishes it
	}
	r.names.of[name] = e
	return p
}

// Restored tells what became of a service that was recalled: it is on its way
// out, or supervised as before.
func (r *Registry) Restored(name string, leaving bool) {
	e := r.names.of[name]
	if e.life = Supervised; leaving {
		e.life, e.gone = Leaving, make(chan struct{})
	}
	r.watch.slot(name)
}
