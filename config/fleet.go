package config

import (
	"time"

	"rlminit/internal/document"
	"rlminit/service"
)

// The section fleet makes the service FleetService, which runs the agent of FleetProgram.
const (
	FleetService = "fleet"
	FleetProgram = "rlminit-fleet"
)

// OwnServices are the names of the services that sections of the configuration make.
var OwnServices = []string{MainService, PageService, FleetService}

// fleet takes note of the section. FleetProgram reads it; here only release counts, the
// time for which the agent gives its claims back before it ends, and listen, where the page
// asks it.
func (p *parser) fleet(n document.Node) {
	release := time.Duration(0)
	n.Each(func(key, value document.Node) {
		switch value.Anything(); key.Key() {
		case "release":
			document.Duration(&release, 0)(value)
		case "listen":
			p.fleetAt, _ = value.Text()
		}
	})
	if n.Absent() || n.Describes() {
		return
	}
	p.sections = append(p.sections, func() {
		if d := p.made(FleetService, FleetProgram, n); d != nil {
			d.Command = append(d.Command, "agent", p.bundle.Path)
			// A container without its agent runs nothing of the fleet: it is started again, always.
			d.Control, d.Restart.Limit, d.Stop.Timeout, d.Ready = service.ControlAll, 0, d.Stop.Timeout+release, &service.Probe{Notify: true}
			d.Check(n)
		}
	})
}
