//go:build vm

package vm

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// engine is a container of podman's in a machine, whose host has cgroups of version 2:
// a box.Place, of which the machine's own is the host.
type engine struct {
	*Place
	id string
}

// podman runs a verb of it on the host.
func (p *Place) podman(args ...string) (box.Result, error) {
	return p.Exec(box.Root, nil, append([]string{
		"podman", "--storage-driver", "vfs", "--root", "/data/containers", "--runroot", "/run/containers",
		"--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file",
	}, args...))
}

// container starts one, with more options.
func container(t *testing.T, host *Place, options ...string) *box.Box {
	t.Helper()
	r, err := host.podman(slices.Concat([]string{
		"run", "-d", "--network", "none", "--log-driver", "k8s-file", "--cgroupns", "private", "--pids-limit", "256",
		"--tmpfs", "/run", "--tmpfs", "/tmp", "--tmpfs", "/data",
	}, options, []string{"--rootfs", "/container", "rlminit", "init", "--"})...)
	if err != nil || r.Code != 0 {
		t.Fatalf("podman run: %s, %v", r, err)
	}
	b := &box.Box{TB: t, Place: &engine{host, strings.TrimSpace(r.Out)}}
	ready(b)
	return b
}

// Exec is what `podman exec` has the runtime do; itself it takes seconds here.
func (e *engine) Exec(user box.User, in io.Reader, argv []string) (box.Result, error) {
	return e.Place.Exec(box.Root, in, append([]string{"runc", "--root", "/run/runc", "exec", "--user", fmt.Sprintf("%d:%d", user.UID, user.GID), e.id}, argv...))
}

func (e *engine) Printed() string {
	r, err := e.podman("logs", e.id)
	if err != nil {
		return err.Error()
	}
	return r.Out + r.Err
}

// TestEngine: in a container of an engine, on a host with cgroups of version 2, all is
// as in a machine of its own, where the container may write its cgroup.
func TestEngine(t *testing.T) {
	host := boot(t, crowd(hogging([]string{"memory", "forks"})...), true)
	m := container(t, host, "--privileged")
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			b := &box.Box{TB: t, Place: m.Place}
			part.test(b)
			everybodyIsAtHome(b)
		})
	}
	t.Run("Hogs", func(t *testing.T) { contained(&box.Box{TB: t, Place: m.Place}, []string{"memory", "forks"}) })
	t.Run("Exec", func(t *testing.T) {
		r, err := host.podman("exec", "-u", "1000:1000", m.Place.(*engine).id, "rlminit", "status", "calm")
		if err != nil || r.Code != 0 || !strings.Contains(r.Out, "running") {
			t.Errorf("podman exec: %s, %v", r, err)
		}
	})
	t.Run("Stop", func(t *testing.T) {
		if r, err := host.podman("stop", m.Place.(*engine).id); err != nil || r.Code != 0 {
			t.Errorf("podman stop: %s, %v", r, err)
		}
		if r, err := host.podman("inspect", "--format", "{{.State.ExitCode}}", m.Place.(*engine).id); err != nil || r.Out != "143\n" {
			t.Errorf("it ended with %s, %v; its main command ends of TERM", r, err)
		}
	})
	t.Run("ReadOnly", func(t *testing.T) { readOnly(t, host) })
}

// readOnly: in a container that may only read its cgroup limits of the process are in
// force, and it says which are not.
func readOnly(t *testing.T, host *Place) {
	b := container(t, host)
	const sentence = "limits of memory, pids, cpu are not in force for bomb, forks, hog, memory, own, spin, main: it takes a cgroup of its own, and PID 1 can make none here; see rlminit doctor"
	if out := b.Printed(); strings.Count(out, sentence) != 1 {
		t.Errorf("it says %q", out)
	}
	limits := read(b, fmt.Sprintf("/proc/%d/limits", *b.Await("own", "running").PID))
	for line := range strings.Lines(limits) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max open files") && f[3] != "77" {
			t.Error(line)
		}
	}
	for _, p := range b.Processes() {
		if strings.Contains(p.Cgroup, "services") {
			t.Errorf("%v is in %q", p.Args, p.Cgroup)
		}
	}
	if out := b.Must("doctor"); !strings.Contains(out, "cgroup v2, read-only") {
		t.Errorf("doctor: %s", out)
	}
}
