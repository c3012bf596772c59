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

// eventsRead is among how many events of a service those are looked for: restarts that
// follow one another are shown as one.
const eventsRead = 3 * eventsShown

// aboutBody is how one service is.
type aboutBody struct {
	row
	Retry  string // when one that failed is tried again
	CanAct bool
	Events []eventBody // what has happened to it, the latest first
}

// aboutOf asks for what there is to say of a service besides its state. The error is that of
// its events; what else cannot be told is left out.
func (p *base) aboutOf(ctx context.Context, s control.Service) (b aboutBody, err error) {
	events, err := p.ask.Events(ctx, control.EventQuery{Names: []string{s.Name}}, eventsRead)
	if err != nil {
		return b, err
	}
	b = aboutBody{row: p.withWords(ctx, []row{rowOf(s)})[0], CanAct: p.allow >= Operate}
	bodies := p.askers.bodies(events)
	if by := stoppedBy(bodies); s.State == "stopped" && by != "" && s.Reason == nil && s.Seen() == "stopped" {
		b.Why = "stopped by " + by + "; " + b.Why
	}
	if s.StatusText != nil && b.Why == clean(*s.StatusText) {
		b.Why = "" // it is among the facts
	}
	b.Events = folded(events, bodies)
	b.Events = b.Events[:min(len(b.Events), eventsShown)]
	if s.State == "failed" {
		if definition, err := p.definition(ctx, s.Name); err == nil {
			b.Retry = retryOf(s, definition)
		}
	}
	return b, nil
}

// stoppedBy is who has stopped a service, by its events; "": nobody did.
func stoppedBy(bodies []eventBody) string {
	for _, b := range bodies {
		switch {
		case b.To == "": // no transition
		case b.To != "stopped" && b.To != "stopping":
			return ""
		case b.By != "":
			return b.By
		}
	}
	return ""
}

// retryOf says when a service that failed is tried again, as its definition has it.
func retryOf(s control.Service, d control.Definition) string {
	fields := map[string]string{}
	for _, f := range d.Fields {
		fields[f.Field] = f.Value
	}
	after, err := time.ParseDuration(fields["restart.retry_failed"])
	switch {
	case d.Fault != "":
		return "when its definition is mended"
	case err != nil || after <= 0 || fields["restart.policy"] == "no" || s.Reason != nil && strings.HasSuffix(*s.Reason, ", a fatal exit code"):
		return "not by itself"
	case s.Since == nil:
		return "after retry_failed, " + tookText(after)
	}
	return "at " + clock(s.Since.Add(after)) + " UTC, after retry_failed (" + strings.TrimSuffix(strings.TrimSuffix(tookText(after), " 0 s"), " 0 min") + ")"
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
func (b aboutBody) Ended() string { return endedText(b.LastExit) }

// chartsBody are the charts of a service.
type chartsBody struct {
	Charts []chart
	Runs   bool // it has a process
}

// Measured tells whether there is anything to draw.
func (b chartsBody) Measured() bool { return !b.Charts[0].Empty }

type serviceBody struct {
	About      aboutBody
	Charts     chartsBody
	Definition *control.Definition
	Schedules  []scheduled
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
		to(w, r, servicePath(s.Name))
		return
	}
	b := serviceBody{Charts: chartsBody{chartsOf(nil), s.PID != nil}, Schedules: schedulesOf([]control.Service{s})}
	if now := p.hub.Now(); now != nil {
		b.Charts.Charts = chartsOf(now.Samples(name))
	}
	if b.About, err = p.aboutOf(r.Context(), s); err != nil {
		p.failed(w, r, err)
		return
	}
	if definition, err := p.definition(r.Context(), name); err == nil {
		b.Definition = &definition
	}
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
	out := new(bytes.Buffer)
	if err := v.about(ctx, out, now); err != nil {
		return nil, err
	}
	err := v.charts(out, now)
	return out.Bytes(), err
}

// about renders how the service is, and what has happened to it.
func (v serviceLive) about(ctx context.Context, out *bytes.Buffer, now *live.State) error {
	s, ok := now.Service(v.name)
	if !ok {
		return v.p.part(out, "service", "vanished", v.name)
	}
	about, err := v.p.aboutOf(ctx, s)
	if err != nil {
		return err
	}
	if err := v.p.part(out, "service", "about", about); err != nil {
		return err
	}
	return v.p.part(out, "service", "happened", about)
}

func (v serviceLive) charts(out *bytes.Buffer, now *live.State) error {
	s, _ := now.Service(v.name)
	return v.p.part(out, "service", "charts", chartsBody{chartsOf(now.Samples(v.name)), s.PID != nil})
}

func (v serviceLive) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	out := new(bytes.Buffer)
	touched := b.Touched[v.name] || slices.ContainsFunc(b.Events, func(e control.Event) bool { return e.Service == v.name })
	if touched {
		if err := v.about(ctx, out, now); err != nil {
			return nil, err
		}
	}
	if touched || b.Measured {
		if err := v.charts(out, now); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
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
