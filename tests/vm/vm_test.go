//go:build vm

package vm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// machine boots a machine with a configuration, and switches it off with the
// test.
func machine(t *testing.T, config string) *box.Box {
	t.Helper()
	return &box.Box{TB: t, Place: boot(t, config, false)}
}

// boot boots a machine that is a container, or one that has an engine.
func boot(t *testing.T, config string, engine bool) *Place {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	k, err := findKernel(filepath.Join(cache, "rlminit-vm"))
	if err != nil {
		t.Fatal(err)
	}
	programs, err := box.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(programs) })
	build := exec.Command("go", "build", "-o", programs, "rlminit/tests/cmd/vminit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	initrd := filepath.Join(dir, "initrd")
	if err := initramfs(initrd, k, programs, config, engine); err != nil {
		t.Fatal(err)
	}
	memory := 512
	if engine {
		memory = 1536
	}
	p, err := New(dir, k, initrd, memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.PowerCut()
		if t.Failed() {
			t.Logf("the console:\n%s", p.Printed())
		}
	})
	return p
}

// ready waits for a boot, which takes a while where there is no KVM.
func ready(b *box.Box) {
	b.Helper()
	box.Eventually(b, 2*time.Minute, "rlminit answers", func() (bool, any) {
		r, err := b.Exec(box.Service, nil, []string{"rlminit", "health"})
		return err == nil && r.Code == 0, fmt.Sprint(r, err, b.Printed())
	})
}

// TestPowerCut: an intent that was acknowledged survives that the power is cut
// right after.
func TestPowerCut(t *testing.T) {
	b := machine(t, contract.Config())
	ready(b)
	wanted := map[string]string{}
	for round := range 5 {
		// Each round makes one, and turns all others round.
		for name, state := range wanted {
			verb, turned := "stop", "stopped"
			if state == "stopped" {
				verb, turned = "start", "running"
			}
			b.Must(verb, name)
			wanted[name] = turned
		}
		name := fmt.Sprintf("p%d", round)
		b.Must("profile", "create", name)
		wanted[name] = "running"

		b.Place.(*Place).PowerCut()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		ready(b)
		for name, state := range wanted {
			b.Await("gateway-"+name, state)
		}
		if n := len(b.Status()); n != len(wanted) {
			t.Errorf("%d services, want %d", n, len(wanted))
		}
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}

// TestPowerCutUnderCommands: the power is cut at any moment, and not between two
// commands, and the clock steps while there is none. What was acknowledged last of
// each profile is true of it; the one command without an answer is carried out or
// not, and never by half. Three cuts, or RLMINIT_CUTS, with RLMINIT_CHAOS_SEED.
func TestPowerCutUnderCommands(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cuts, seed := number("RLMINIT_CUTS", 3), number("RLMINIT_CHAOS_SEED", rand.Uint64())
	t.Logf("figure: power cuts: seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	b := machine(t, contract.Config())
	ready(b)
	truth := map[string]string{} // the state that was acknowledged last; "": unknown
	acknowledged, unanswered := 0, 0
	for range cuts {
		at := time.Now().Add(time.Second + time.Duration(r.Int64N(int64(8*time.Second))))
		cut := time.AfterFunc(time.Until(at), b.Place.(*Place).PowerCut)
		for {
			name := fmt.Sprintf("p%d", r.IntN(4))
			args, next := []string{"profile", "create", name}, "running"
			if was, known := truth[name]; known && (was == "running" || was == "" && r.IntN(2) == 0) {
				args, next = []string{"stop", name}, "stopped"
			} else if known {
				args = []string{"start", name}
			}
			answer, err := b.Exec(box.Service, nil, append([]string{"rlminit"}, args...))
			if err != nil { // there is nobody any more
				truth[name] = ""
				unanswered++
				break
			}
			if answer.Code == 0 {
				truth[name] = next
				acknowledged++
			} else if time.Now().Before(at) && truth[name] != "" {
				t.Errorf("%q: %s", args, answer)
			}
		}
		cut.Stop()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		ready(b)
		b.As(box.Root, "nasty", "clock", strconv.Itoa(r.IntN(2*86400)-86400))
		status := b.Status()
		for name, want := range truth {
			s, there := status["gateway-"+name]
			if want == "" && !there {
				delete(truth, name) // it was not made
				continue
			}
			if want == "" {
				want = string(s.Desired)
				truth[name] = want
			}
			b.Await("gateway-"+name, want)
		}
		if len(status) != len(truth) {
			t.Errorf("%d services, want %d", len(status), len(truth))
		}
		if answer := b.As(box.Root, "rlminit", "journal", "verify"); answer.Code != 0 {
			t.Errorf("the journal: %s", answer)
		}
	}
	t.Logf("figure: power cuts: %d of them, %d commands acknowledged, %d unanswered", cuts, acknowledged, unanswered)
	if acknowledged == 0 {
		t.Error("nothing happened")
	}
}
