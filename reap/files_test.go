package reap

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// reportRights plays the process that touches the services' files.
func reportRights() {
	r := reportSelf()
	json.NewEncoder(os.NewFile(wire.FilesFD, "asked")).Encode(r)
	os.Exit(0)
}

// The process that touches the services' files is rlminit itself, as root with no
// right but to change its ids, and with nothing of what the request says but the
// descriptor; there are never more than a few.
func TestFilesProcess(t *testing.T) {
	const supervisor = 4720
	separate := withPolicy(func(p *wire.Policy) { p.Supervisor = wire.Identity{UID: supervisor, GID: supervisor + 1} })
	asked := func(m *wire.Spawn) {
		m.Name, m.Privileged, m.Tag, m.Targets = wire.FilesProgram, true, 0, []int32{wire.FilesFD}
		m.Path, m.Argv, m.Env, m.Dir = "/bin/false", []string{"false"}, []string{"LD_PRELOAD=x"}, "/nonexistent"
	}
	l := startBox(t, separate).link
	id, out := l.spawn(t, asked)
	l.spawned(t, id)
	r := decode[report](t, out)
	want := []string{"rlminit", "rights", fmt.Sprint(supervisor), fmt.Sprint(supervisor + 1), fmt.Sprint(testUser), fmt.Sprint(testGroup), "4713", "of", "0", "0"}
	if !slices.Equal(r.Arguments, want) {
		t.Errorf("arguments %q, want %q", r.Arguments, want)
	}
	capabilities := fmt.Sprintf("%016x", 1<<unix.CAP_SETUID|1<<unix.CAP_SETGID|1<<unix.CAP_SETPCAP)
	if r.Status["Uid"] != "0 0 0 0" || r.Status["CapEff"] != capabilities || r.Status["CapBnd"] != capabilities {
		t.Errorf("uid %s, capabilities %s, bounded by %s", r.Status["Uid"], r.Status["CapEff"], r.Status["CapBnd"])
	}
	l.exited(t, id)
	for name, change := range map[string]func(*wire.Spawn){
		"a tag":              func(m *wire.Spawn) { m.Tag = lowTag },
		"another descriptor": func(m *wire.Spawn) { m.Targets = []int32{4} },
		"the terminal":       func(m *wire.Spawn) { m.Terminal = true },
	} {
		id, _ := l.spawn(t, func(m *wire.Spawn) { asked(m); change(m) })
		if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	l = startBox(t).link
	id, _ = l.spawn(t, asked)
	if failed := l.refused(t, id); failed.Step != wire.StepPolicy || !strings.Contains(failed.Reason, "no process for the services' files") {
		t.Errorf("with one uid for all: %+v", failed)
	}
}

func (l *link) refused(t *testing.T, id uint64) *wire.SpawnFailed {
	t.Helper()
	return want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
}

// Users of profiles, and the process that changes the owners of their directories, are
// as the policy has them: nobody beyond its range, with its groups, and nothing of the
// request but the user and the descriptors.
func TestProfileUsers(t *testing.T) {
	own := withPolicy(func(p *wire.Policy) {
		p.Supervisor = wire.Identity{UID: 4720, GID: 4720}
		p.Profiles = wire.Profiles{Low: 5000, High: 5001, Auto: true, Groups: []uint32{4799}}
	})
	l := startBox(t, own).link
	id, out := l.spawn(t, func(m *wire.Spawn) { m.UID, m.Tag = 5001, lowTag }, "report")
	l.spawned(t, id)
	r := decode[report](t, out)
	if r.Status["Uid"] != "5001 5001 5001 5001" || r.Status["Gid"] != "5001 5001 5001 5001" || r.Status["Groups"] != fmt.Sprintf("4799 %d", lowTag) {
		t.Errorf("uid %s, gid %s, groups %s", r.Status["Uid"], r.Status["Gid"], r.Status["Groups"])
	}
	l.exited(t, id)
	files := func(m *wire.Spawn) {
		m.Name, m.Privileged, m.Tag, m.Targets = wire.FilesProgram, true, 0, []int32{wire.FilesFD}
	}
	id, out = l.spawn(t, files)
	l.spawned(t, id)
	if r, want := decode[report](t, out), fmt.Sprintf("rlminit rights 4720 4720 %d %d 4713 of 5000 5001 4799", testUser, testGroup); strings.Join(r.Arguments, " ") != want {
		t.Errorf("arguments %q, want %q", r.Arguments, want)
	}
	l.exited(t, id)
	for _, change := range []func(*wire.Spawn){func(*wire.Spawn) {}, files} {
		for _, uid := range []uint32{1, 4720, 4999, 5002} {
			id, _ := l.spawn(t, func(m *wire.Spawn) {
				change(m)
				m.UID = uid
			})
			if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
				t.Errorf("uid %d: %+v", uid, failed)
			}
		}
	}
	for name, change := range map[string]func(*wire.Spawn){
		"nobody's":           func(m *wire.Spawn) { m.UID = 0 },
		"one beyond":         func(m *wire.Spawn) { m.UID = 5002 },
		"a tag":              func(m *wire.Spawn) { m.Tag = lowTag },
		"another descriptor": func(m *wire.Spawn) { m.Targets = []int32{4} },
	} {
		id, _ := l.spawn(t, func(m *wire.Spawn) {
			m.Name, m.Privileged, m.UID, m.Tag, m.Targets = wire.GiveProgram, true, 5000, 0, []int32{wire.GivenFD}
			change(m)
		})
		if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
			t.Errorf("%s: %+v", name, failed)
		}
	}
}

// What PID 1 makes with its own rights are directories of services in its directory for
// temporary files, whatever tier 2 asks for.
func TestPrivateDirectoriesOfPID1(t *testing.T) {
	o := commands{temporary: "/tmp/rlminit-0123456789abcdef"}
	for path, want := range map[string]bool{
		o.temporary + "/web":          true,
		o.temporary + "/..":           false,
		o.temporary + "/.":            false,
		o.temporary + "/":             false,
		o.temporary + "/a/b":          false,
		o.temporary + "/../etc":       false,
		o.temporary:                   false,
		o.temporary + "x/web":         false,
		"/etc/cron.d":                 false,
		"/tmp/rlminit-ffffffffff/web": false,
	} {
		if is := o.gives([]string{path}); is != want {
			t.Errorf("%s: %t", path, is)
		}
		if o.gives([]string{path, "/etc"}) {
			t.Errorf("%s and another", path)
		}
	}
	if (&commands{}).gives([]string{"/web"}) {
		t.Error("without such a directory")
	}
}

// The processes that make the supervisor's directories again, and that take what is root's in
// profiles, are rlminit itself, with nothing of the request but where to answer and whose.
func TestDirectoriesProcess(t *testing.T) {
	separate := withPolicy(func(p *wire.Policy) { p.Supervisor = wire.Identity{UID: 4720, GID: 4721} })
	for _, name := range []string{wire.DirectoriesProgram, wire.OwnProgram} {
		asked := func(m *wire.Spawn) {
			m.Name, m.Privileged, m.Tag, m.Targets, m.Argv = name, true, 0, []int32{1}, []string{"alice"}
		}
		l := startBox(t, separate).link
		for what, change := range map[string]func(*wire.Spawn){
			"a tag":              func(m *wire.Spawn) { m.Tag = lowTag },
			"another descriptor": func(m *wire.Spawn) { m.Targets = []int32{4} },
			"the terminal":       func(m *wire.Spawn) { m.Terminal = true },
			"a notify socket":    func(m *wire.Spawn) { m.Targets, m.Notify = nil, true },
		} {
			id, _ := l.spawn(t, func(m *wire.Spawn) { asked(m); change(m) })
			if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
				t.Errorf("%s with %s: %+v", name, what, failed)
			}
		}
		l = startBox(t).link
		id, _ := l.spawn(t, asked)
		if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
			t.Errorf("%s with one uid for all: %+v", name, failed)
		}
	}
}
