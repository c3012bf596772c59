package view

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/usage"
	"rlminit/wire"
)

// bar is a line of the boot's timeline; the parts are widths in thousandths of the boot.
type bar struct {
	Name             string
	Service          bool
	At, Wait, Took   float64
	Began            time.Duration
	Waited, Starting time.Duration
	Outcome, After   string
	Critical         bool
}

// Words is the bar for who does not see it.
func (b bar) Words() string {
	text := b.Name + " began at " + tookText(b.Began)
	if b.Waited > 0 {
		text += ", waited for " + tookText(b.Waited)
	}
	return text + ", took " + tookText(b.Starting)
}

// TookAt is where the second part begins.
func (b bar) TookAt() float64 { return b.At + b.Wait }

type bootBody struct {
	At       time.Time
	Took     time.Duration
	Steps    []bar
	Services []bar
	More     int
	Chain    []string
	Unknown  bool
}

// barsMost is how many services the timeline shows: those that were ready last.
const barsMost = 500

func (p *Pages) boot(w http.ResponseWriter, r *http.Request) {
	report, err := p.bootReport(r)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	b := bootBody{At: report.At, Took: seconds(report.TookS), Chain: report.Chain}
	whole := report.TookS
	for _, s := range report.Steps {
		whole = max(whole, s.BeganS+s.TookS)
	}
	b.Took = seconds(whole)
	b.Unknown = len(report.Steps)+len(report.Services) == 0
	part := func(s float64) float64 { return 1000 * s / max(whole, 0.001) }
	for _, s := range report.Steps {
		b.Steps = append(b.Steps, bar{Name: s.Step, At: part(s.BeganS), Took: max(part(s.TookS), 2), Began: seconds(s.BeganS), Starting: seconds(s.TookS)})
	}
	critical := map[string]bool{}
	for _, name := range report.Chain {
		critical[name] = true
	}
	services := report.Services
	if b.More = len(services) - barsMost; b.More > 0 {
		services = services[b.More:]
	}
	for _, s := range services {
		b.Services = append(b.Services, bar{
			Name: s.Name, Service: true, At: part(s.BeganS), Wait: part(s.StartedS - s.BeganS), Took: max(part(s.ReadyS-s.StartedS), 2),
			Began: seconds(s.BeganS), Waited: seconds(s.StartedS - s.BeganS), Starting: seconds(s.ReadyS - s.StartedS),
			Outcome: s.Outcome, After: s.After, Critical: critical[s.Name],
		})
	}
	p.show(w, r, http.StatusOK, "boot", page{Title: "Boot", Nav: "boot", Body: b})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// bootReport asks for the records of this start of the container.
func (p *Pages) bootReport(r *http.Request) (analyze.Report, error) {
	var events []control.Event
	var steps []control.BootStep
	_, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (struct{}, error) {
		boot := ""
		q := control.EventQuery{Types: []string{"transition", control.TypeBooted}}
		return struct{}{}, c.Events(ctx, q, func(e control.Event) error {
			if e.Boot != boot { // what came before was an earlier start of the container
				boot, events, steps = e.Boot, nil, nil
			}
			if e.Type != control.TypeBooted {
				e.Raw = nil
				events = append(events, e)
				return nil
			}
			if steps == nil { // a later one is of a supervisor that took over
				var booted control.Booted
				if err := json.Unmarshal(e.Raw, &booted); err != nil {
					return control.Failed("cannot read the record of the boot: %v", err)
				}
				steps = booted.Steps
			}
			return nil
		})
	})
	if err != nil {
		return analyze.Report{}, err
	}
	dependencies, err := ask(r, p.base, func(ctx context.Context, c *control.Client) ([]control.Dependencies, error) {
		return c.Dependencies(ctx)
	})
	if err != nil {
		return analyze.Report{}, err
	}
	var start time.Time
	if len(events) > 0 {
		start = events[0].At
	}
	if began := usage.Began("/proc", 1); began > 0 {
		if at := time.Now().Add(began - wire.SinceBoot()); len(events) == 0 || !at.After(events[0].At) {
			start = at
		}
	}
	report := analyze.Boot(start, events, dependencies)
	report.Steps = analyze.Steps(steps)
	return report, nil
}
