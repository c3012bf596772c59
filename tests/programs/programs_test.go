// Package programs runs programs of the real world and shell scripts of the
// nastiest kind under rlminit, in PID namespaces: what may become of a service,
// and what a person may ask of it meanwhile.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
	"rlminit/tests/ns"
)

func TestMain(m *testing.M) { os.Exit(ns.Main(m)) }

// long is how long a program may take on a busy machine.
const long = 60 * time.Second

// need skips the test where a program is missing, and names the Debian package
// that has it.
func need(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("there is no %s; install the Debian package %s", program, debian)
	}
}

// services starts a box with services, each a line of YAML: `name: {…}`.
func services(t *testing.T, lines ...string) *box.Box {
	t.Helper()
	return ns.Start(t, box.Spec{Config: contract.Services(lines...)})
}

// script is a service's command: a script of bash.
func script(text string) string { return fmt.Sprintf("command: [bash, -c, %q]", text) }

// get asks a server in the box, and returns its answer.
func get(b *box.Box, url string) string {
	b.Helper()
	r := b.As(box.Service, "gateway", "call", url)
	if r.Code != 0 {
		b.Fatalf("%s: %s", url, r)
	}
	return r.Out
}

// another waits until a service runs with another pid.
func another(b *box.Box, name string, pid int) control.Service {
	b.Helper()
	return b.AwaitThat(name, fmt.Sprintf("runs with another pid than %d", pid), func(s control.Service) bool {
		return s.State == "running" && s.PID != nil && *s.PID != pid
	})
}

// named are the processes of a program in the box.
func named(b *box.Box, program string) (pids []int) {
	b.Helper()
	for _, p := range b.Processes() {
		if p.Name == program && p.State != "Z" {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// gone checks that no process of a program is left, and no zombie of any.
func gone(b *box.Box, program string) {
	b.Helper()
	if left := named(b, program); len(left) > 0 {
		b.Errorf("%s is left, pids %v", program, left)
	}
	box.Eventually(b, long, "no zombie", func() (bool, any) {
		for _, p := range b.Processes() {
			if p.State == "Z" {
				return false, p
			}
		}
		return true, nil
	})
}

// logged waits until a service has logged something.
func logged(b *box.Box, name, what string) string {
	b.Helper()
	var out string
	box.Eventually(b, long, name+" logs "+what, func() (bool, any) {
		out = b.Must("logs", name, "-n", "1000")
		return strings.Contains(out, what), out
	})
	return out
}

// reason is why a service is as it is, "" for none.
func reason(s control.Service) string {
	if s.Reason == nil {
		return ""
	}
	return *s.Reason
}

// supervisorKilled kills tier 2 and waits until there is another that answers.
func supervisorKilled(b *box.Box) {
	b.Helper()
	old := b.Supervisor().PID
	b.Shell(box.Root, fmt.Sprintf("kill -9 %d", old))
	box.Eventually(b, long, "a new supervisor", func() (bool, any) {
		for _, p := range b.Processes() {
			if p.Parent == 1 && len(p.Args) > 1 && p.Args[1] == "supervise" && p.PID != old && p.State != "Z" {
				return true, nil
			}
		}
		return false, "none"
	})
	b.AwaitReady()
}
