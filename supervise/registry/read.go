package registry

import (
	"fmt"
	"os"
	"strings"

	"rlminit/internal/document"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/settings"
	"rlminit/supervise/slots"
)

// reader makes proposals of the content of slots: somebody else may have written it.
// Nothing is in force by it. The goroutine's.
type reader struct {
	slots    slots.Dir
	settings *settings.Settings
	volume   Volume
	names    *names
}

// sourcesMax is how much, in bytes, all definitions may take before a stranger's
// is refused: decoded they take several times that, and a supervisor that needs
// more memory than there is would be followed by one that does too.
const sourcesMax = 8 << 20

// understand decodes the text of a slot, or err, unless it is more of a
// stranger's than there is room for.
func (d *reader) understand(p *Proposal, e *entry, err error) {
	if err != nil {
		p.Fault = err.Error()
		return
	}
	p.Fingerprint = fingerprint(p.source)
	all := d.names.sources - e.size + len(p.source)
	if p.Fingerprint != e.configured && (len(p.source) > document.MaxSize || all > sourcesMax) {
		p.Fault = fmt.Sprintf("its definition has %d bytes; one that is put here by hand may have %d, if all have at most %d together", len(p.source), document.MaxSize, sourcesMax)
		return
	}
	d.decode(p)
}

// decode makes the definition of its source, or names the fault of that.
func (d *reader) decode(p *Proposal) {
	var faults service.Faults
	p.Value, faults = service.Decode(d.slots.File(p.Name, slots.DefinitionFile), p.Name, p.source, d.inherited)
	if of := p.Value.Profile; len(faults) > 0 {
		p.Fault = faults.Err().Error()
	} else if of != "" && p.Name != profiles.GatewayName(of) {
		p.Fault = fmt.Sprintf("it claims to be of profile %s, whose service is %s; take profile out", document.Quote(of), profiles.GatewayName(of))
	}
}

// inherited gives those of the container's variables that services see: the
// definition of a stranger must not be a way to the others. In ours nothing is
// left to be expanded.
func (d *reader) inherited(name string) (string, bool) {
	if !d.settings.Current().Inherits(name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// recognise looks whether configuration or volume have the service too that
// somebody put into the service directory: then what is recorded of it counts,
// and it may do what theirs may if it is theirs, put back.
func (d *reader) recognise(p *Proposal) {
	cfg, store := d.settings.Current(), d.volume.Store()
	profile, isGateway := strings.CutPrefix(p.Name, service.GatewayPrefix)
	var record service.Record
	own, configured := cfg.Services[p.Name]
	switch {
	case configured && store != nil:
		record = store.Records.LoadService(p.Name)
	case configured:
	case isGateway && store != nil && cfg.Gateway != nil:
		found, err := store.Load(profile)
		if err != nil {
			return // there is no such profile
		}
		p.Profile, record = profile, found.Record
		if own, err = found.Definition(cfg); err != nil {
			own = nil // it has faults
		}
	default:
		return
	}
	p.Recorded = true
	p.Ours = p.Fault == "" && own != nil && p.Fingerprint == fingerprint(service.Encode(own))
	scheduled := p.Value != nil && p.Value.Schedule != nil
	if record.Desired != service.IntentNone && !scheduled {
		p.Desired, p.Start = record.Desired, record.Desired == service.Running
	}
}
