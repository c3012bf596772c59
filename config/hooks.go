package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/document"
	"rlminit/service"
)

// Hook is a command that is run, as a job, when something happens to services, jobs or
// the container.
type Hook struct {
	Name     string     // no other hook has it
	On       []Occasion // at least one
	Services []string   // whose; empty: anybody's, and of a threshold the container's
	Command  []string
	Timeout  time.Duration
}

// Occasion is an event of a hook: a word, or a threshold.
type Occasion struct {
	Word      string // of OnWords; "": it is the threshold
	Threshold Threshold
}

// Threshold is how much of something may be in use. It is crossed when that was reached
// for all of For, and taken back when it was not for as long.
type Threshold struct {
	Memory, CPU, Disk int // per cent; 0: it is not about that
	For               time.Duration
}

// Bound is one thing that a threshold is about.
type Bound struct {
	What string // memory, cpu, disk
	Most int    // per cent
}

// Bounds are the values of a threshold, at least one.
func (t Threshold) Bounds() []Bound {
	all := []Bound{{"memory", t.Memory}, {"cpu", t.CPU}, {"disk", t.Disk}}
	return slices.DeleteFunc(all, func(b Bound) bool { return b.Most == 0 })
}

// String is an occasion as a person writes it.
func (o Occasion) String() string {
	if o.Word != "" {
		return o.Word
	}
	var parts []string
	for _, b := range o.Threshold.Bounds() {
		parts = append(parts, fmt.Sprintf("%s: %d%%", b.What, b.Most))
	}
	if o.Threshold.For > 0 {
		parts = append(parts, fmt.Sprintf("for: %v", o.Threshold.For))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Thresholds are those that a hook is on.
func (h *Hook) Thresholds() (all []Threshold) {
	for _, o := range h.On {
		if o.Word == "" {
			all = append(all, o.Threshold)
		}
	}
	return all
}

// Words that are no state of a service.
const (
	OnJobFailed = "job-failed" // a job has ended otherwise than it should
	OnOutdated  = "outdated"   // a service's process is older than its definition
	OnIll       = "ill"        // a service's verdict came to be ill
	OnWell      = "well"       // it is ill no more
	OnFlapping  = "flapping"   // it restarts again and again
)

const (
	defaultHookTimeout = 10 * time.Second
	mostFor            = 24 * time.Hour
)

// onWords are the events of hooks besides thresholds: the states of a service, the results of its
// health probe while it runs, and the ends of jobs.
var onWords = []string{
	"ready", "running", "starting", "waiting", "stopping", "stopped", "backoff", "failed", "exited",
	"unhealthy", "healthy", OnIll, OnWell, OnFlapping, OnJobFailed, OnOutdated,
}

// hookOn reads the events of a hook: one occasion, or a list of them.
func hookOn(p *[]Occasion) document.Setter {
	return func(n document.Node) {
		items := []document.Node{n}
		switch {
		case n.Absent():
			return // hooks says that it is missing
		case n.IsList():
			var ok bool
			if items, ok = n.Items(); ok && len(items) == 0 {
				n.Fault("is empty; write on: [failed]")
			}
		}
		var list []Occasion
		for _, item := range items {
			list = append(list, occasion(item))
		}
		*p = list
	}
}

// occasion reads a word, or a mapping, which is a threshold.
func occasion(n document.Node) (o Occasion) {
	if !n.IsMapping() {
		document.OneOf(&o.Word, onWords...)(n)
		if o.Word == "ready" { // a service runs when it is ready
			o.Word = "running"
		}
		return o
	}
	t := &o.Threshold
	document.Fields{
		"memory": percent(&t.Memory), "cpu": percent(&t.CPU), "disk": percent(&t.Disk),
		"for": document.Duration(&t.For, 0),
	}.Read(n)
	if n.Describes() {
		return o
	}
	if t.For > mostFor {
		n.Get("for").Fault("%v is too long; write at most %dh", t.For, mostFor/time.Hour)
	}
	about := false // something, even if it is a fault
	n.Each(func(key, _ document.Node) { about = about || key.Key() != "for" })
	if !about {
		n.Fault("names no memory, cpu or disk; write {memory: 80%%, for: 5m}")
	}
	return o
}

// percent reads a share of something, with its sign: a bare number may be meant as another
// unit.
func percent(p *int) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok || n.Describes() {
			return
		}
		digits, signed := strings.CutSuffix(s, "%")
		value, err := strconv.Atoi(strings.TrimSpace(digits))
		switch {
		case err == nil && !signed && value >= 1 && value <= 100:
			n.Fault("%s has no unit; write %d%%", document.Quote(s), value)
		case err != nil || value < 1 || value > 100:
			n.Fault("%s is refused; write 1%% to 100%%", document.Quote(s))
		default:
			*p = value
		}
	}
}

func (p *parser) hooks(n document.Node) {
	named := map[string]bool{}
	for i, item := range n.Elements() {
		h := Hook{Timeout: defaultHookTimeout, Name: fmt.Sprintf("hook-%d", i+1)}
		d := service.Default("hook")
		document.Fields{
			"name":     hookName(&h.Name),
			"on":       hookOn(&h.On),
			"services": patternsOfNames(&h.Services),
			"command":  d.Fields()["command"],
			"timeout":  document.Duration(&h.Timeout, time.Millisecond),
		}.Read(item)
		h.Command = d.Command
		item.Needs("command", "command: [prog, arg]")
		item.Needs("on", "on: [failed]")
		for _, t := range h.Thresholds() {
			if t.Disk > 0 && len(h.Services) > 0 {
				item.Get("on").Fault("a service has no disk; take disk, or services, out")
				break
			}
		}
		if named[h.Name] && !item.Describes() {
			item.Fault("another hook is called %q; give this one another name", h.Name)
		}
		named[h.Name] = true
		p.config.Hooks = append(p.config.Hooks, h)
	}
}

// hookName reads the name of a hook, which is one as services have.
func hookName(p *string) document.Setter {
	return func(n document.Node) {
		s, ok := n.Text()
		if !ok || n.Describes() {
			return
		}
		if wrong := service.CheckName(s); wrong != "" {
			n.Fault("%s %s", document.Quote(s), wrong)
			return
		}
		*p = s
	}
}
