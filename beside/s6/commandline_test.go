package s6

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		args  []string
		given string // letters, and behind = what they are given
		words []string
		ok    bool
	}{
		{nil, "", nil, true},
		{[]string{"-u", "web"}, "u", []string{"web"}, true},
		{[]string{"-ua", "web", "-d"}, "u a", []string{"web", "-d"}, true},
		{[]string{"-T", "500", "-u", "web"}, "T=500 u", []string{"web"}, true},
		{[]string{"-uT500", "web"}, "u T=500", []string{"web"}, true},
		{[]string{"-u", "--", "-web"}, "u", []string{"-web"}, true},
		{[]string{"-", "web"}, "", []string{"-", "web"}, true},
		{[]string{"-T"}, "", nil, false},
		{[]string{"-z", "web"}, "", nil, false},
		{[]string{"-uz", "web"}, "", nil, false},
	} {
		given, words, ok := (&call{args: c.args}).options("uad", "T")
		var got []string
		for _, o := range given {
			text := string(o.letter)
			if o.value != "" {
				text += "=" + o.value
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.given || ok != c.ok || ok && !slices.Equal(words, c.words) {
			t.Errorf("%q: options %q, words %q, %v", c.args, got, words, ok)
		}
	}
}

// TestExitCodes calls each command where nobody supervises, and with a wrong command line.
func TestExitCodes(t *testing.T) {
	t.Setenv("RLMINIT_RUNTIME_DIR", t.TempDir())
	for _, c := range []struct {
		line string
		code int
		says string // the beginning of stderr, which is one line
	}{
		{"s6-svc", exitUsage, "s6-svc: usage: s6-svc [ -wu"},
		{"s6-svc -u", exitUsage, "s6-svc: usage: "},
		{"s6-svc -Z web", exitUsage, "s6-svc: usage: "},
		{"s6-svc -wx web", exitUsage, "s6-svc: usage: "},
		{"s6-svc -T soon web", exitUsage, "s6-svc: usage: "},
		{"s6-svc -u /run/service", exitSystem, "s6-svc: fatal: unable to control /run/service: it is no service's directory; write /run/service/NAME"},
		{"s6-svc -u web", exitUsage, "s6-svc: fatal: unable to control web: no rlminit answers"},
		{"s6-svstat", exitUsage, "s6-svstat: usage: "},
		{"s6-svstat -o up, web", exitUsage, "s6-svstat: fatal: invalid null option field"},
		{"s6-svstat -o height web", exitUsage, "s6-svstat: fatal: invalid option field: height"},
		{"s6-svstat web", exitNo, "s6-svstat: fatal: unable to read status for web: no rlminit answers"},
		{"s6-svok", exitUsage, "s6-svok: usage: s6-svok servicedir"},
		{"s6-svok web", exitNo, ""},
		{"s6-svok /", exitNo, ""},
		{"s6-svwait", exitUsage, "s6-svwait: usage: "},
		{"s6-svwait -Z web", exitUsage, "s6-svwait: usage: "},
		{"s6-svscanctl", exitUsage, "s6-svscanctl: usage: "},
		{"s6-svscanctl -x /run/service", exitUsage, "s6-svscanctl: usage: "},
		{"s6-svscanctl -a /nowhere", exitSystem, "s6-svscanctl: fatal: unable to control /nowhere: No such file or directory"},
		{"s6-svscanctl -a /run/service", exitUsage, "s6-svscanctl: fatal: unable to control /run/service: no rlminit answers"},
		{"s6-setuidgid", exitUsage, "s6-setuidgid: usage: s6-setuidgid username prog..."},
		{"s6-setuidgid nobody", exitUsage, "s6-setuidgid: usage: "},
		{"s6-setuidgid nosuchuser true", exitNo, "s6-setuidgid: fatal: unknown user: nosuchuser"},
		{"with-contenv", exitUsage, "with-contenv: usage: with-contenv prog..."},
		{"with-contenv /nowhere/nosuch", exitNoFile, "with-contenv: fatal: unable to exec /nowhere/nosuch: No such file or directory"},
		{"with-contenv /etc/passwd", exitNotRun, "with-contenv: fatal: unable to exec /etc/passwd: Permission denied"},
	} {
		words := strings.Fields(c.line)
		var out, complaint strings.Builder
		code, known := Run(context.Background(), Streams{&out, &complaint}, "/command/"+words[0], words[1:])
		said := complaint.String()
		if !known || code != c.code || out.String() != "" || !strings.HasPrefix(said, c.says) ||
			(c.says == "") != (said == "") || strings.Count(said, "\n") > 1 {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", c.line, code, c.code, out.String(), said)
		}
	}
	if _, known := Run(context.Background(), Streams{}, "s6-log", nil); known {
		t.Error("s6-log is known")
	}
}

// TestStatus puts services into s6's words.
func TestStatus(t *testing.T) {
	at := time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC)
	before := func(s int) *time.Time { return new(at.Add(-time.Duration(s) * time.Second)) }
	up := func(s control.Service) control.Service {
		s.PID, s.UptimeS, s.Since = new(42), new(7.9), before(5)
		return s
	}
	ended := func(e control.Exit) *control.Exit {
		e.At = *before(3)
		return &e
	}
	for _, c := range []struct {
		is      control.Service
		stopped bool
		says    string
	}{
		{up(control.Service{State: "running", Desired: "running"}), false, "up (pid 42) 7 seconds"},
		{up(control.Service{State: "running", Desired: "running", Ready: new(true)}), false, "up (pid 42) 7 seconds, ready 5 seconds"},
		{up(control.Service{State: "running", Desired: "stopped"}), false, "up (pid 42) 7 seconds, normally down"},
		{up(control.Service{State: "running", Desired: "running"}), true, "up (pid 42) 7 seconds, paused"},
		{up(control.Service{State: "stopping", Desired: "stopped"}), false, "up (pid 42) 7 seconds, normally down, want down"},
		{up(control.Service{State: "stopping", Desired: "running"}), false, "up (pid 42) 7 seconds"},
		{control.Service{State: "stopped", Desired: "stopped", Since: before(5)}, false, "down (exitcode 0) 5 seconds, ready 5 seconds"},
		{control.Service{State: "stopped", Desired: "running", Since: before(5)}, false, "down (exitcode 0) 5 seconds, normally up, ready 5 seconds"},
		{control.Service{State: "backoff", Desired: "running", Since: before(2), LastExit: ended(control.Exit{Code: new(3)})}, false, "down (exitcode 3) 3 seconds, normally up, want up, ready 3 seconds"},
		{control.Service{State: "backoff", Desired: "running", Since: before(2), LastExit: ended(control.Exit{Signal: new("KILL")})}, false, "down (signal SIGKILL) 3 seconds, normally up, want up, ready 3 seconds"},
		{control.Service{State: "failed", Desired: "running", Since: before(3), LastExit: ended(control.Exit{Code: new(78)})}, false, "down (exitcode 78) 3 seconds, normally up, ready 3 seconds"},
	} {
		s := statusOf(c.is, at, func(int) bool { return c.stopped })
		if got := s.sentence(false); got != c.says {
			t.Errorf("%s, desired %s: %q, want %q", c.is.State, c.is.Desired, got, c.says)
		}
	}
	killed := statusOf(control.Service{State: "failed", LastExit: ended(control.Exit{Signal: new("KILL")})}, at, nil)
	if got := killed.sentence(true); !strings.HasPrefix(got, "down (signal 9) ") {
		t.Errorf("with -n: %q", got)
	}
	if got := tai64n(time.Unix(0, 1).UTC()); got != "@400000000000002500000001" {
		t.Errorf("the label of the epoch is %s", got)
	}
}
