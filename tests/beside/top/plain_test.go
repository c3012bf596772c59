package top

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

// colours are what a colour begins with on a terminal.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*[34][0-7][;m]`)

func TestColours(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	for _, try := range []struct {
		env  []string
		want bool
	}{{nil, true}, {[]string{"NO_COLOR=1"}, false}} {
		s := open(t, b, usual, box.Root, try.env, verb()...)
		s.reads("gone  failed", "sick  unhealthy")
		if with := s.tmux("capture-pane", "-p", "-e"); colours.MatchString(with) != try.want {
			t.Errorf("with %q there are colours: %v\n%q", try.env, !try.want, with)
		}
		s.keys("q")
		s.ends(0)
	}
}

func TestWhereItCannotBe(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	for _, try := range []struct {
		env  []string
		user box.User
		argv []string
		code int
		says string
	}{
		{[]string{"TERM=dumb"}, box.Root, nil, 2, `rlminit: cannot draw a screen: TERM is "dumb"; set it to what the terminal is, such as xterm, or use rlminit status`},
		{nil, box.Stranger, nil, 5, "rlminit: permission denied: you are uid 10000"},
		{nil, box.Root, []string{"--evry", "1s"}, 2, "rlminit: no flag --evry; see rlminit help top"},
		{nil, box.Root, []string{"--every", "soon"}, 2, `rlminit: --every: "soon": write a time such as 5s; see rlminit help top`},
		{nil, box.Root, []string{"--every", "1ms"}, 2, "rlminit: --every takes a time from 200ms to 1h"},
		{nil, box.Root, []string{"alice"}, 2, `rlminit: unexpected argument "alice"; see rlminit help top`},
		{nil, box.Root, []string{"-h"}, 0, "Usage: rlminit top [--every TIME] [--plain]"},
		{nil, box.Service, []string{"--plain", "--help"}, 0, "Examples:"},
	} {
		if try.user != box.Root && !ns.Privileged() {
			continue
		}
		argv := append(append([]string{"env"}, try.env...), append(verb(), try.argv...)...)
		s := open(t, b, size{200, 40}, try.user, nil, argv...)
		s.ends(try.code)
		if screen := s.screen(); !strings.Contains(screen, try.says) {
			t.Errorf("%q says %q", argv, strings.TrimSpace(screen))
		}
	}
	for _, argv := range [][]string{verb(), append(verb(), "--every", "5s")} {
		if r := b.As(box.Root, argv...); r.Code != 2 || !strings.HasPrefix(r.Err, "rlminit: cannot draw a screen: this is no terminal; use docker exec -it, or rlminit status") {
			t.Errorf("without a terminal: %s", r)
		}
	}
	pure := ns.Start(t, box.Spec{Main: []string{"sleep", "inf"}})
	box.Eventually(t, long, "PID 1 is rlminit", func() (bool, any) {
		r := pure.Run("status")
		return strings.Contains(r.Err, "PID 1 is rlminit "), r
	})
	s := open(t, pure, size{200, 40}, box.Root, nil, verb()...)
	s.reads("rlminit: no rlminit answers on /run/rlminit/control.sock: PID 1 is rlminit without a configuration", "exit code 6")
	if ns.Privileged() {
		if help := b.Must("help", "top"); !strings.HasPrefix(help, "rlminit top: watch and operate services in the terminal\n") {
			t.Errorf("help says %q", help)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	b.AwaitThat("sick", "is unhealthy", func(s control.Service) bool { return s.Healthy != nil && !*s.Healthy })
	s := open(t, b, size{100, 40}, box.Service, []string{"TERM=dumb"}, append(verb(), "--plain")...)
	s.reads("6 services: 1 failed, 1 unhealthy, 4 running", `gone: failed: cannot run "/no/such/program": no such file or directory, for `, "db: running, for ", "what changes from here on:")
	b.Must("stop", "api")
	s.reads(" api: stopped")
	signals(b, "STOP")
	s.reads("the supervisor does not answer; trying again")
	signals(b, "KILL")
	s.reads("the supervisor answers again")
	b.Must("start", "api")
	s.reads(" api: running")
	if raw := s.tmux("capture-pane", "-p", "-e"); strings.Contains(raw, "\x1b") {
		t.Errorf("plain lines have escape sequences: %q", raw)
	}
	b.Shell(box.Root, "pkill -INT -x rlminit-top") // ^C would end nsenter too
	s.ends(0)
}

// TestSlowLink: where nothing changes next to nothing is written, and a key has only what
// it changes be drawn.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	b := services(t, usualServices...)
	s := begin(t, b)
	s.reads("sick  unhealthy")
	written := filepath.Join(t.TempDir(), "written")
	s.tmux("pipe-pane", "-O", "cat >"+written)
	bytes := func() int {
		content, err := os.ReadFile(written)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(content)
	}
	begun := time.Now()
	box.Eventually(t, long, "five looks", func() (bool, any) { return time.Since(begun) > 5*time.Second, nil })
	idle := bytes()
	t.Logf("figure: in 5 s without a key %d bytes are written", idle)
	if idle > 5000 {
		t.Errorf("in 5 s without a key %d bytes are written", idle)
	}
	s.keys("Down", "Up", "Down")
	s.reads("> sick")
	box.Eventually(t, long, "what the keys have drawn is written", func() (bool, any) { return bytes() > idle, nil })
	if keys := bytes() - idle; keys > 4000 {
		t.Errorf("for three keys %d bytes are written", keys)
	}
}

// TestThousandServices: a thousand are scrolled through, and cost the supervisor little.
func TestThousandServices(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 1000 {
		lines = append(lines, "svc-"+strconv.Itoa(1000+i)+": {command: [sleep, inf]}")
	}
	b := services(t, lines...)
	s := begin(t, b)
	s.reads("1,000 services", "1,000 running", "> svc-1000")
	for range 20 {
		s.keys("NPage")
	}
	s.reads("> svc-1340")
	s.keys("G")
	s.reads("> svc-1999", "svc-1982")
	s.keys("/")
	s.types("1234")
	s.reads("> svc-1234", `[filter "1234" shows 1]`)
	s.keys("Escape")
	s.reads("> svc-1234", "svc-1220")
	s.keys("g")
	s.reads("> svc-1000")

	used := func(pid int) float64 { // seconds of CPU, proc_pid_stat(5)
		fields := strings.Fields(b.Shell(box.Root, "cat /proc/"+strconv.Itoa(pid)+"/stat"))
		user, _ := strconv.Atoi(fields[13])
		system, _ := strconv.Atoi(fields[14])
		return float64(user+system) / 100
	}
	pid, begun := b.Supervisor().PID, time.Now()
	before := used(pid)
	box.Eventually(t, long, "five looks", func() (bool, any) { return time.Since(begun) > 5*time.Second, nil })
	share := (used(pid) - before) / time.Since(begun).Seconds() * 100
	t.Logf("figure: top open beside 1,000 services costs the supervisor %.1f %% of a core", share)
	if share > 10 {
		t.Errorf("top open beside 1,000 services costs the supervisor %.1f %% of a core", share)
	}
}

// TestReaders: who may read the status alone sees the list, and is told what is not permitted.
func TestReaders(t *testing.T) {
	t.Parallel()
	if !ns.Privileged() {
		t.Skip("not root: there is one user alone")
	}
	b := ns.Start(t, box.Spec{Config: contract.Config("access: {read: all}\nservices:\n  db: {command: [sleep, inf]}\n")})
	s := open(t, b, usual, box.Stranger, nil, verb()...)
	s.reads("1 service: 1 running", "> db")
	s.keys("d")
	s.reads("cannot stop db: permission denied: you are uid 10000")
	s.keys("Enter")
	s.reads("log: permission denied")
	s.keys("q")
	s.ends(0)
	if is := b.Status()["db"]; is.State != "running" || is.Desired != "running" {
		t.Errorf("db is %s", box.Describe(is))
	}
}
