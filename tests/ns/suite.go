package ns

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"rlminit/tests/box"
)

// answerTimeout is how long a box may take to boot on a busy machine.
const answerTimeout = 20 * time.Second

// programs is where rlminit and the tests' programs were built.
var programs string

// Main is the TestMain of a package whose tests make boxes with Start. It
// returns the exit code.
func Main(m *testing.M) int {
	Stage()
	if why := impossible(); why != "" {
		fmt.Println("the PID namespace tests were not run:", why)
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	// A box has a /tmp of its own. What it shares with its test lies elsewhere.
	err := os.Setenv("TMPDIR", "/var/tmp")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if programs, err = box.Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	return m.Run()
}

// Programs is the directory of rlminit, and of the programs beside it, once Main runs.
func Programs() string { return programs }

// impossible says why no box can be made here, or nothing.
func impossible() string {
	if _, err := exec.LookPath("nsenter"); err != nil {
		return "there is no nsenter; install util-linux"
	}
	if Privileged() {
		return ""
	}
	// PID 1 of the probe is this test binary, told to become true(1).
	p, err := New(box.Spec{Main: []string{}}, "/nonexistent")
	if err != nil {
		return "this kernel lets only root make namespaces (" + err.Error() + ")"
	}
	if err := p.Remove(); err != nil {
		return err.Error()
	}
	return ""
}

// Start is contract.New for namespaces.
func Start(t testing.TB, spec box.Spec) *box.Box {
	t.Helper()
	return startOf(t, spec, programs)
}

// startOf is Start with the programs of another directory.
func startOf(t testing.TB, spec box.Spec, programs string) *box.Box {
	t.Helper()
	return startIn(t, spec, programs, 0)
}

// startIn is startOf in a user namespace of so many uids.
func startIn(t testing.TB, spec box.Spec, programs string, ids int) *box.Box {
	t.Helper()
	p, err := newOf(spec, programs, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the box printed:\n%s", box.Tail(p.Printed()))
		}
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	})
	b := &box.Box{TB: t, Place: p}
	awaitAnswer(b, p, spec)
	return b
}

// awaitAnswer waits until a supervised box answers or has ended.
func awaitAnswer(b *box.Box, p *Place, spec box.Spec) {
	b.Helper()
	if spec.Config == "" {
		return
	}
	box.Eventually(b, answerTimeout, "rlminit answers or ends", func() (bool, any) {
		select {
		case <-p.ended:
			return true, nil
		default:
		}
		r, err := p.Exec(box.Service, nil, []string{"rlminit", "health"})
		return err == nil && r.Code == 0, fmt.Sprint(r, err, p.Printed())
	})
}
