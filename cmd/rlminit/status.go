package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/service"
)

type statusFlags struct {
	watch, quiet, wide bool
	kind               string // only gateways of this kind; "": all
	state              string // only services in this state, or of this verdict; "": all
}

func statusVerb(t *terminal) *cobra.Command {
	var flags statusFlags
	cmd := &cobra.Command{
		Use:   "status [NAME…]",
		Short: "show how services are",
		Long: `Shows each service with its state: stopped, waiting (for what it requires),
starting, running, unhealthy (it runs, but its health probe fails), stopping,
backoff (waiting before the next attempt), failed, exited, or scheduled (stopped
until its schedule runs it; the last column shows when). On a terminal two more
lines show rlminit's version with the pids of its init and its supervisor, and
how many services are ill, pending, ok and off. JSON has fewer
states: unhealthy is running with healthy false, scheduled is stopped with
schedule.next; the supervisor is in health --json. With -q nothing is printed,
and the exit code is 3 when a named service is not running; without names, when
a service is ill, as health --level well says. JSON has the verdict of each
service, ok, pending, ill or off, with its reason_code.

With --wide there are columns for resident memory (shared memory counts for each
process), CPU time and the number of processes, and rows for the two processes
of rlminit, which have the type tier. Where a service has a cgroup, memory and
CPU time are those of the cgroup, and PRESSURE is how much of the last ten
seconds the service waited for a resource. In JSON that is usage, with
memory_bytes, cpu_s, processes, threads and cgroup.`,
		Example: `  rlminit status
  rlminit status alice --json
  rlminit status -q alice && echo up`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			if flags.quiet && (t.json || flags.watch) {
				return misused(cmd, "-q prints nothing, so it cannot be combined with --json or --watch")
			}
			client := t.open()
			names = once(names)
			flags.wide = flags.wide || t.format == formatWide
			if err := control.CheckState(flags.state); err != nil {
				return err
			}
			if len(names) > 0 && (flags.kind != "" || flags.state != "") {
				return misused(cmd, "--kind and --state cannot be combined with names such as %q", names[0])
			}
			if flags.quiet && len(names) == 0 && flags.kind == "" && flags.state == "" {
				return allWell(cmd.Context(), client)
			}
			if flags.watch {
				return watchStatus(cmd.Context(), t, client, names, flags)
			}
			return showStatus(cmd.Context(), t, client, names, flags)
		},
	}
	f := cmd.Flags()
	formatted(t, forPrograms(t, cmd, "write a JSON array"))
	f.StringVar(&flags.kind, "kind", "", "only gateways of this `KIND`")
	f.StringVar(&flags.state, "state", "", "only services in this `STATE`, such as failed or unhealthy, or of this verdict: ok, pending, ill, off")
	f.BoolVar(&flags.wide, "wide", false, "with memory, CPU time and processes, and rlminit's own")
	f.BoolVarP(&flags.watch, "watch", "w", false, "show it again at every change, until interrupted")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "print nothing; the exit code tells")
	return cmd
}

// showStatus shows services once.
func showStatus(ctx context.Context, t *terminal, client *control.Client, names []string, flags statusFlags) error {
	services, err := flags.fetch(ctx, t, client, names)
	if flags.wide && services != nil {
		var unseen error
		if services, unseen = measure(services, len(names) == 0); err == nil {
			err = unseen
		}
	}
	switch {
	case services == nil:
	case flags.quiet:
		if err == nil && !allRunning(services) {
			err = exitStatus(control.ExitNotRunning)
		}
	default:
		if shown := show(t, services, len(names) > 0, flags); shown != nil {
			return shown
		}
		if len(names) == 0 && !t.json {
			supervisedBy(ctx, t, client, services)
		}
	}
	return err
}

// fetch is fetch, of one kind if that is asked for.
func (f statusFlags) fetch(ctx context.Context, t *terminal, client *control.Client, names []string) ([]control.Service, error) {
	services, err := fetch(ctx, t, client, names)
	if f.state != "" && services != nil {
		services = slices.DeleteFunc(services, func(s control.Service) bool { return !s.Is(f.state) })
	}
	if t.isTTY && !t.json && len(names) == 0 {
		slices.SortStableFunc(services, func(a, b control.Service) int { return a.Attention() - b.Attention() })
	}
	if f.kind == "" || services == nil {
		return services, err
	}
	services = slices.DeleteFunc(services, func(s control.Service) bool { return s.Kind == nil || *s.Kind != f.kind })
	if len(services) == 0 && err == nil {
		return nil, control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no gateway is of the kind %q; rlminit profile list shows the kind of each", f.kind))
	}
	return services, err
}

// fetch asks for the named services, or for all. A name that is not there is
// complained of, and is the error, beside the services that are; after any
// other error there are none (nil).
func fetch(ctx context.Context, t *terminal, client *control.Client, names []string) ([]control.Service, error) {
	if len(names) == 0 {
		return client.Services(ctx)
	}
	services := []control.Service{}
	worst := 0
	for _, name := range names {
		s, err := client.Service(ctx, name)
		switch exitCodeOf(err) {
		case control.ExitDone:
			services = append(services, s)
		case control.ExitNoSuchName:
			worst = max(worst, t.report(err))
		default:
			return nil, err
		}
	}
	return services, status(worst)
}

// allWell is nil if no service is ill.
func allWell(ctx context.Context, client *control.Client) error {
	health, err := client.Health(ctx, "well", nil)
	if err == nil && !health.OK {
		err = exitStatus(control.ExitNotRunning)
	}
	return err
}

func allRunning(services []control.Service) bool {
	for _, s := range services {
		if s.State != "running" {
			return false
		}
	}
	return true
}

// supervisedBy names the supervisor below the services, and tells why there may be
// profiles that are not among them. A caller that may not ask is told nothing.
func supervisedBy(ctx context.Context, t *terminal, client *control.Client, services []control.Service) {
	level := "ready"
	if slices.ContainsFunc(services, func(s control.Service) bool { return s.Profile != nil }) {
		level = "alive"
	}
	health, err := client.Health(ctx, level, nil)
	if err != nil {
		return
	}
	if by := health.Supervisor; by != nil && t.isTTY {
		t.printf("supervised by %s %s, pid %d and %d\n", printable(by.Name), printable(by.Version), by.InitPID, by.PID)
	}
	if t.isTTY {
		t.printf("%s\n", countedServices(services))
	}
	if health.Missing != "" {
		t.complain(health.Missing)
	}
	for _, lacking := range append(health.Walls, health.Unsent...) {
		t.complain(lacking)
	}
}

// countedServices says how many services have each verdict, and the states of the ill ones.
func countedServices(services []control.Service) string {
	verdicts, states, all := map[string]int{}, map[string]int{}, 0
	for _, s := range services {
		if s.Verdict == "" { // a tier of rlminit's own
			continue
		}
		all++
		verdicts[s.Verdict]++
		if s.Verdict == "ill" {
			states[s.Seen()]++
		}
	}
	var parts []string
	for _, verdict := range []string{"ill", "pending", "ok", "off"} {
		n := verdicts[verdict]
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", n, verdict)
		if verdict == "ill" {
			var of []string
			for _, state := range slices.SortedFunc(maps.Keys(states), func(a, b string) int {
				return cmp.Or(states[b]-states[a], strings.Compare(a, b))
			}) {
				of = append(of, fmt.Sprintf("%d %s", states[state], state))
			}
			part += " (" + strings.Join(of, ", ") + ")"
		}
		parts = append(parts, part)
	}
	return counted(all, "service", "services") + ": " + strings.Join(parts, ", ")
}

// show prints services for people or, with --json, for programs.
func show(t *terminal, services []control.Service, named bool, flags statusFlags) error {
	if t.json {
		return t.printJSON(services)
	}
	if len(services) == 0 {
		if !named && flags.state == "" {
			t.printf("no profile and no service yet; rlminit profile create NAME makes a profile\n")
		}
		return nil
	}
	statusTable(services, flags.wide).write(t)
	if named {
		for _, s := range services {
			lastLines(t, s)
		}
	}
	return nil
}

func statusTable(services []control.Service, wide bool) *table {
	b := new(table)
	header := []string{"NAME", "STATE", "PID", "UPTIME"}
	pressed := wide && slices.ContainsFunc(services, func(s control.Service) bool { return s.Usage != nil && s.Usage.Cgroup != nil })
	if wide {
		header = append(header, "MEMORY", "CPU", "PROCS")
	}
	if pressed {
		header = append(header, "PRESSURE")
	}
	kinds := slices.ContainsFunc(services, func(s control.Service) bool { return s.Kind != nil && *s.Kind != service.DefaultKind })
	if kinds {
		header = append(header, "KIND")
	}
	header = append(header, "RESTARTS", "PORT")
	if wide {
		header = append(header, "UID")
	}
	b.header(append(header, "REASON")...)
	for _, s := range services {
		row := []any{shortName(s), stateCell(s), number(s.PID), uptime(s.UptimeS)}
		if wide {
			row = append(row, memoryText(s.Usage), cpuText(s.Usage), processesText(s.Usage))
		}
		if pressed {
			row = append(row, pressureText(s.Usage))
		}
		if kinds {
			row = append(row, kindText(s.Kind))
		}
		row = append(row, s.Restarts, number(s.Port))
		if wide {
			row = append(row, own(s.UID))
		}
		b.row(append(row, remark(s))...)
	}
	return b
}

// stateCell is a state as people see it, with its colour.
func stateCell(s control.Service) cell {
	seen := s.Seen()
	if colour, own := map[string]string{control.Unhealthy: red, control.Scheduled: ""}[seen]; own {
		return cell{seen, colour}
	}
	return cell{seen, stateColour(seen)}
}

// kindText is the kind of a profile's gateway.
func kindText(kind *string) string {
	if kind == nil {
		return "-"
	}
	return printable(*kind)
}

// own is the uid of a profile's own user.
func own(uid *uint32) string {
	if uid == nil {
		return "-"
	}
	return strconv.FormatUint(uint64(*uid), 10)
}

// remark is what the last column says: why a service is as it is, else what it
// says of itself, else how it last ended; and of one with a schedule, when that runs it.
func remark(s control.Service) string {
	switch {
	case s.Outdated:
		return printable("outdated: " + s.OutdatedWhy + "; rlminit restart " + shortName(s))
	case s.Schedule != nil:
		text := recurrence(s.Schedule)
		if s.Reason != nil && *s.Reason != "" {
			text = *s.Reason + "; " + text
		}
		return printable(text)
	case s.Reason != nil && *s.Reason != "":
		return printable(*s.Reason)
	case s.Deadline != nil:
		return "fence " + s.Deadline.Fence + ", ends at " + eventTime(s.Deadline.At) + " unless that is moved on"
	case s.LogLostBytes > 0:
		return fmt.Sprintf("its log has lost %d bytes", s.LogLostBytes)
	case s.State == "running" && len(s.Schedules) > 0:
		return printable(nextOf(s.Schedules))
	case s.StatusText != nil && *s.StatusText != "":
		return printable(*s.StatusText)
	case s.State != "running" && s.LastExit != nil:
		return exitText(*s.LastExit)
	}
	return ""
}

// nextOf says which of the commands beside a service runs next, and when.
func nextOf(schedules map[string]control.Schedule) string {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		if next := schedules[name].Next; next != nil && (first == "" || next.Before(*schedules[first].Next)) {
			first = name
		}
	}
	if first == "" {
		return ""
	}
	return first + " runs next at " + localTime(*schedules[first].Next)
}

// recurrence says when a scheduled service runs next, and what became of it last.
func recurrence(s *control.Schedule) string {
	text := "never again"
	switch {
	case s.NotRun != "":
		text = "its schedule is not run: " + s.NotRun
	case s.Next != nil:
		text = "next at " + localTime(*s.Next)
	}
	if s.Last != nil {
		state := "runs"
		if s.LastState != nil {
			state = *s.LastState
		}
		text += fmt.Sprintf("; that of %s (job %s) %s", localTime(*s.Last), *s.LastJob, state)
	}
	return text
}

// lastLines shows the end of a failed service's log.
func lastLines(t *terminal, s control.Service) {
	if s.State != "failed" || len(s.LastLines) == 0 {
		return
	}
	name := printable(shortName(s))
	t.printf("\nlast lines of %s; see rlminit logs %s:\n", name, name)
	for _, line := range s.LastLines {
		t.printf("  %s\n", printable(line))
	}
}

func number(n *int) string {
	if n == nil || *n == 0 {
		return "-"
	}
	return strconv.Itoa(*n)
}

// uptime is a time in its two largest units.
func uptime(s *float64) string {
	if s == nil {
		return "-"
	}
	d := time.Duration(*s * float64(time.Second))
	days := int(d.Hours()) / 24
	hours, minutes, secs := int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, secs)
	}
	return fmt.Sprintf("%ds", secs)
}
