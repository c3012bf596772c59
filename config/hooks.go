package config

import (
	"slices"
	"time"

	"rlminit/internal/document"
	"rlminit/service"
)

// Hook is a command that is run, as a job, when services come into a state.
type Hook struct {
	On       []string // states, as status says them
	Services []string // whose; empty: anybody's
	Command  []string
	Timeout  time.Duration
}

const defaultHookTimeout = 10 * time.Second

// hookStates are what a hook can be on.
var hookStates = []string{"ready", "running", "starting", "waiting", "stopping", "stopped", "backoff", "failed", "exited"}

func (p *parser) hooks(n document.Node) {
	items, _ := n.Items()
	for _, item := range items {
		h := Hook{Timeout: defaultHookTimeout}
		d := service.Default("hook")
		document.Fields{
			"on":       document.Strings(&h.On),
			"services": document.Strings(&h.Services),
			"command":  d.Fields()["command"],
			"timeout":  document.Duration(&h.Timeout, time.Millisecond),
		}.Read(item)
		h.Command = d.Command
		if item.IsMapping() && item.Get("command").Absent() {
			item.Fault("command is missing; write command: [prog, arg]")
		}
		if item.IsMapping() && len(h.On) == 0 {
			item.Fault("on is missing; write on: [failed]")
		}
		for i, on := range h.On {
			if !slices.Contains(hookStates, on) {
				item.Get("on").Fault("%s is no state; write %s", document.Quote(on), document.Or(hookStates))
			}
			if on == "ready" { // a service runs when it is ready
				h.On[i] = "running"
			}
		}
		p.config.Hooks = append(p.config.Hooks, h)
	}
}
