package registry

import (
	"errors"
	"io/fs"
	"log/slog"

	"rlminit/config"
	"rlminit/service"
	"rlminit/supervise/slots"
)

// noticed looks at a slot that somebody may have put there, changed or taken
// away by hand. As a rule it was the registry itself.
func (r *Registry) noticed(name string) {
	source, err := r.slots.Read(name, slots.DefinitionFile, slots.DefinitionMax)
	if r.knows(name, source, err) {
		return
	}
	if missing(err) {
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
	p := Proposal{Name: name, Profile: e.profile, source: source, Start: true, Cause: "put into the service directory"}
	r.reader.understand(&p, e, err)
	if p.Fault == "" {
		p.Start = p.Value.StartsAtBoot()
	}
	r.reader.recognise(&p)
	if p.Recorded && !p.Ours && r.settings.Holds(name) {
		// PID 1 would run its own command with what a stranger says beside it:
		// with his sockets, say.
		p.Fault = "it has another user or a privilege, and so is as the configuration has it; change it there"
	}
	if !p.Ours && p.Fault == "" && config.Privileged(p.Value) {
		slog.Warn("a definition that was put here by hand gets no other user or group and no privilege; it runs as the service user", "service", name)
	}
	if err == nil {
		e.slot = p.Fingerprint
	}
	if p.Ours {
		e.configured = p.Fingerprint
	}
	r.define(e, p)
}

// knows tells whether what was read of a slot is no news.
func (r *Registry) knows(name string, source []byte, err error) bool {
	e := r.names.of[name]
	switch {
	case e == nil || e.life == Resting:
		return missing(err)
	case e.life != Supervised:
		return true
	case missing(err):
		return e.slot == ""
	case err != nil:
		return e.fault == err.Error()
	}
	f := fingerprint(source)
	if e.refused != "" {
		return e.refused == f
	}
	// A fault of the slot's own was mended by these very bytes; one of the profile
	// was not.
	return e.slot == f && (e.fault == "" || e.ours)
}

// missing tells whether there is no definition in a slot, or no slot.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
}

// rescan looks at every slot, and at every name whose slot may be gone.
func (r *Registry) rescan() {
	names, err := r.slots.List()
	if err != nil {
		slog.Error("cannot look for services", "err", err)
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

// Recall reads the definition that a predecessor had in force of a service, whose
// record is on the volume if recorded: that in its slot, unless it is behind what
// tier 1 holds under UnpublishedKey. It and Restored are called before Start.
func (r *Registry) Recall(name, profile string, recorded bool, held []int) Proposal {
	source, err := r.slots.Read(name, slots.DefinitionFile, slots.DefinitionMax)
	p := Proposal{Name: name, Profile: profile, Recorded: recorded, source: source}
	e := &entry{}
	if err == nil {
		e.slot = fingerprint(source)
	}
	if newer, behind := unpublished(held); newer != nil && e.slot == behind {
		p.source, err, e.unpublished = newer, nil, true
	} else if len(held) > 0 {
		r.hold(UnpublishedKey(name), -1)
	}
	r.reader.understand(&p, e, err)
	if own, ok := r.settings.Current().Services[name]; ok && recorded && r.settings.Holds(name) {
		// whatever its slot says
		p.Value, p.source, p.Fault, p.Ours = own, service.Encode(own), "", true
		p.Fingerprint, e.refused = fingerprint(p.source), ""
	}
	e.profile, e.recorded, e.ours, e.fault = profile, recorded, p.Ours, p.Fault
	if p.Fault == "" {
		e.source, e.size = p.Fingerprint, len(p.source)
		r.names.sources += e.size
	}
	switch {
	case e.unpublished:
		r.publisher.republishSoon(p)
	case missing(err):
		e.slot = gone // it was there: somebody took it away
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
