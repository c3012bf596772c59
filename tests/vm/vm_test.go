//go:build vm

package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// machine boots a machine with a configuration, and switches it off with the
// test.
func machine(t *testing.T, config string) *box.Box {
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
	if err := initramfs(initrd, k, programs, config); err != nil {
		t.Fatal(err)
	}
	p, err := New(dir, k, initrd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.PowerCut()
		if t.Failed() {
			t.Logf("the console:\n%s", p.Printed())
		}
	})
	return &box.Box{TB: t, Place: p}
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
