package top

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rlminit/beside/top/table"
	"rlminit/beside/top/text"
	"rlminit/beside/top/watch"
	"rlminit/control"
)

// Plain writes how services are, a line each, and then a line for each thing that changes:
// for screen readers, and where no cursor can be moved. It ends with ctx. The error is of
// the first look at the services, or of out.
func Plain(ctx context.Context, client *control.Client, every time.Duration, out io.Writer) error {
	source := watch.New(client, every)
	first, err := source.Look(ctx)
	if err != nil {
		return err
	}
	client.Notice = nil
	p := plain{out: out}
	p.list(first)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for news := range source.Follow(ctx) {
		p.news(news)
		if p.failed != nil {
			return p.failed
		}
	}
	return nil
}

// plain is what was written so far.
type plain struct {
	out    io.Writer
	failed error
	told   map[string]said // by the service's name
	silent bool            // it was said that the supervisor does not answer
}

// said is what was said of a service.
type said struct{ name, state, why string }

func sayOf(s control.Service) said {
	state := table.State(s)
	if s.Outdated {
		state += " and " + control.Outdated
	}
	return said{table.Name(s), state, table.Why(s)}
}

func (s said) String() string {
	line := s.name + ": " + s.state
	if s.why != "" {
		line += ": " + s.why
	}
	return line
}

func (p *plain) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.out, format+"\n", args...); p.failed == nil && err != nil {
		p.failed = fmt.Errorf("cannot write to standard output: %w", err)
	}
}

// list writes all services, what is ill first.
func (p *plain) list(s table.Snapshot) {
	var t table.Table
	t.Set(s)
	p.line("%s", t.Counts())
	p.told = map[string]said{}
	for _, r := range t.Shown() {
		now := sayOf(r.Service)
		p.told[r.Service.Name] = now
		line := now.String()
		if r.Service.Since != nil {
			line += ", for " + r.Since(s.At)
		}
		p.line("%s", line)
	}
	p.line("what changes from here on:")
}

// news writes what is otherwise than it was said to be.
func (p *plain) news(news watch.News) {
	switch {
	case news.Silent || news.Err != nil:
		if why := text.Line(whyOf(news)); !p.silent {
			p.silent = true
			p.line("%s", strings.TrimSuffix("the supervisor does not answer; trying again: "+why, ": "))
		}
		return
	case p.silent:
		p.silent = false
		p.line("the supervisor answers again")
	}
	clock := news.Snapshot.At.Local().Format("15:04:05")
	now := map[string]said{}
	for _, s := range news.Snapshot.Services {
		now[s.Name] = sayOf(s)
		switch was, known := p.told[s.Name]; {
		case !known:
			p.line("%s new: %s", clock, now[s.Name])
		case was != now[s.Name]:
			p.line("%s %s", clock, now[s.Name])
		}
	}
	var gone []string
	for name, was := range p.told {
		if _, there := now[name]; !there {
			gone = append(gone, was.name)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		p.line("%s %s: gone", clock, name)
	}
	p.told = now
}

func whyOf(news watch.News) string {
	if news.Err == nil {
		return ""
	}
	return why(news.Err)
}
