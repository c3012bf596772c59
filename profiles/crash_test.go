package profiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/service"
)

// openPlain opens a volume for a process that is about to be killed.
func openPlain(t *testing.T, home, template string) *Store {
	t.Helper()
	s, err := Open(nil, nil, home, Settings{
		Marker: "profile.yaml", StateFile: "gateway_state.json", Beginning: Beginning{Template: template, InitialState: service.Running},
		Ports: PortRange{First: 9200, Last: 19199},
	}, func(line string) { t.Error(line) })
	must(t, err)
	intents := NewIntents()
	j, err := journal.Open(s.Ours(), journal.Options{Boot: "a1a1a1a1", Folds: map[string]journal.Fold{"intents": intents}})
	must(t, err)
	t.Cleanup(func() { j.Close() })
	s.Records.UseJournal(j, intents, NewUsers())
	return s
}

// TestKilledAtAnyMoment kills a process that creates, stops, deletes and purges
// profiles, and holds the volume against what it had acknowledged.
func TestKilledAtAnyMoment(t *testing.T) {
	if home := os.Getenv("CRASH_HOME"); home != "" {
		s := openPlain(t, home, os.Getenv("CRASH_TEMPLATE"))
		for i := 0; ; i++ {
			name := fmt.Sprintf("p%s-%d", os.Getenv("CRASH_ROUND"), i)
			_, _, err := s.Create(name, Creation{})
			must(t, err)
			fmt.Println("created", name)
			if i%2 == 0 {
				must(t, s.Records.SaveIntent(name, service.Stopped))
				fmt.Println("stopped", name)
			}
			must(t, saveSeen(s.Records, name, Seen{State: service.SeenRunning, PID: i + 1}))
			if i%3 == 0 {
				_, err := s.Delete(name, i%2 == 0, nil)
				must(t, err)
				fmt.Println("deleted", name)
			}
			if i%9 == 3 {
				list, err := s.Trash.List()
				must(t, err)
				_, err = s.Purge(list[0].Entry, nil, func(_ Trashed, takeOut func() error) error { return takeOut() })
				must(t, err)
				fmt.Println("purged", list[0].Profile)
			}
		}
	}
	template, home := t.TempDir(), t.TempDir()
	for i := range 5 {
		must(t, os.WriteFile(filepath.Join(template, fmt.Sprint(i)), []byte("content"), 0o644))
	}
	acknowledged := map[string]string{}
	for round := range 8 {
		child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "CRASH_HOME="+home, "CRASH_TEMPLATE="+template, fmt.Sprintf("CRASH_ROUND=%d", round))
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		note := func() {
			if what, name, ok := strings.Cut(lines.Text(), " "); ok {
				acknowledged[name] = what
			}
		}
		for range 7 + 3*round {
			if !lines.Scan() {
				t.Fatal("it ended by itself")
			}
			note()
		}
		must(t, child.Process.Kill())
		for lines.Scan() {
			note()
		}
		_ = child.Wait() // it was killed
	}

	s := openPlain(t, home, template)
	defer s.Close()
	list, err := s.List()
	must(t, err)
	found := map[string]Profile{}
	ports := map[int]string{}
	for _, p := range list {
		found[p.Name] = p
		if p.Fault != nil || p.Record.Origin != service.Recorded || p.Unrecorded {
			t.Errorf("half-made: %+v", p)
		}
		if owner, twice := ports[p.Port]; twice {
			t.Errorf("%s and %s have port %d", owner, p.Name, p.Port)
		}
		ports[p.Port] = p.Name
		for i := range 5 {
			if text, err := os.ReadFile(filepath.Join(p.Dir, fmt.Sprint(i))); err != nil || string(text) != "content" {
				t.Errorf("%s: the template is not whole: %q %v", p.Name, text, err)
			}
		}
	}
	for name, what := range acknowledged {
		p, there := found[name]
		// A later step may have been done and not acknowledged.
		switch {
		case (what == "deleted" || what == "purged") && there:
			t.Errorf("%s was %s, and is there", name, what)
		case what == "stopped" && there && p.Record.Desired != service.Stopped:
			t.Errorf("%s was stopped, and is wanted %s", name, p.Record.Desired)
		}
	}
	missing := 0
	for name, what := range acknowledged {
		if _, there := found[name]; !there && what != "deleted" && what != "purged" {
			missing++ // at most the one that each round was deleting
		}
	}
	if missing > 8 {
		t.Errorf("%d acknowledged profiles are gone", missing)
	}
	trash, err := s.Trash.List()
	must(t, err)
	for _, e := range trash {
		if acknowledged[e.Profile] == "purged" {
			t.Errorf("%s was purged, and is in the trash", e.Profile)
		}
		if files, err := os.ReadDir(filepath.Join(home, "trash", e.Entry)); err != nil || len(files) != 7 {
			t.Errorf("%s is in the trash by halves: %v %v", e.Entry, files, err)
		}
	}
	s.PrepareBoot(nil)
	entries, err := os.ReadDir(filepath.Join(home, "profiles"))
	must(t, err)
	for _, e := range entries {
		if durable.IsTemp(e.Name()) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// onTmpfs mounts a small file system for a test.
func onTmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestAFullDiskLosesNothing(t *testing.T) {
	v := &volume{t: t, home: onTmpfs(t, "size=2m")}
	v.reopen(nil)
	v.create("alice", Creation{Environment: map[string]string{"A": "1"}})
	fill, err := os.Create(v.path("fill"))
	must(t, err)
	_, err = io.Copy(fill, io.LimitReader(zeroes{}, 4<<20))
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	must(t, fill.Close())
	before := v.read("profiles/alice/gateway_state.json")
	value := strings.Repeat("x", 20_000)
	for what, err := range map[string]error{
		"seen":   saveSeen(v.Records, "alice", Seen{State: service.SeenRunning}),
		"set":    func() error { _, err := setEnvironment(v.Store, "alice", map[string]*string{"B": &value}); return err }(),
		"create": func() error { _, _, err := v.Create("bob", Creation{}); return err }(),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "no space left on device; free some space on the volume") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, v.wants("alice", service.Running)) // it is recorded already
	if got := v.read("profiles/alice/gateway_state.json"); got != before {
		t.Errorf("the old record is gone: %q", got)
	}
	must(t, os.Remove(v.path("fill")))
	list := v.list()
	if p := list["alice"]; len(list) != 1 || p.Record.Desired != service.Running || p.Environment()["A"] != "1" {
		t.Errorf("%+v", list)
	}
	must(t, v.Records.SaveIntent("alice", service.Stopped))
}

// A disk that fills up in the midst of what is copied or unpacked is said as one that is
// full before.
func TestADiskThatFillsUp(t *testing.T) {
	v := &volume{t: t, home: onTmpfs(t, "size=2m")}
	v.reopen(nil)
	v.create("alice", Creation{})
	v.write("profiles/alice/deep/large", strings.Repeat("x", 100_000))
	content := exported(t, v, "alice")
	v.write("room", strings.Repeat("x", 60_000))
	fill, err := os.Create(v.path("fill"))
	must(t, err)
	_, err = io.Copy(fill, io.LimitReader(zeroes{}, 4<<20))
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	must(t, fill.Close())
	must(t, os.Remove(v.path("room")))
	for what, make := range map[string]func() error{
		"clone":  func() error { _, _, err := v.Create("bob", Creation{Clone: "alice"}); return err },
		"import": func() error { _, err := v.imported("bob", content); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), "deep/large: no space left on device; free some space on the volume") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

func TestAReadOnlyVolume(t *testing.T) {
	home := onTmpfs(t, "size=4m")
	v := &volume{t: t, home: home}
	v.reopen(nil)
	v.create("alice", Creation{})
	v.unjournaled()
	must(t, unix.Mount("", home, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	v.reopen(nil)
	if p := v.list()["alice"]; p.Fault != nil || p.Record.Desired != service.Running {
		t.Errorf("%+v", p)
	}
	if err := v.Records.SaveIntent("alice", service.Stopped); err == nil || !strings.HasSuffix(err.Error(), "read-only file system; mount the volume read-write") {
		t.Errorf("got %v", err)
	}
	v.PrepareBoot([]Profile{{Name: "alice"}})
	if p := v.list()["alice"]; p.Record.Desired != service.Running {
		t.Errorf("an intent that could not be saved counts: %+v", p.Record)
	}
}
