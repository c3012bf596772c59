package config

import (
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

// hookStates are what a hook can be on: the states of a service, and what its health
// probe says of it while it runs.
var hookStates = []string{
	"ready", "running", "starting", "waiting", "stopping", "stopped", "backoff", "failed", "exited",
	"unhealthy", "healthy",
}

// hookOn reads the states that a hook is on, at least one.
func hookOn(p *[]string) document.Setter {
	return func(n document.Node) {
		items, ok := n.Items()
		if ok && len(items) == 0 {
			n.Fault("is empty; write on: [failed]")
		}
		var list []string
		for _, item := range items {
			state := ""
			document.OneOf(&state, hookStates...)(item)
			if state == "ready" { // a service runs when it is ready
				state = "running"
			}
			list = append(list, state)
		}
		*p = list
	}
}

func (p *parser) hooks(n document.Node) {
	for _, item := range n.Elements() {
		h := Hook{Timeout: defaultHookTimeout}
		d := service.Default("hook")
		document.Fields{
			"on":       hookOn(&h.On),
			"services": document.Strings(&h.Services),
			"command":  d.Fields()["command"],
			"timeout":  document.Duration(&h.Timeout, time.Millisecond),
		}.Read(item)
		h.Command = d.Command
		item.Needs("command", "command: [prog, arg]")
		item.Needs("on", "on: [failed]")
		p.config.Hooks = append(p.config.Hooks, h)
	}
}
