// Package top runs rlminit top in a terminal, which is tmux(1), beside a box: what is on
// the screen after each key.
package top

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

func TestMain(m *testing.M) {
	// They wait for screens, and hardly need a processor for that.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(ns.Main(m))
}

// long is how long a screen may take to show something on a busy machine.
const long = 25 * time.Second

// verb is how top is run: by rlminit, which runs what root owns, and nothing else.
func verb() []string {
	if ns.Privileged() {
		return []string{"rlminit", "top"}
	}
	return []string{"rlminit-top"}
}

// terminal is a tmux of one window, in which a command runs.
type terminal struct {
	testing.TB
	socket string
	box    *box.Box
}

// size is that of a terminal.
type size struct{ columns, lines int }

// usual is what a terminal has at least.
var usual = size{80, 24}

// open runs a command of the box in a terminal, with K=V added to its environment.
func open(t testing.TB, b *box.Box, of size, user box.User, env []string, argv ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux; install the Debian package tmux")
	}
	s := &terminal{TB: t, socket: filepath.Join(t.TempDir(), "tmux"), box: b}
	cmd := b.Place.(*ns.Place).Enter(user, argv...)
	var line strings.Builder
	line.WriteString("trap : INT; env -u NO_COLOR")
	for _, word := range append(append(cmd.Env, env...), cmd.Args...) {
		line.WriteString(" '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
	}
	line.WriteString("; echo exit code $?; exec sleep inf")
	s.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", strconv.Itoa(of.columns), "-y", strconv.Itoa(of.lines), "sleep inf",
		";", "set", "-g", "status", "off", ";", "set", "-g", "escape-time", "0")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() })
	s.resize(of)
	s.tmux("respawn-pane", "-k", line.String())
	return s
}

// begin runs top in a usual terminal, as root, and waits for the list.
func begin(t testing.TB, b *box.Box, more ...string) *terminal {
	t.Helper()
	s := open(t, b, usual, box.Root, nil, append(verb(), more...)...)
	s.reads("rlminit top", "q quit")
	return s
}

func (s *terminal) tmux(args ...string) string {
	s.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).CombinedOutput()
	if err != nil {
		s.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *terminal) resize(to size) {
	s.Helper()
	s.tmux("resize-window", "-x", strconv.Itoa(to.columns), "-y", strconv.Itoa(to.lines))
}

// keys presses keys, as tmux names them. Escape is pressed alone, and what it does is waited
// for: with a key behind it, it is another key.
func (s *terminal) keys(keys ...string) {
	s.Helper()
	if len(keys) > 1 && slices.Contains(keys, "Escape") {
		s.Fatal("Escape is not pressed alone")
	}
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// types types a text.
func (s *terminal) types(text string) {
	s.Helper()
	s.tmux("send-keys", "-l", text)
}

// screen is what is on the screen, without colours.
func (s *terminal) screen() string {
	s.Helper()
	return s.tmux("capture-pane", "-p")
}

// shows waits until the screen is as is says.
func (s *terminal) shows(what string, is func(screen string) bool) {
	s.Helper()
	box.Eventually(s.TB, long, "the screen shows "+what, func() (bool, any) {
		screen := s.screen()
		return is(screen), "\n" + screen
	})
}

// reads waits until all the words are on the screen.
func (s *terminal) reads(words ...string) {
	s.Helper()
	s.shows(strings.Join(words, " and "), func(screen string) bool {
		for _, word := range words {
			if !strings.Contains(screen, word) {
				return false
			}
		}
		return true
	})
}

// misses waits until none of the words is there any more.
func (s *terminal) misses(words ...string) {
	s.Helper()
	s.shows("no "+strings.Join(words, " nor "), func(screen string) bool {
		for _, word := range words {
			if strings.Contains(screen, word) {
				return false
			}
		}
		return true
	})
}

// ends waits until the command has ended, with an exit code.
func (s *terminal) ends(code int) {
	s.Helper()
	s.reads("exit code " + strconv.Itoa(code) + "\n")
}

// signals sends a signal to the supervisor of a box.
func signals(b *box.Box, name string) {
	b.Helper()
	b.Shell(box.Root, "kill -"+name+" "+strconv.Itoa(b.Supervisor().PID))
}

// services starts a box with services, each a line of YAML.
func services(t testing.TB, lines ...string) *box.Box {
	t.Helper()
	return ns.Start(t, box.Spec{Config: contract.Services(lines...)})
}

// there waits until a file is in a box.
func there(b *box.Box, path string) {
	b.Helper()
	box.Eventually(b, long, path+" is there", func() (bool, any) { return b.As(box.Root, "test", "-e", path).Code == 0, nil })
}
