package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"rlminit/config"
	"rlminit/internal/document"
	"rlminit/profiles"
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
		if r.befall(name, Vanished) == Remove {
			slog.Info("a service was taken out of the service directory", "service", name)
			r.remove(name, "taken out of the service directory", nil, false)
		}
		return
	}
	if r.befall(name, Put) != Take {
		return
	}
	e := r.entry(name)
	p := Proposal{Name: name, Profile: e.profile, source: source, Start: true, Cause: "put into the service directory"}
	r.understand(&p, e, err)
	if p.Fault == "" {
		p.Start = p.Value.Enabled
	}
	r.recognise(&p)
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
	e := r.names[name]
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

// sourcesMax is how much, in bytes, all definitions may take before a stranger's
// is refused: decoded they take several times that, and a supervisor that needs
// more memory than there is would be followed by one that does too.
const sourcesMax = 8 << 20

// understand decodes what was read of a slot, or err, unless it is more of a
// stranger's than there is room for.
func (r *Registry) understand(p *Proposal, e *entry, err error) {
	if err != nil {
		p.Fault = err.Error()
		return
	}
	p.Fingerprint = fingerprint(p.source)
	if all := r.sources - e.size + len(p.source); len(p.source) > document.MaxSize || all > sourcesMax {
		if r.recognise(p); !p.Ours {
			p.Fault = fmt.Sprintf("its definition has %d bytes; one that is put here by hand may have %d, if all have at most %d together", len(p.source), document.MaxSize, sourcesMax)
			e.refused = p.Fingerprint
			return
		}
	}
	var faults service.Faults
	p.Value, faults = service.Decode(r.slots.File(p.Name, slots.DefinitionFile), p.Name, p.source, r.inherited)
	if of := p.Value.Profile; len(faults) > 0 {
		p.Fault, e.refused = faults.Err().Error(), p.Fingerprint
	} else if of != "" && p.Name != profiles.GatewayName(of) {
		p.Fault = fmt.Sprintf("it claims to be of profile %s, whose service is %s; take profile out", document.Quote(of), profiles.GatewayName(of))
	}
}

// inherited gives those of the container's variables that services see: the
// definition of a stranger must not be a way to the others. In ours nothing is
// left to be expanded.
func (r *Registry) inherited(name string) (string, bool) {
	if !r.settings.Current().Inherits(name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// missing tells whether there is no definition in a slot, or no slot.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
}

// recognise looks whether configuration or volume have the service too that
// somebody put into the service directory: then what is recorded of it counts,
// and it may do what theirs may as long as it is theirs.
func (r *Registry) recognise(p *Proposal) {
	cfg, store := r.settings.Current(), r.volume.Store()
	profile, isGateway := strings.CutPrefix(p.Name, service.GatewayPrefix)
	var record service.Record
	own, configured := cfg.Services[p.Name]
	switch {
	case configured && store != nil:
		var err error
		if record, err = store.LoadService(p.Name); err != nil {
			slog.Warn("cannot read what is recorded of a service; enabled decides", "service", p.Name, "err", err)
		}
	case configured:
	case isGateway && store != nil && cfg.Gateway != nil:
		found, err := store.Load(profile)
		if err != nil {
			return // there is no such profile
		}
		p.Profile, record = profile, found.Record
		if own, err = found.Definition(cfg); err != nil {
			own = service.Definition{}
		}
	default:
		return
	}
	p.Recorded = true
	p.Ours = p.Fault == "" && string(p.source) == string(service.Encode(own))
	if record.Desired != service.IntentNone {
		p.Desired, p.Start = record.Desired, record.Desired == service.Running
	}
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
	for name, e := range r.names {
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
	r.understand(&p, e, err)
	if own, ok := r.settings.Current().Services[name]; ok && recorded && r.settings.Holds(name) {
		// whatever its slot says
		p.Value, p.source, p.Fault, p.Ours = own, service.Encode(own), "", true
		p.Fingerprint, e.refused = fingerprint(p.source), ""
	}
	e.profile, e.recorded, e.ours, e.fault = profile, recorded, p.Ours, p.Fault
	if p.Fault == "" {
		e.source, e.size = p.Fingerprint, len(p.source)
		r.sources += e.size
	}
	switch {
	case e.unpublished:
		r.republishSoon(p)
	case missing(err):
		e.slot = gone // it was there: somebody took it away
	}
	r.names[name] = e
	return p
}

// Restored tells what became of a service that was recalled: it is on its way
// out, or supervised as before.
func (r *Registry) Restored(name string, leaving bool) {
	e := r.names[name]
	if e.life = Supervised; leaving {
		e.life, e.gone = Leaving, make(chan struct{})
	}
	r.watch.slot(name)
}
