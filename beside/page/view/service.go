package view

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
)

// eventsShown is how many events a page shows.
const eventsShown = 100

// aboutBody is how one service is.
type aboutBody struct {
	control.Service
	Is     shown
	Why    string
	CanAct bool
	Memory int64 // bytes; negative: not known
	Charts []chart
}

func (p *Pages) aboutOf(s control.Service, samples []live.Sample) aboutBody {
	b := aboutBody{Service: s, Is: stateOf(s), Why: clean(why(s)), CanAct: p.allow >= Operate, Memory: -1}
	if s.StatusText != nil && b.Why == clean(*s.StatusText) {
		b.Why = "" // it is among the facts
	}
	b.Charts = chartsOf(samples)
	return b
}

// Verbs are what can be done to it now, the most likely one first.
func (b aboutBody) Verbs() []string {
	switch b.State {
	case "running", "starting", "waiting":
		return []string{"restart", "stop"}
	case "stopping":
		return []string{"restart"}
	case "failed", "backoff":
		return []string{"restart", "stop"}
	case "exited":
		return []string{"start", "stop"}
	}
	return []string{"start"}
}

// Ended says how its last process ended.
func (b aboutBody) Ended() string {
	switch e := b.LastExit; {
	case e == nil:
		return ""
	case e.Signal != nil:
		return "killed by " + *e.Signal
	case e.Code != nil:
		return "exit code " + itoa(*e.Code)
	}
	return ""
}

type serviceBody struct {
	About      aboutBody
	Definition *control.Definition
	Schedules  []scheduled
	Events     []eventBody
	Log        logBody
}

// Fields are those of the definition that say something of it.
func (b serviceBody) Fields() (all []nameValue) {
	if b.Definition == nil {
		return nil
	}
	for _, f := range b.Definition.Fields {
		if f.Value != "" {
			all = append(all, nameValue{f.Field, clean(f.Value)})
		}
	}
	return all
}

type nameValue struct{ Name, Value string }

func (p *Pages) service(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	after := p.now(r)
	s, err := p.ask.Service(r.Context(), name)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	if s.Name != name { // it was asked for by its profile's name
		http.Redirect(w, r, servicePath(s.Name), http.StatusFound)
		return
	}
	b := serviceBody{About: p.aboutOf(s, nil), Schedules: schedulesOf([]control.Service{s})}
	if now := p.hub.Now(); now != nil {
		b.About.Charts = chartsOf(now.Samples(name))
	}
	definition, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Definition, error) {
		return c.Definition(ctx, name)
	})
	if err == nil {
		b.Definition = &definition
	}
	events, err := p.ask.Events(r.Context(), control.EventQuery{Names: []string{name}}, eventsShown)
	if err != nil {
		p.failed(w, r, err)
		return
	}
	b.Events = eventsOf(events)
	b.Log = p.logOf(r, name)
	pg := page{Title: label(s), Nav: "overview", Live: liveQuery("service", name), After: after, Body: b}
	p.show(w, r, http.StatusOK, "service", pg)
}

// serviceLive is one service as it changes.
type serviceLive struct {
	p    *Pages
	name string
}

func (v serviceLive) Key() string { return "service " + v.name }

func (v serviceLive) Full(ctx context.Context, now *live.State) ([]byte, error) {
	events, err := v.p.ask.Events(ctx, control.EventQuery{Names: []string{v.name}}, eventsShown)
	if err != nil {
		return nil, err
	}
	out, err := v.about(now)
	if err != nil {
		return nil, err
	}
	err = v.p.events(out, events)
	return out.Bytes(), err
}

func (v serviceLive) about(now *live.State) (*bytes.Buffer, error) {
	out := new(bytes.Buffer)
	s, ok := now.Service(v.name)
	if !ok {
		return out, v.p.part(out, "service", "vanished", v.name)
	}
	about := v.p.aboutOf(s, now.Samples(v.name))
	if err := v.p.part(out, "service", "about", about); err != nil {
		return nil, err
	}
	return out, v.p.part(out, "service", "charts", about)
}

func (v serviceLive) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	out := new(bytes.Buffer)
	if b.Touched[v.name] || b.Measured {
		var err error
		if out, err = v.about(now); err != nil {
			return nil, err
		}
	}
	mine := slices.DeleteFunc(slices.Clone(b.Events), func(e control.Event) bool { return e.Service != v.name })
	err := v.p.events(out, mine)
	return out.Bytes(), err
}

// chart is a line over time, drawn by the server: so it needs no script.
type chart struct {
	Name   string // memory, CPU
	Lines  []string
	Latest string
	Most   string // the value at the top
	From   time.Time
	To     time.Time
	Words  string // the chart for who does not see it
	Empty  bool
}

// The size of a chart in its own units; the style sheet says how large it is.
const (
	chartWidth  = 600.0
	chartHeight = 120.0
)

// chartSpan is the least time that a chart shows.
const chartSpan = time.Minute

func chartsOf(samples []live.Sample) []chart {
	memory := chartOf("Memory", samples, func(s live.Sample) float64 { return float64(s.Memory) }, func(f float64) string { return sizeText(int64(f)) })
	cpu := chartOf("CPU", samples, func(s live.Sample) float64 { return s.CPU }, percentText)
	return []chart{memory, cpu}
}

func percentText(f float64) string {
	if f < 10 {
		return trimZero(f) + " %"
	}
	return itoa(int(f+0.5)) + " %"
}

// chartOf draws one value. Where nobody has looked for a while, the line has a gap.
func chartOf(name string, samples []live.Sample, value func(live.Sample) float64, text func(float64) string) chart {
	c := chart{Name: name, Empty: true}
	samples = slices.DeleteFunc(slices.Clone(samples), func(s live.Sample) bool { return value(s) < 0 })
	if len(samples) == 0 {
		c.Words = name + ": not measured yet"
		return c
	}
	c.Empty = false
	c.From, c.To = samples[0].At, samples[len(samples)-1].At
	most, least := 0.0, value(samples[0])
	for _, s := range samples {
		most, least = max(most, value(s)), min(least, value(s))
	}
	top := most * 1.1
	if top == 0 {
		top = 1
	}
	span := max(c.To.Sub(c.From), chartSpan)
	from := c.To.Add(-span)
	var line strings.Builder
	for i, s := range samples {
		if i > 0 && s.At.Sub(samples[i-1].At) > 20*time.Second {
			c.Lines = append(c.Lines, line.String())
			line.Reset()
		}
		x := chartWidth * float64(s.At.Sub(from)) / float64(span)
		y := chartHeight - chartHeight*value(s)/top
		line.WriteString(decimal(x) + "," + decimal(y) + " ")
	}
	c.Lines = append(c.Lines, line.String())
	c.Latest, c.Most = text(value(samples[len(samples)-1])), text(most)
	c.Words = name + " " + c.Latest + ", between " + text(least) + " and " + c.Most + " in the last " + tookText(c.To.Sub(c.From))
	return c
}
