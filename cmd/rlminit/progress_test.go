package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	testbox "rlminit/tests/box"
)

// Whatever the terminal and the members, what is shown fits above the cursor's
// line, counts everybody, and has the worst first.
func TestProgressFits(t *testing.T) {
	states := []string{"done", "pending", "running", "failed", "cancelled"}
	for members := range 5 {
		for which := range pow(len(states), members) {
			o := control.Operation{ID: 12, Verb: "restart", State: "running"}
			done := 0
			for i := range members {
				state := states[which/pow(len(states), i)%len(states)]
				if state == "done" {
					done++
				}
				o.Members = append(o.Members, control.OperationMember{Name: fmt.Sprintf("p%d", i), State: state, Reason: "waits\x1b[2J for web"})
			}
			for height := 1; height < 9; height++ {
				checkFit(t, o, done, 1+which%60, height)
			}
		}
	}
}

func pow(n, to int) int {
	all := 1
	for range to {
		all *= n
	}
	return all
}

func checkFit(t *testing.T, o control.Operation, done, width, height int) {
	t.Helper()
	lines := progressLines(o, 3*time.Second, width, height)
	if len(lines) > height-1 || len(lines) > 1+len(o.Members) {
		t.Fatalf("%d lines in %d rows: %+v", len(lines), height, o.Members)
	}
	for _, line := range lines {
		if n := len([]rune(line.text)); n > max(width, 2) || strings.Contains(line.text, "\x1b") {
			t.Fatalf("%q in %d columns", line.text, width)
		}
	}
	lines = progressLines(o, 3*time.Second, 200, height)
	if len(lines) == 0 {
		return
	}
	if want := fmt.Sprintf("operation 12 restart: %d of %d done", done, len(o.Members)); !strings.HasPrefix(lines[0].text, want) {
		t.Fatalf("%q, want %q", lines[0].text, want)
	}
	told, last := done, 0
	for _, line := range lines[1:] {
		for _, n := range regexp.MustCompile(`\d+`).FindAllString(line.text, -1) {
			if strings.HasPrefix(line.text, "  and ") {
				var more int
				fmt.Sscan(n, &more)
				told += more
			}
		}
		for _, m := range o.Members {
			if strings.HasPrefix(line.text, "  "+m.Name+": ") {
				if told++; memberUrgency(m) < last || m.State == "done" {
					t.Fatalf("the order of %+v", lines)
				}
				last = memberUrgency(m)
			}
		}
	}
	if height > 3 && told != len(o.Members) {
		t.Fatalf("%d of %d members are told of in %d rows: %+v", told, len(o.Members), height, lines)
	}
}

// screen is a terminal that understands what progress writes.
type screen struct {
	changed chan struct{} // holds one word after any number of changes

	mu    sync.Mutex
	lines []string
	row   int
	all   string
}

var sequence = regexp.MustCompile(`^\x1b\[(\??)(\d*)([A-Za-z])`)

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all += string(b)
	s.lines, s.row = []string{""}, 0
	for text := s.all; text != ""; {
		if m := sequence.FindStringSubmatch(text); m != nil {
			switch m[1] + m[3] {
			case "A":
				n := 0
				fmt.Sscan(m[2], &n)
				s.row = max(s.row-n, 0)
			case "J":
				s.lines = append(s.lines[:s.row], "")
			}
			text = text[len(m[0]):]
			continue
		}
		switch text[0] {
		case '\r':
		case '\n':
			if s.row++; s.row == len(s.lines) {
				s.lines = append(s.lines, "")
			}
		default:
			s.lines[s.row] += text[:1]
		}
		text = text[1:]
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *screen) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (s *screen) wrote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// onScreen starts a command on a terminal of its own, its standard output
// elsewhere where out is not nil.
func onScreen(t *testing.T, cmd *exec.Cmd, out io.Writer) (keys io.Writer, s *screen, wait func()) {
	t.Helper()
	master, slave := testbox.OpenTerminal(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 80}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if out != nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	stuck := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	s = &screen{changed: make(chan struct{}, 1)}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(s, master) // until nobody has the other end open: EIO
	}()
	return master, s, func() {
		_ = cmd.Wait() // the caller looks at how it ended
		<-shown
	}
}

// slow is a box in which a restart of two goes on until it is released: one is
// done by then, and one waits.
func slow(t *testing.T) (b *box, shown func(*screen), release func(pid int)) {
	pid, wait := make(chan int, 1), make(chan struct{})
	over := sync.OnceFunc(func() { close(wait) })
	t.Cleanup(over)
	var asked atomic.Bool // whether there is a change, which nobody was told of
	now := func() control.Operation {
		p := <-pid
		pid <- p
		why := ""
		if asked.Load() {
			why = "waits for web"
		}
		return control.Operation{ID: 12, Verb: "restart", State: "running", Actor: control.Actor{UID: uint32(os.Geteuid()), PID: int32(p)}, Members: []control.OperationMember{
			{Name: "alice", State: "done", PID: 42}, {Name: "bob", State: "pending", Reason: why},
		}}
	}
	answer := func(v func() any, hold bool) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			asked.CompareAndSwap(false, r.URL.Query().Get("wait") != "")
			if hold || r.URL.Query().Get("wait") != "" {
				select {
				case <-wait:
				case <-r.Context().Done():
					return
				}
			}
			writeJSON(w, v())
		}
	}
	running := func(name string, pid int) control.Service {
		return control.Service{Name: name, State: "running", PID: ptr(pid)}
	}
	b = newBox(t, map[string]any{
		"POST /v1/services/all/restart": answer(func() any {
			return []control.Outcome{{Service: running("alice", 42), Changed: true}, {Service: running("bob", 43), Changed: true}}
		}, true),
		"GET /v1/operations": answer(func() any {
			other := now()
			other.ID, other.Actor.PID = 13, other.Actor.PID+1
			return []control.Operation{now(), other}
		}, false),
		"GET /v1/operations/12": answer(func() any {
			o := now()
			select {
			case <-wait:
				o.State, o.Members[1] = "done", control.OperationMember{Name: "bob", State: "done", PID: 43}
			default:
			}
			return o
		}, false),
	})
	shown = func(s *screen) {
		t.Helper()
		want := regexp.MustCompile(`^operation 12 restart: 1 of 2 done, \d+\.\ds\n  bob: pending: waits for web\n$`)
		late := time.After(15 * time.Second)
		for {
			text := s.shows()
			if i := strings.Index(text, "operation 12"); i >= 0 && want.MatchString(text[i:]) {
				return
			}
			select {
			case <-s.changed:
			case <-late:
				t.Fatalf("the screen shows %q", text)
			}
		}
	}
	return b, shown, func(p int) {
		if p > 0 {
			pid <- p
			return
		}
		over()
	}
}

func writeJSON(w io.Writer, v any) {
	t := &terminal{out: &output{to: w}}
	_ = t.printJSON(v) // who asked is gone
}

// On a terminal the waiting is shown in place, and of it nothing stays.
func TestProgressOnATerminal(t *testing.T) {
	for _, args := range [][]string{{"restart", "alice", "bob"}, {"restart", "--all"}, {"wait", "--operation", "12"}, {"operations", "12", "-f"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			b, shown, release := slow(t)
			cmd := b.command(args...)
			_, s, wait := onScreen(t, cmd, nil)
			release(cmd.Process.Pid)
			shown(s)
			release(0)
			wait()
			final := anyTime.ReplaceAllString(s.shows(), "0.0s")
			for _, pid := range []string{"42", "43"} {
				if !strings.Contains(final, "pid "+pid) {
					t.Errorf("not told of pid %s: %q", pid, final)
				}
			}
			if strings.Contains(final, "waits for") || strings.Contains(final, "1 of 2") || cmd.ProcessState.ExitCode() != 0 {
				t.Errorf("exit %d, the screen shows %q", cmd.ProcessState.ExitCode(), final)
			}
		})
	}
}

// What is on standard output is the same with progress and without.
func TestProgressIsNotOnStandardOutput(t *testing.T) {
	b, shown, release := slow(t)
	var out strings.Builder
	cmd := b.command("restart", "alice", "bob")
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	_, s, wait := onScreen(t, cmd, &out)
	release(cmd.Process.Pid)
	shown(s)
	release(0)
	wait()
	if got := anyTime.ReplaceAllString(out.String(), "0.0s"); got != "alice: running (pid 42, 0.0s)\nbob: running (pid 43, 0.0s)\n" || s.shows() != "" {
		t.Errorf("stdout %q, the screen shows %q", got, s.shows())
	}
	if regexp.MustCompile(`\x1b\[\d*m`).MatchString(s.wrote()) {
		t.Errorf("colour with NO_COLOR: %q", s.wrote())
	}
}

// A terminal that understands nothing is shown nothing in place, and nobody is
// asked what a person alone would want to know.
func TestNoProgressElsewhere(t *testing.T) {
	b, _, release := slow(t)
	release(0)
	cmd := b.command("restart", "alice", "bob")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	_, s, wait := onScreen(t, cmd, nil)
	wait()
	r := b.rlminit(t, "restart", "alice", "bob")
	if strings.Contains(s.wrote(), "\x1b") || r.err != "" || r.code != 0 {
		t.Errorf("on a dumb terminal %q, elsewhere %+v", s.wrote(), r)
	}
	if asked := b.requests(); slices.ContainsFunc(asked, func(request string) bool { return strings.HasPrefix(request, "GET /v1/operations") }) {
		t.Errorf("asked %q", asked)
	}
}

// ^C ends the waiting alone, leaves nothing of what was shown, and says how to come
// back.
func TestInterruptedProgress(t *testing.T) {
	for _, args := range [][]string{{"restart", "alice", "bob"}, {"wait", "--operation", "12"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			b, shown, release := slow(t)
			cmd := b.command(args...)
			keys, s, wait := onScreen(t, cmd, nil)
			release(cmd.Process.Pid)
			shown(s)
			_, _ = io.WriteString(keys, "\x03")
			wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("ended with %v, not by SIGINT", cmd.ProcessState)
			}
			text := s.shows()
			if strings.Contains(text, "waits for web") || !strings.Contains(text, "rlminit: operation 12 goes on; rlminit wait --operation 12 waits for it again, rlminit cancel 12 ends it\n") {
				t.Errorf("the screen shows %q", text)
			}
		})
	}
}
