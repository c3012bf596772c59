package s6

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/service"
)

// status is a service in the words of s6.
type status struct {
	up         bool
	wantedUp   bool
	normallyUp bool
	ready      bool // up, and its probe has succeeded
	startable  bool // down, and what follows on its end is done
	paused     bool
	pid        int
	code       int // of its last end; -1: it is up, or a signal ended it
	signal     string
	signum     int
	since      time.Time // it is up or down
	readySince time.Time
	at         time.Time // it was looked at
}

// field is one that svstat prints.
type field struct {
	name   string
	letter byte // by which it is asked for alone; 0: none
	of     func(*status) string
}

// fields are all, in the order of s6's help.
var fields = []field{
	{"up", 'u', func(s *status) string { return strconv.FormatBool(s.up) }},
	{"wantedup", 'w', func(s *status) string { return strconv.FormatBool(s.wantedUp) }},
	{"normallyup", 'N', func(s *status) string { return strconv.FormatBool(s.normallyUp) }},
	{"ready", 'r', func(s *status) string { return strconv.FormatBool(s.ready) }},
	{"paused", 0, func(s *status) string { return strconv.FormatBool(s.paused) }},
	{"pid", 'p', func(s *status) string { return strconv.Itoa(s.pid) }},
	{"exitcode", 'e', func(s *status) string { return strconv.Itoa(s.code) }},
	{"signal", 's', func(s *status) string { return s.signal }},
	{"signum", 0, func(s *status) string { return strconv.Itoa(s.signum) }},
	{"updownsince", 0, func(s *status) string { return tai64n(s.since) }},
	{"readysince", 0, func(s *status) string { return tai64n(s.readySince) }},
	{"updownfor", 't', func(s *status) string { return seconds(s.at.Sub(s.since)) }},
	{"readyfor", 0, func(s *status) string { return seconds(s.at.Sub(s.readySince)) }},
}

func fieldNames() (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// svstat tells how a service is.
func svstat(c *call) int {
	given, words, ok := c.options("nuwNrpest", "o")
	if !ok {
		return c.misused()
	}
	var asked []field
	number := false
	for _, o := range given {
		switch o.letter {
		case 'n':
			number = true
		case 'o':
			for _, name := range strings.Split(o.value, ",") {
				at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
				switch {
				case name == "" && o.value != "":
					return c.fatal(exitUsage, "invalid null option field")
				case name == "":
				case at < 0:
					return c.fatal(exitUsage, "invalid option field: %s", name)
				default:
					asked = append(asked, fields[at])
				}
			}
		default:
			asked = append(asked, fields[slices.IndexFunc(fields, func(f field) bool { return f.letter == o.letter })])
		}
	}
	if len(words) == 0 {
		return c.misused()
	}
	s, code := c.look(words[0])
	if s == nil {
		return code
	}
	if len(asked) == 0 {
		return c.print(s.sentence(number) + "\n")
	}
	values := make([]string, len(asked))
	for i, f := range asked {
		values[i] = f.of(s)
	}
	return c.print(strings.Join(values, " ") + "\n")
}

// look asks for the status of the service that a path names. Without one it has said why,
// and code is what to exit with.
func (c *call) look(path string) (s *status, code int) {
	name, err := serviceOf(path)
	if err != nil {
		return nil, c.fatal(exitNo, "unable to read status for %s: %v", path, err)
	}
	is, err := c.open().Service(c.ctx, name)
	switch {
	case unknown(err):
		return nil, c.fatal(exitNo, "unable to read status for %s: s6-supervise not running", path)
	case exits(err, control.ExitNoAnswer):
		return nil, c.fatal(exitNo, "unable to read status for %s: %s", path, because(err))
	case err != nil:
		return nil, c.fatal(exitOf(err), "unable to check %s: %s", path, because(err))
	}
	return statusOf(is, time.Now(), paused), exitDone
}

// statusOf puts a service into s6's words. Stopped tells whether a process is stopped by a
// signal.
func statusOf(is control.Service, at time.Time, stopped func(pid int) bool) *status {
	s := &status{pid: -1, signal: "NA", signum: -1, at: at, normallyUp: is.Desired == "running"}
	switch is.State {
	case "waiting", "starting", "running", "backoff":
		s.wantedUp = true
	case "stopping":
		s.wantedUp = s.normallyUp
	}
	changed := at
	if is.Since != nil {
		changed = *is.Since
	}
	s.since, s.readySince = changed, changed
	if is.PID != nil {
		s.up, s.pid, s.code = true, *is.PID, -1
		s.paused = stopped(s.pid)
		if is.UptimeS != nil {
			s.since = at.Add(-time.Duration(*is.UptimeS * float64(time.Second)))
		}
		s.ready = is.Ready != nil && *is.Ready
		return s
	}
	s.startable = is.State != "stopping"
	if e := is.LastExit; e != nil {
		s.since = e.At
		if s.readySince.Before(e.At) || is.State != "stopped" {
			s.readySince = e.At
		}
		if e.Code != nil {
			s.code = *e.Code
		}
		if e.Signal != nil {
			s.code, s.signal, s.signum = -1, "SIG"+*e.Signal, signalNumber(*e.Signal)
		}
	}
	return s
}

// sentence is the status for people. Number asks for signals by number.
func (s *status) sentence(number bool) string {
	text := fmt.Sprintf("up (pid %d) ", s.pid)
	if !s.up {
		switch {
		case s.signum < 0:
			text = fmt.Sprintf("down (exitcode %d) ", s.code)
		case number:
			text = fmt.Sprintf("down (signal %d) ", s.signum)
		default:
			text = fmt.Sprintf("down (signal %s) ", s.signal)
		}
	}
	text += seconds(s.at.Sub(s.since)) + " seconds"
	for _, part := range []struct {
		says bool
		what string
	}{
		{s.up && !s.normallyUp, "normally down"},
		{!s.up && s.normallyUp, "normally up"},
		{s.up && s.paused, "paused"},
		{!s.up && s.wantedUp, "want up"},
		{s.up && !s.wantedUp, "want down"},
		{s.ready || s.startable, "ready " + seconds(s.at.Sub(s.readySince)) + " seconds"},
	} {
		if part.says {
			text += ", " + part.what
		}
	}
	return text
}

// seconds are the whole seconds of a time, which is never negative.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Floor(max(0, d).Seconds())), 10)
}

// taiAhead is how far TAI is ahead of UTC since 2017: a label counts seconds of TAI.
const taiAhead = 37

// tai64n is a time as a label of TAI64N: https://cr.yp.to/libtai/tai64.html.
func tai64n(t time.Time) string {
	return fmt.Sprintf("@%016x%08x", uint64(1)<<62+uint64(t.Unix())+taiAhead, t.Nanosecond())
}

// paused tells whether a process is stopped by a signal, proc_pid_stat(5).
func paused(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	return strings.HasPrefix(rest, "T")
}

func signalNumber(name string) int {
	number, ok := service.ParseSignal(name)
	if !ok {
		return -1
	}
	return int(number)
}

// svok tells by its exit code whether a service is supervised.
func svok(c *call) int {
	if len(c.args) == 0 {
		return c.misused()
	}
	name, err := serviceOf(c.args[0])
	if err != nil {
		return exitNo
	}
	_, err = c.open().Service(c.ctx, name)
	switch {
	case err == nil:
		return exitDone
	case unknown(err), exits(err, control.ExitNoAnswer):
		return exitNo
	}
	return c.fatal(exitSystem, "unable to check %s: %s", c.args[0], because(err))
}
