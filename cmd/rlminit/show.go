package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/cgroup"
	"rlminit/control"
	"rlminit/metrics"
	"rlminit/usage"
)

// shown is how much of events and log `show` has.
const shown = 10

// serviceView is a service with all that `show` tells of it.
type serviceView struct {
	Service    control.Service `json:"service"`
	Definition []sourcedField  `json:"definition"`
	Fault      string          `json:"fault"`
	Stored     *control.Stored `json:"stored"` // null: it can store no descriptor now
	control.Edges
	Processes   []processView   `json:"processes"`
	Descriptors *int            `json:"descriptors"` // of its processes; null: may not be seen
	Events      []control.Event `json:"events"`
	LastLines   []string        `json:"last_lines"`
	unsourced   error           // why nobody can tell where the definition's values come from
}

type processView struct {
	PID         int     `json:"pid"`
	Parent      int     `json:"parent"`
	Name        string  `json:"name"`
	State       string  `json:"state"`
	MemoryBytes int64   `json:"memory_bytes"`
	CPUS        float64 `json:"cpu_s"`
	Threads     int     `json:"threads"`
	Descriptors *int    `json:"descriptors"`
}

func showVerb(t *terminal) *cobra.Command {
	return formatted(t, forPrograms(t, &cobra.Command{
		Use:   "show NAME…",
		Short: "show everything about services",
		Long: `Shows the state of each service, its definition with the source of each value (a
file and line, or the default), its dependencies in both directions, its
processes with memory, CPU time and descriptors, and its last events and log
lines. Secrets are shown as ***. Where a file differs from what is in force, it
says so: rlminit reload brings the file into force.

With --json: an array of objects with service (as in status --json, with usage),
definition (field, value, source; source is null where the caller may not read
the files; not_in_force: why a value has no effect in this place), fault (why a
newer definition is not in force), stored (the descriptors that it stores:
count, and most that it may; null without a notify socket; a stop closes them),
requires, wants, after and the reverse, required_by, wanted_by, before,
processes (pid, parent, name, state as in ps, memory_bytes, cpu_s, threads,
descriptors), descriptors (of all processes; null where the caller may not see
them), events and last_lines.`,
		Example: `  rlminit show alice
  rlminit show alice --json | jq '.[0].definition[] | select(.source != "default")'`,
		Args:              atLeast("NAME"),
		ValidArgsFunction: completeServices,
		RunE: t.asking(func(cmd *cobra.Command, names []string, client *control.Client) error {
			views := []*serviceView{}
			worst := 0
			for _, name := range once(names) {
				v, err := view(cmd.Context(), client, name)
				if err != nil {
					worst = max(worst, t.report(err))
					continue
				}
				views = append(views, v)
			}
			err := answer(t, views, func() {
				for i, v := range views {
					if i > 0 {
						t.printf("\n")
					}
					v.print(t)
				}
			})
			return cmp.Or(err, status(worst))
		}),
	}, "write a JSON array"))
}

// view asks for all that is told of a service.
func view(ctx context.Context, client *control.Client, name string) (*serviceView, error) {
	s, err := client.Service(ctx, name)
	if err != nil {
		return nil, err
	}
	v := &serviceView{Service: s, Definition: []sourcedField{}, Events: []control.Event{}, LastLines: []string{}, Processes: []processView{}}
	happened := aside(func() ([]control.Event, error) { return lastEvents(ctx, client, s.Name) })
	written := aside(func() ([]string, error) { return lastLinesOf(ctx, client, s.Name) })
	d, err := client.Definition(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	v.Fault, v.Stored = d.Fault, d.Stored
	v.Definition, v.unsourced = sourced(d, s)
	v.Edges = d.Edges
	v.measure()
	if v.Events, err = happened(); err != nil {
		return nil, err
	}
	v.LastLines, err = written()
	return v, err
}

func lastLinesOf(ctx context.Context, client *control.Client, service string) ([]string, error) {
	lines := []string{}
	err := client.Logs(ctx, service, control.LogOptions{Lines: shown, Redacted: true}, func(line []byte) error {
		lines = append(lines, strings.TrimRight(string(line), "\n"))
		return nil
	})
	if err != nil && !errors.Is(err, control.ErrCut) {
		return nil, err
	}
	return lines, nil
}

func lastEvents(ctx context.Context, client *control.Client, service string) ([]control.Event, error) {
	events := []control.Event{}
	err := client.Events(ctx, control.EventQuery{Types: []string{"transition"}, Names: []string{service}, Last: new(shown)}, func(e control.Event) error {
		events = append(events, e)
		return nil
	})
	if err != nil && !errors.Is(err, control.ErrCut) {
		return nil, err
	}
	return events, nil
}

// measure adds the service's processes.
func (v *serviceView) measure() {
	if v.Service.PID == nil {
		return
	}
	all, err := usage.Related(procDir, *v.Service.PID)
	if err != nil {
		return
	}
	roots := []int{*v.Service.PID}
	sum := usage.ByRoot(all, roots, usage.Tags(procDir, roots))[roots[0]]
	if len(sum.Processes) == 0 {
		return
	}
	v.Service.Usage = metrics.UsageOf(procDir, cgroup.Find(), sum)
	total, seen := 0, true
	for _, p := range sum.Processes {
		view := processView{
			PID: p.PID, Parent: p.Parent, Name: p.Name, State: string(rune(p.State)),
			MemoryBytes: p.Memory, CPUS: p.CPU.Seconds(), Threads: p.Threads,
		}
		if n := usage.Descriptors(procDir, p.PID); n >= 0 {
			view.Descriptors = &n
			total += n
		} else {
			seen = false
		}
		v.Processes = append(v.Processes, view)
	}
	if seen {
		v.Descriptors = &total
	}
}

func (v *serviceView) print(t *terminal) {
	s := v.Service
	state := t.paint(stateColour(s.State), s.State)
	if s.Since != nil {
		state += " since " + eventTime(*s.Since)
	}
	facts(t, 13, "name:", cell{s.Name, bold})
	t.printf("%-13s %s, wanted %s\n", "state:", state, printable(s.Desired))
	facts(t, 13, "reason:", remark(s), "fault:", cell{v.Fault, red})
	if s.PID != nil {
		does := []string{"pid " + number(s.PID), "up " + uptime(s.UptimeS)}
		if u := s.Usage; u != nil {
			does = append(does, memoryText(u)+" memory", cpuText(u)+" CPU")
		}
		if v.Descriptors != nil {
			does = append(does, fmt.Sprintf("%d descriptors", *v.Descriptors))
		}
		facts(t, 13, "runs:", strings.Join(does, ", "))
	}
	if v.Stored != nil {
		facts(t, 13, "stored:", fmt.Sprintf("%d of at most %d descriptors", v.Stored.Count, v.Stored.Most))
	}
	facts(t, 13, "restarts:", s.Restarts)
	if s.Port != nil {
		facts(t, 13, "port:", number(s.Port))
	}
	of := func(names []string) string { return strings.Join(names, " ") }
	facts(t, 13, "uid:", s.UID, "requires:", of(v.Requires), "wants:", of(v.Wants), "after:", of(v.After),
		"required by:", of(v.RequiredBy), "wanted by:", of(v.WantedBy), "before:", of(v.Before))
	v.printTables(t)
}

func (v *serviceView) printTables(t *terminal) {
	t.printf("\n")
	b := new(table)
	b.header("DEFINITION", "VALUE", "FROM")
	for _, f := range v.Definition {
		from, colour := "?", faint
		if f.Source != nil {
			if from = *f.Source; from != fromDefault {
				colour = ""
			}
		}
		if f.Now != "" {
			from, colour = from+" (which says "+f.Now+" now; rlminit reload takes it up)", yellow
		}
		if f.NotInForce != "" {
			from, colour = from+" (not in force: "+f.NotInForce+")", yellow
		}
		b.row(f.Field.Field, f.Value, cell{from, colour})
	}
	b.write(t)
	if v.unsourced != nil {
		t.printf("cannot tell where values come from: %s\n", printable(v.unsourced.Error()))
	}
	if len(v.Processes) > 0 {
		t.printf("\n")
		b := new(table)
		b.header("PID", "PARENT", "STATE", "MEMORY", "CPU", "THREADS", "FDS", "NAME")
		for _, p := range v.Processes {
			u := &control.Usage{MemoryBytes: p.MemoryBytes, CPUS: p.CPUS}
			b.row(p.PID, p.Parent, p.State, memoryText(u),
				cpuText(u), p.Threads, number(p.Descriptors), p.Name)
		}
		b.write(t)
	}
	if len(v.Events) > 0 {
		t.printf("\n%s\n", t.paint(bold, "LAST EVENTS"))
		for _, e := range v.Events {
			t.printf("%s\n", eventLine(t, e))
		}
	}
	if len(v.LastLines) > 0 {
		t.printf("\n%s\n", t.paint(bold, "LAST LINES"))
		for _, l := range v.LastLines {
			t.printf("%s\n", printable(l))
		}
	}
}
