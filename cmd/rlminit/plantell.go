package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/internal/natural"
	"rlminit/plan"
)

// tellPlan prints a plan for people. out is the file that it was written to; waits: it is
// kept for approval.
func tellPlan(t *terminal, p *plan.Plan, out string, waits bool) {
	if p.Empty() {
		what := counted(p.Summary.Profiles, "profile is", "profiles are") + " as declared"
		if p.Configures() {
			what += ", and so is the configuration"
		}
		t.printf("nothing to change: %s (%s)\n", what, p.Scope)
	}
	tellChanges(t, p)
	t.printf("scope %s, source %s, after revision %d, good until %s\n",
		p.Scope, printable(sourceText(p.Source)), p.Base.Revision, p.Expires.Format(time.RFC3339))
	where := printable(out) + " "
	switch {
	case waits && p.Empty():
		return
	case waits:
		where = ""
	case out == "":
		t.printf("hash %s (--out PLAN keeps the plan for rlminit apply)\n", p.Hash)
		return
	}
	t.printf("approve with: rlminit apply %s--approve %s%s\n", where, p.Hash, map[bool]string{true: " --allow-delete"}[p.Summary.Delete > 0])
}

// tellChanges prints the changes of a plan, and their sum.
func tellChanges(t *terminal, p *plan.Plan) {
	changes := slices.Clone(p.Changes)
	slices.SortStableFunc(changes, func(a, b plan.Change) int { return natural.Compare(a.Name, b.Name) })
	for _, c := range changes {
		mark, colour := markOf(c.Action)
		t.printf("%s %s: %s\n", t.paint(colour, mark), t.paint(bold, c.Name), printable(what(c)))
		for _, f := range c.Fields {
			tellField(t, f.Mark, f.Field, f.Old, f.New)
		}
		for _, a := range c.Services {
			if a.Effect != plan.NoEffect {
				t.printf("    %s %s: %s\n", a.Effect, printable(a.Service), printable(a.Reason))
			}
		}
		for _, note := range c.Notes {
			t.printf("    %s\n", printable(note))
		}
	}
	if !p.Empty() {
		t.printf("\n%s\n", totals(p))
	}
}

func sourceText(o plan.Origin) string {
	text := o.File
	if o.Revision != "" {
		text += " at " + o.Revision
	}
	if o.Clean {
		text += ", clean"
	}
	return text
}

func markOf(action string) (mark, colour string) {
	switch action {
	case plan.Create:
		return "+", green
	case plan.Delete:
		return "-", red
	}
	return "~", yellow
}

// what says what happens to a profile, and why.
func what(c plan.Change) string {
	does := map[string]string{
		plan.Create: "created", plan.Update: "changed", plan.Start: "started", plan.Stop: "stopped", plan.Delete: "deleted (moved into the trash)",
	}[c.Action]
	switch {
	case c.Kind == plan.KindConfiguration:
		does += map[bool]string{true: ", and restarts what is said below"}[c.Effect == plan.Restarts]
	case c.Effect == plan.Restarts:
		does += ", and restarted"
	case c.Effect == plan.Starts && c.Action != plan.Start:
		does += ", and started"
	case c.Effect == plan.Stops && c.Action == plan.Update:
		does += ", and stopped"
	case c.Effect == plan.NoEffect && c.Action == plan.Update:
		does += ", without a restart"
	}
	return does + "; " + c.Reason
}

func tellField(t *terminal, mark, field string, old, now *string) {
	colour := map[string]string{"+": green, "-": red, "~": yellow}[mark]
	value := ""
	switch {
	case old != nil && now != nil:
		value = shownValue(*old) + " -> " + shownValue(*now)
	case now != nil:
		value = shownValue(*now)
	case old != nil:
		value = shownValue(*old)
	}
	t.printf("    %s %s: %s\n", t.paint(colour, mark), printable(field), value)
}

// maxShown is how much of a value is shown, in letters.
const maxShown = 120

func shownValue(s string) string {
	if s == "" {
		return `""`
	}
	s = strings.ReplaceAll(s, "\n", `\n`)
	return printable(cut(s, maxShown, 0))
}

// totals is a plan in one line.
func totals(p *plan.Plan) string {
	s := p.Summary
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{s.Create, "to create"}, {s.Update, "to change"}, {s.Start, "to start"}, {s.Stop, "to stop"}, {s.Delete, "to delete"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	line := strings.Join(parts, ", ")
	switch {
	case s.Restarts > s.Profiles: // services of the configuration too
		line += "; restarts " + counted(s.Restarts, "service", "services")
	case s.Restarts == 1:
		line += fmt.Sprintf("; restarts 1 of %d, which keeps its port", s.Profiles)
	case s.Restarts > 1:
		line += fmt.Sprintf("; restarts %d of %d, none of them loses its port", s.Restarts, s.Profiles)
	default:
		line += "; restarts none"
	}
	return line
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
