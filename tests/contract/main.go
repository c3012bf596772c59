package contract

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

const long = 60 * time.Second

// exitCode waits for the end of a box.
func exitCode(b *box.Box) int {
	b.Helper()
	code, err := b.Ended(long)
	if err != nil {
		b.Fatalf("%v; printed: %s", err, b.Printed())
	}
	return code
}

// MainExitCode: the main command's end is the box's end, with its exit code.
func MainExitCode(t *testing.T, start New) {
	for _, c := range []struct {
		name, config string
		main         []string
		want         int
	}{
		{"pure", "", []string{"nasty", "exit", "42"}, 42},
		{"pure, zero", "", []string{"true"}, 0},
		{"pure, signal", "", []string{"nasty", "die", "9"}, 128 + 9},
		{"supervised", Config(), []string{"nasty", "exit", "42"}, 42},
		{"supervised, signal", Config(), []string{"nasty", "die", "9"}, 128 + 9},
		{"configured", Config("main: {command: [nasty, exit, \"43\"]}\n"), nil, 43},
		{"configured, arguments", Config("main: {command: [nasty, exit]}\n"), []string{"44"}, 44},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: c.config, Main: c.main})
			if got := exitCode(b); got != c.want {
				t.Errorf("exit code %d, want %d; printed: %s", got, c.want, b.Printed())
			}
		})
	}
}

// MainNotRunnable: 127 for a command that is not there, 126 for one that is
// not executable, each with one line that says so.
func MainNotRunnable(t *testing.T, start New) {
	for _, config := range []string{"", Config(), Config("main: {restart: on-failure}\n")} {
		for main, want := range map[string]int{"no-such-program": 127, "/etc/passwd": 126} {
			b := start(t, box.Spec{Config: config, Main: []string{main}})
			if got := exitCode(b); got != want {
				t.Errorf("%s: exit code %d, want %d; configuration: %s", main, got, want, config)
			}
			if printed := b.Printed(); !strings.Contains(printed, "rlminit: ") || !strings.Contains(printed, main) {
				t.Errorf("%s: printed %q", main, printed)
			}
		}
	}
}

// MainGetsSignals: a pure init forwards what it gets, in order; under
// supervision USR1, USR2 and the like go to the main command.
func MainGetsSignals(t *testing.T, start New) {
	script := `for s in HUP USR1 USR2 WINCH QUIT; do trap "echo got $s" $s; done; trap 'echo got TERM; exit 5' TERM
		echo trapped; while :; do sleep 0.02; done`
	for _, c := range []struct {
		name, config string
		signals      []unix.Signal
	}{
		{"pure", "", []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGQUIT, unix.SIGWINCH}},
		{"supervised", Config(), []unix.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: c.config, Main: []string{"bash", "-c", script}})
			printed(b, "trapped")
			for _, s := range c.signals {
				if err := b.Signal(int(s)); err != nil {
					t.Fatal(err)
				}
				printed(b, "got "+strings.TrimPrefix(unix.SignalName(s), "SIG"))
			}
			if err := b.Signal(int(unix.SIGTERM)); err != nil {
				t.Fatal(err)
			}
			if got := exitCode(b); got != 5 {
				t.Errorf("exit code %d, want the main command's 5", got)
			}
		})
	}
}

// printed waits until the box has printed something.
func printed(b *box.Box, what string) {
	b.Helper()
	box.Eventually(b, long, "printed "+what, func() (bool, any) {
		out := b.Printed()
		return strings.Contains(out, what), out
	})
}

// MainOfAnotherUser: where main is not the services' user, what those write is
// printed all the same.
func MainOfAnotherUser(t *testing.T, start New) {
	for _, user := range []string{"root", "1234"} {
		t.Run(user, func(t *testing.T) {
			b := start(t, box.Spec{
				Config: Services(`web: {command: [bash, -c, "echo here; exec nasty sleep"]}`) + "main: {command: [nasty, sleep], user: \"" + user + "\"}\n",
			})
			printed(b, "web | here\n")
		})
	}
}

// PureInitReapsOrphans: a pure init collects whatever is left behind.
func PureInitReapsOrphans(t *testing.T, start New) {
	b := start(t, box.Spec{Main: []string{"bash", "-c", "nasty orphans 100 1; echo done; exec nasty sleep"}})
	printed(b, "orphans 100\ndone")
	b.NoZombies()
}

// InitAbilities: what other inits can do, rlminit can with and without a
// configuration: signal the main command's whole group, count an exit code as
// success, say what it reaps and what it does.
func InitAbilities(t *testing.T, start New) {
	script := `trap : USR1; (sleep 0.05 &); (trap - USR1; echo begun; exec sleep 1000) & wait $!; wait $!; exit 42`
	variables := []string{"RLMINIT_SIGNAL_GROUP=yes", "RLMINIT_SUCCESS=7,42", "RLMINIT_WARN_ON_REAP=1", "RLMINIT_VERBOSE=2"}
	keys := "warn_on_reap: \"${WARN:-on}\"\nverbose: 2\nmain: {signal_group: \"${GROUP:-true}\", exits: {success: [42]}}\n"
	for _, c := range []struct {
		name, config string
		env          []string
	}{
		{"pure, by variables", "", variables},
		{"supervised, by variables", Config(), variables},
		{"supervised, by keys", Config(keys), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: c.config, Env: c.env, Main: []string{"bash", "-c", script}})
			printed(b, "begun")
			printed(b, "rlminit: Reaped zombie process with pid=")
			if err := b.Signal(int(unix.SIGUSR1)); err != nil {
				t.Fatal(err)
			}
			if got := exitCode(b); got != 0 {
				t.Errorf("exit code %d", got)
			}
			if !strings.Contains(b.Printed(), "User defined signal 1") {
				t.Errorf("printed %q", b.Printed())
			}
		})
	}
}

// ParentDeath: a supervised main command is told when the parent of its init
// has ended, where that is asked for: of init, or of the kernel by whoever
// started it.
func ParentDeath(t *testing.T, start New) {
	b := start(t, box.Spec{Main: []string{"bash", "-c", "echo begun; exec nasty sleep"}})
	printed(b, "begun")
	for name, init := range map[string]string{
		"flag":    "rlminit init --parent-death=USR1",
		"starter": "setpriv --pdeathsig USR1 rlminit init",
	} {
		b.Write(box.Root, "/run/"+name+".yaml", "version: 1\nuser: \"1000:1000\"\nhome: \""+b.Home()+"\"\n")
		b.Shell(box.Root, `export RLMINIT_RUNTIME_DIR=/run/`+name+`; cd /run
			(`+init+` --config /run/`+name+`.yaml -- bash -c 'trap "echo got USR1; exit" USR1
				echo trapped; while :; do sleep 0.02; done' >`+name+`.log 2>&1 &
			until grep -q trapped `+name+`.log; do kill -0 $! || { cat `+name+`.log >&2; exit 1; }; sleep 0.02; done)`)
		box.Eventually(b, long, "the signal, by "+name, func() (bool, any) {
			log := b.Shell(box.Root, "cat /run/"+name+".log")
			return strings.Contains(log, "got USR1"), log
		})
	}
}
