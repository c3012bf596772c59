// Package analyze tells from the records of a boot how it went: how long its own
// steps took, how long each service waited and took to start, and which chain of
// them made the boot as long as it was. It draws that too.
//
// It is a pure function of what it is given.
package analyze

import (
	"cmp"
	"slices"
	"time"

	"rlminit/control"
)

// Service is how one service came up. Times are since the container's start.
type Service struct {
	Name    string        `json:"service"`
	Began   time.Duration `json:"-"`       // first wanted
	Started time.Duration `json:"-"`       // its process was begun
	Ready   time.Duration `json:"-"`       // it ran, or was over
	Outcome string        `json:"outcome"` // the state that it came to: running, exited, failed, backoff, …
	After   string        `json:"after"`   // of what it comes after, the last to be ready; "": nothing

	BeganS   float64 `json:"began_s"`
	StartedS float64 `json:"started_s"`
	ReadyS   float64 `json:"ready_s"`
}

// Step is a part of the boot that is rlminit's own, or a boot step of the
// configuration. Times are since the container's start, in seconds.
type Step struct {
	Step   string  `json:"step"`
	BeganS float64 `json:"began_s"`
	TookS  float64 `json:"took_s"`
}

// Report is a boot.
type Report struct {
	At       time.Time `json:"at"`       // the container's start
	TookS    float64   `json:"took_s"`   // until the last service was ready
	Steps    []Step    `json:"steps"`    // in their order; none are known of a boot without a volume
	Services []Service `json:"services"` // in the order in which they were ready
	Chain    []string  `json:"chain"`    // the critical one: the last service, what it waited for, and so on
}

// quiet is how long nothing must have happened, with nobody on the way, for the
// boot to be over.
const quiet = time.Second

// Boot makes a report of the first start of each service, as far as nobody asked
// for it. Without any such start the report has no services.
func Boot(start time.Time, events []control.Event, dependencies []control.Dependencies) Report {
	r := Report{At: start, Steps: []Step{}, Services: []Service{}, Chain: []string{}}
	byName := map[string]*Service{}
	pending, last := 0, time.Duration(0)
	for _, e := range events {
		at := max(e.At.Sub(start), 0)
		s := byName[e.Service]
		if s == nil && len(byName) > 0 && pending == 0 && at-last > quiet {
			break // what is new after that came by itself, such as a profile that was made
		}
		last = at
		switch {
		case s == nil && e.Actor == nil && (e.To == "waiting" || e.To == "starting" || e.To == "running"):
			s = &Service{Name: e.Service, Began: at, Started: -1, Ready: -1}
			byName[e.Service] = s
			pending++
		case s == nil:
			if e.Actor != nil {
				byName[e.Service] = &Service{Started: -1, Ready: -1, Outcome: "asked for"}
			}
			continue
		case s.Ready >= 0 || s.Outcome != "":
			continue // a later start, or not of the boot
		}
		switch e.To {
		case "waiting":
		case "starting":
			if s.Started < 0 {
				s.Started = at
			}
		default:
			pending--
			s.Ready, s.Outcome = at, e.To
			if s.Started < 0 {
				s.Started = at
			}
		}
	}
	for _, s := range byName {
		if s.Ready < 0 {
			continue // still on its way
		}
		s.BeganS, s.StartedS, s.ReadyS = s.Began.Seconds(), s.Started.Seconds(), s.Ready.Seconds()
		r.Services = append(r.Services, *s)
	}
	slices.SortFunc(r.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Ready, b.Ready), cmp.Compare(a.Name, b.Name))
	})
	r.blame(dependencies)
	return r
}

// Steps are those of a boot, from when each was over.
func Steps(over []control.BootStep) []Step {
	steps, began := []Step{}, 0.0
	for _, s := range over {
		at := max(s.MS/1000, began)
		steps = append(steps, Step{Step: s.Step, BeganS: began, TookS: at - began})
		began = at
	}
	return steps
}

// blame finds for each service what it waited for last, and the critical chain.
func (r *Report) blame(dependencies []control.Dependencies) {
	index := map[string]int{}
	for i, s := range r.Services {
		index[s.Name] = i
	}
	for _, d := range dependencies {
		i, there := index[d.Service]
		if !there {
			continue
		}
		s := &r.Services[i]
		last := time.Duration(-1)
		for _, name := range slices.Concat(d.Requires, d.Wants, d.After) {
			// What was ready only later cannot have been waited for.
			if j, there := index[name]; there && j != i && r.Services[j].Ready <= s.Started && r.Services[j].Ready > last {
				last, s.After = r.Services[j].Ready, name
			}
		}
	}
	if len(r.Services) == 0 {
		return
	}
	at := len(r.Services) - 1
	r.TookS = r.Services[at].ReadyS
	for {
		s := r.Services[at]
		r.Chain = append(r.Chain, s.Name)
		next, there := index[s.After]
		if !there || slices.Contains(r.Chain, s.After) {
			return
		}
		at = next
	}
}
