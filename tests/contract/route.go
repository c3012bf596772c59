package contract

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/tests/box"
)

// routed is a configuration whose main command prints its arguments.
func routed(more string) string {
	return Config() + `  default: {}
main:
  command: [echo, main]
  subcommands: [ls]
  routes:
    - {args: [gateway, run], unless: {arg: --no-supervise, env: NO_SUPERVISE}, start: default, then: wait}
    - {args: [with, web], start: web}
    - {args: [doctor], profiles: off}
` + more
}

const webService = "services: {web: {command: [nasty, sleep], enabled: false}}\n"

// MainRouting: what the arguments begin with decides what runs.
func MainRouting(t *testing.T, start New) {
	for _, c := range []struct {
		name string
		main []string
		env  []string
		want string
		code int
	}{
		{"no arguments", nil, nil, "main\n", 0},
		{"a program", []string{"echo", "its own"}, nil, "its own\n", 0},
		{"a path", []string{"/bin/echo", "its own"}, nil, "its own\n", 0},
		{"no program", []string{"chat", "a b", ""}, nil, "main chat a b \n", 0},
		{"dashes", []string{"--version"}, nil, "main --version\n", 0},
		{"a subcommand that is a program too", []string{"ls", "/"}, nil, "main ls /\n", 0},
		{"a route, excepted by an argument", []string{"gateway", "run", "--no-supervise"}, nil, `unknown command "run"`, 1},
		{"a route, excepted by a variable", []string{"gateway", "run"}, []string{"NO_SUPERVISE=1"}, `unknown command "run"`, 1},
		{"a route that runs main", []string{"doctor"}, nil, "main doctor\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, box.Spec{Config: routed(webService), Main: c.main, Env: c.env})
			if got := exitCode(b); got != c.code || !strings.Contains(b.Printed(), c.want) {
				t.Errorf("exit code %d, printed %q; want %d and %q", got, b.Printed(), c.code, c.want)
			}
		})
	}
}

// RouteStarts: a route starts a service or a profile's gateway, and waits in
// place of the main command until the box is stopped. Stopping the gateway by
// hand does not end the box, and no intent is made of it.
func RouteStarts(t *testing.T, start New) {
	b := start(t, box.Spec{Config: routed(webService), Main: []string{"gateway", "run"}})
	s := b.Await("gateway-default", "running")
	b.Call(*s.Port, "/fault/crash?code=3", "")
	b.AwaitThat("gateway-default", "runs again", func(now control.Service) bool { return now.State == "running" && *now.PID != *s.PID })
	b.Must("stop", "default")
	b.Await("gateway-default", "stopped")
	b.Must("start", "default")
	b.Await("gateway-default", "running")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(b); got != 0 {
		t.Errorf("exit code %d", got)
	}

	b = start(t, box.Spec{Config: routed(webService), Main: []string{"with", "web"}})
	if got := exitCode(b); got != 0 || !strings.Contains(b.Printed(), "main with web") {
		t.Errorf("exit code %d, printed %q", got, b.Printed())
	}
}

// RouteWithoutProfiles: profiles: off runs a command and leaves the profiles
// alone.
func RouteWithoutProfiles(t *testing.T, start New) {
	config := Config(`main: {command: [nasty], routes: [{args: [stray], profiles: off}]}` + "\n")
	b := start(t, box.Spec{Config: config, Main: []string{"stray"}})
	b.Fails(17, "profiles are off", "profile", "create", "alice")
	if len(b.Status()) != 0 {
		t.Errorf("%v", b.Status())
	}
}

// RouteAlone: a program that is run in the place of the main command has the
// container to itself; no service is started for it, and it ends at once.
func RouteAlone(t *testing.T, start New) {
	const main = "main: {command: [nasty, sleep], routes: [{args: [], then: wait}, {program: true, alone: true}]}\n"
	config := Config() + "  default: {}\n  found_state: running\n" + main + "services: {web: {command: [nasty, sleep]}}\n"
	b := start(t, box.Spec{Config: config, Main: []string{"rlminit", "status"}})
	if got := exitCode(b); got != 0 || !strings.Contains(b.Printed(), "web   stopped") || strings.Contains(b.Printed(), "default") {
		t.Errorf("exit code %d, printed %q", got, b.Printed())
	}
	// Without arguments it supervises, and nothing else.
	b = start(t, box.Spec{Config: config})
	b.Await("web", "running")
	b.Await("gateway-default", "running")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(b); got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// ExitOn: the box lives and dies with a service, whatever main does.
func ExitOn(t *testing.T, start New) {
	config := func(services ...string) string {
		return Services(services...) + "main: {command: [\"true\"], exit_on: web}\n"
	}
	b := start(t, box.Spec{Config: config(`web: {command: [nasty, sleep]}`)})
	s := b.Await("web", "running")
	b.Must("signal", "KILL", "web") // it is started again, and the box lives on
	b.AwaitThat("web", "runs again", func(now control.Service) bool { return now.State == "running" && *now.PID != *s.PID })
	b.Run("stop", "--no-wait", "web") // what it says is lost: the box ends, and the command with it
	if got := exitCode(b); got != 128+int(unix.SIGTERM) {
		t.Errorf("stopped: exit code %d", got)
	}
	for name, c := range map[string]struct {
		service string
		want    int
	}{
		"success": {`web: {command: [nasty, exit, "0"]}`, 0},
		"no more": {`web: {command: [nasty, exit, "9"], restart: no}`, 9},
		"fatal":   {`web: {command: [nasty, exit, "78"]}`, 78},
		"limit":   {`web: {command: [nasty, exit, "5"], restart: {limit: 2, delay: 10ms}}`, 5},
		"signal":  {`web: {command: [nasty, die, "9"], restart: no}`, 137},
		"missing": {`web: {command: [no-such-program]}`, 127},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, box.Spec{Config: config(c.service)})
			if got := exitCode(b); got != c.want {
				t.Errorf("exit code %d, want %d; printed %q", got, c.want, b.Printed())
			}
		})
	}
}

// SupervisedMain: with main.restart the main command is a service, which is
// started again; when it is not, the box ends with its code.
func SupervisedMain(t *testing.T, start New) {
	config := Config("main: {command: [nasty, sleep], restart: {delay: 10ms, limit: 3, window: 60s}}\n")
	script := `trap 'echo got USR1; exit 5' USR1; echo trapped; while :; do sleep 0.02; done`
	signalled := start(t, box.Spec{Config: strings.Replace(config, "limit: 3", "limit: 1", 1), Main: []string{"bash", "-c", script}})
	printed(signalled, "trapped")
	if err := signalled.Signal(int(unix.SIGUSR1)); err != nil {
		t.Fatal(err)
	}
	printed(signalled, "got USR1")
	if got := exitCode(signalled); got != 5 {
		t.Errorf("exit code %d; printed %q", got, signalled.Printed())
	}
	b := start(t, box.Spec{Config: config})
	s := b.Await("main", "running")
	b.Must("signal", "KILL", "main")
	b.AwaitThat("main", "runs again", func(now control.Service) bool { return now.State == "running" && *now.PID != *s.PID })
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := exitCode(b); got != 128+int(unix.SIGTERM) || time.Since(began) > 8*time.Second {
		t.Errorf("exit code %d after %s", got, time.Since(began))
	}
	b = start(t, box.Spec{
		Config: strings.Replace(config, "limit: 3", "limit: 1", 1), Env: []string{"RLMINIT_SUCCESS=9"}, Main: []string{"nasty", "exit", "9"},
	})
	if got := exitCode(b); got != 0 {
		t.Errorf("a code that counts as success: exit code %d", got)
	}
	for code, main := range map[int][]string{6: {"nasty", "exit", "6"}, 0: {"true"}} {
		b := start(t, box.Spec{Config: config, Main: main})
		if got := exitCode(b); got != code {
			t.Errorf("%q: exit code %d; printed %q", main, got, b.Printed())
		}
	}
}

// BootSteps: steps run one after the other as the service user, before
// anything else.
func BootSteps(t *testing.T, start New) {
	step := func(fields string) string { return "  - {" + fields + "}\n" }
	config := Services(`web: {command: [bash, -c, "echo web >>$$RLM_HOME/order; exec nasty sleep"]}`) +
		"environment: {RLM_HOME: \"${RLMINIT_HOME}\"}\nboot:\n"
	append := func(word string) string { return `bash, -c, "echo ` + word + ` $$(id -u) >>$$RLM_HOME/order"` }

	b := start(t, box.Spec{Config: config +
		step(`command: [`+append("one")+`]`) +
		step(`name: two, command: ["false"], on_failure: continue`) +
		step(`name: three, command: [sleep, "60"], timeout: 200ms, on_failure: continue`) +
		step(`command: [`+append("four")+`]`), Main: []string{"nasty", "sleep"}})
	b.Await("web", "running")
	user := strings.TrimSpace(b.Shell(box.Service, "id -u"))
	want := "one " + user + "\nfour " + user + "\nweb\n"
	box.Eventually(b, long, "the order", func() (bool, any) {
		got := b.Shell(box.Service, `cat "`+b.Home()+`/order"`)
		return got == want, got
	})
	for _, line := range []string{
		"rlminit: boot step two failed: exit code 1; on_failure: continue",
		"rlminit: boot step three failed: it did not end within 200ms; on_failure: continue",
	} {
		if !strings.Contains(b.Printed(), line) {
			t.Errorf("no %q in %q", line, b.Printed())
		}
	}
	last := lastBoot(b)
	if three := bootStep(last, "boot step three"); three.TookS < 0.2 {
		t.Errorf("boot step three took less than its timeout: %+v", last.Steps)
	}
	four := bootStep(last, "boot step boot[3]")
	for _, web := range last.Services {
		if four.BeganS <= 0 || web.BeganS < four.BeganS+four.TookS {
			t.Errorf("%s began at %v s; the steps were %+v", web.Name, web.BeganS, last.Steps)
		}
	}
	b.As(box.Root, "kill", "-KILL", strconv.Itoa(b.Supervisor().PID))
	b.AwaitReady()
	if again := lastBoot(b); !slices.Equal(again.Steps, last.Steps) {
		t.Errorf("the steps of the boot were %+v, and are %+v", last.Steps, again.Steps)
	}

	for name, c := range map[string]struct {
		step string
		code int
		line string
	}{
		"code":    {`name: migrate, command: [bash, -c, "exit 7"]`, 7, "boot step migrate failed: exit code 7; nothing was started"},
		"signal":  {`name: migrate, command: [nasty, die, "9"]`, 137, "boot step migrate failed: killed by signal 9"},
		"missing": {`name: migrate, command: [no-such-program]`, 127, `boot step migrate failed: cannot run "no-such-program": not found in PATH`},
		"denied":  {`name: migrate, command: [/etc/passwd]`, 126, `boot step migrate failed: cannot run "/etc/passwd": permission denied`},
		"timeout": {`name: migrate, command: [nasty, deaf], timeout: 300ms`, 1, "boot step migrate failed: it did not end within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, box.Spec{Config: config + step(c.step)})
			if got := exitCode(b); got != c.code || !strings.Contains(b.Printed(), "rlminit: "+c.line) {
				t.Errorf("exit code %d, printed %q", got, b.Printed())
			}
		})
	}
}

// lastBoot waits for the record of the boot, which comes a moment after its
// services.
func lastBoot(b *box.Box) (last analyze.Report) {
	b.Helper()
	box.Eventually(b, long, "the steps of the boot", func() (bool, any) {
		out := b.Must("analyze", "--json")
		err := json.Unmarshal([]byte(out), &last)
		return err == nil && len(last.Steps) > 0, out
	})
	return last
}

// bootStep is one step of a boot; the zero value if there was none.
func bootStep(boot analyze.Report, name string) (found analyze.Step) {
	for _, s := range boot.Steps {
		if s.Step == name {
			found = s
		}
	}
	return found
}

// BootMakesEnvironment: what a boot step writes into an env_file is in the
// environment of the main command, at the first boot too; where that is no
// env_file, nothing is started.
func BootMakesEnvironment(t *testing.T, start New) {
	config := func(line string) string {
		return Config("env_file: [\"?${RLMINIT_HOME}/made.env\"]\n" +
			"boot: [{name: make, command: [bash, -c, \"echo '" + line + "' >made.env\"], working_dir: \"${RLMINIT_HOME}\"}]\n")
	}
	main := []string{"bash", "-c", `echo "made: $MADE"`}
	b := start(t, box.Spec{Config: config("MADE=now"), Main: main})
	if got := exitCode(b); got != 0 || !strings.Contains(b.Printed(), "made: now\n") {
		t.Errorf("exit code %d, printed %q", got, b.Printed())
	}
	b = start(t, box.Spec{Config: config("MADE"), Main: main})
	if got := exitCode(b); got != 78 || !strings.Contains(b.Printed(), `/made.env:1: the line has no =`) {
		t.Errorf("exit code %d, printed %q", got, b.Printed())
	}
}

// BootStepIsNamed: who asks rlminit for something while a boot step runs waits,
// and is told for what. Here the step itself asks, and waits in vain.
func BootStepIsNamed(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("boot:\n  - name: migrate\n    command: [bash, -c, \"timeout 3 rlminit status; rlminit health; exit 0\"]\n")})
	for _, line := range []string{
		"s); waiting for it\n",
		"rlminit: no answer to the health yet: boot step migrate is running (",
		"s); services are started after it\n",
	} {
		if !strings.Contains(b.Printed(), line) {
			t.Errorf("no %q in %q", line, b.Printed())
		}
	}
	if r := b.As(box.Root, "ls", "-A", "/run/rlminit/services"); r.Code != 0 || strings.Contains(r.Out, "boot") {
		t.Errorf("left behind: %s", r)
	}
}
