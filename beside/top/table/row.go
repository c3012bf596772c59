package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/beside/top/text"
	"rlminit/control"
)

// Row is a service as it is shown. Its texts are harmless on a terminal.
type Row struct {
	Service control.Service // as it was answered: not for a terminal
	Name    string          // the profile's, where there is one
	State   string          // a word: unhealthy and scheduled are among them
	Why     string          // why it is so, or what it says of itself; "": nothing

	CPU    float64 // per cent of one processor since the measurement before; -1: not known
	Memory int64   // bytes; -1: not known

	CPUs, Memories []float32 // what the last measurements were, the oldest first

	measured time.Time // when CPUs got its last value
	used     float64   // seconds of CPU time then; -1: not known
}

const (
	samples = 60                     // that a row remembers
	apart   = 500 * time.Millisecond // the least time between two: CPU time is counted in hundredths of a second
)

// Name is what people call a service: its profile's name, where it has one.
func Name(s control.Service) string {
	if s.Profile != nil && *s.Profile != "" {
		return text.Line(*s.Profile)
	}
	return text.Line(s.Name)
}

// State is the state of a service in a word, as `rlminit status` has it.
func State(s control.Service) string { return text.Line(s.Seen()) }

// Why says why a service is as it is, else what it says of itself, else how it ended
// last, and of one with a schedule when that runs it.
func Why(s control.Service) string {
	var words []string
	add := func(word string) {
		if word != "" {
			words = append(words, word)
		}
	}
	if s.Outdated {
		add("outdated: " + cmp.Or(s.OutdatedWhy, "it runs with older values") + "; restart it")
	}
	if s.Reason != nil {
		add(*s.Reason)
	}
	if s.LogLostBytes > 0 {
		add(fmt.Sprintf("its log has lost %d bytes", s.LogLostBytes))
	}
	if s.Schedule != nil {
		add(next("", *s.Schedule))
	}
	if len(words) == 0 && s.State == "running" {
		add(soonest(s.Schedules))
	}
	if len(words) == 0 && s.StatusText != nil {
		add(*s.StatusText)
	}
	if len(words) == 0 && s.State != "running" && s.State != "starting" && s.LastExit != nil {
		add(Exit(*s.LastExit))
	}
	return text.Line(strings.Join(words, "; "))
}

// next says when a schedule runs its command.
func next(name string, s control.Schedule) string {
	switch {
	case s.NotRun != "":
		return strings.TrimLeft(name+" its schedule is not run: "+s.NotRun, " ")
	case s.Next == nil:
		return ""
	}
	return strings.TrimLeft(name+" runs next at "+s.Next.Local().Format("2006-01-02 15:04:05 MST"), " ")
}

// soonest says which of the commands beside a service runs next.
func soonest(schedules map[string]control.Schedule) string {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		if at := schedules[name].Next; at != nil && (first == "" || at.Before(*schedules[first].Next)) {
			first = name
		}
	}
	if first == "" {
		return ""
	}
	return next(first, schedules[first])
}

// Exit says how a process ended.
func Exit(e control.Exit) string {
	switch {
	case e.Signal != nil:
		return "killed by " + text.Line(*e.Signal)
	case e.Code != nil:
		return fmt.Sprintf("exit %d", *e.Code)
	}
	return "ended"
}

// update has a row be what a snapshot says of its service.
func (r *Row) update(s control.Service, at time.Time) {
	same := r.Service.PID != nil && s.PID != nil && *r.Service.PID == *s.PID
	r.Service, r.Name, r.State, r.Why = s, Name(s), State(s), Why(s)
	r.Memory = -1
	if s.Usage != nil {
		r.Memory = s.Usage.MemoryBytes
	}
	passed := at.Sub(r.measured)
	if same && passed < apart {
		return
	}
	before := r.used
	r.CPU, r.used, r.measured = -1, -1, at
	if s.Usage != nil {
		r.used = s.Usage.CPUS
		if same && before >= 0 {
			r.CPU = max(0, (r.used-before)/passed.Seconds()*100)
		}
	}
	r.CPUs, r.Memories = remember(r.CPUs, float32(r.CPU)), remember(r.Memories, float32(r.Memory))
}

func remember(values []float32, v float32) []float32 {
	if len(values) == samples {
		copy(values, values[1:])
		values[samples-1] = v
		return values
	}
	return append(values, v)
}

// Since is how long a service has been in its state at a time; "-": that is not known.
func (r *Row) Since(at time.Time) string {
	if r.Service.Since == nil {
		return "-"
	}
	return text.Age(at.Sub(*r.Service.Since))
}
