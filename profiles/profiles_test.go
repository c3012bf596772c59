package profiles

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/journal"
	"rlminit/profiles/bootlog"
	"rlminit/service"
)

// volume is a Store over a fresh directory, and what it has said.
type volume struct {
	*Store
	t    *testing.T
	home string
	boot string                  // its id; "": one for all
	fail func(step string) error // what a step on the disk comes to; nil: it works

	journal *journal.Journal // nil: none can be had

	mu   sync.Mutex
	told []string
}

func newVolume(t *testing.T, change func(*Settings)) *volume {
	t.Helper()
	v := &volume{t: t, home: t.TempDir()}
	v.reopen(change)
	return v
}

// reopen does what a new container on the same volume does.
func (v *volume) reopen(change func(*Settings)) {
	v.t.Helper()
	settings := Settings{
		Marker: "profile.yaml", StateFile: "gateway_state.json", Beginning: Beginning{InitialState: service.Running},
		Ports: PortRange{First: 9200, Last: 9799}, Services: []string{"dashboard", "gateway-taken"},
	}
	if change != nil {
		change(&settings)
	}
	if v.Store != nil {
		v.shut()
	}
	s, err := Open(nil, nil, v.home, settings, func(line string) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.told = append(v.told, line)
	})
	if err != nil {
		v.t.Fatal(err)
	}
	v.Store = s
	v.t.Cleanup(func() {
		if v.Store == s {
			v.shut()
		}
	})
	s.tree.now = func() time.Time { return time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC) }
	intents := NewIntents()
	failing := func(step string) error {
		v.mu.Lock()
		fail := v.fail
		v.mu.Unlock()
		if fail == nil {
			return nil
		}
		return fail(step)
	}
	v.journal, err = journal.Open(s.Ours(), journal.Options{
		Boot: cmp.Or(v.boot, "a1a1a1a1"), Folds: map[string]journal.Fold{"intents": intents}, Fault: failing,
	})
	if err != nil {
		v.journal = nil
		s.Records.RefuseIntents(err)
		return
	}
	s.Ours().Fail(failing)
	s.Records.UseJournal(v.journal, intents, NewUsers())
}

// shut closes it.
func (v *volume) shut() {
	if v.journal != nil {
		v.journal.Close()
	}
	v.Close()
}

// unjournaled closes the journal: nothing is recorded from then on.
func (v *volume) unjournaled() {
	v.journal.Close()
	v.journal = nil
}

// wants records what is wanted of a profile.
func (v *volume) wants(profile string, intent service.Intent) error {
	c := Command{Verb: "start", Intent: intent, Services: []string{GatewayName(profile)}}
	return v.Records.Command(context.Background(), c, false)
}

func (v *volume) path(rel string) string { return filepath.Join(v.home, rel) }

func (v *volume) write(rel, text string) {
	v.t.Helper()
	must(v.t, os.MkdirAll(filepath.Dir(v.path(rel)), 0o755))
	must(v.t, os.WriteFile(v.path(rel), []byte(text), 0o644))
}

func (v *volume) read(rel string) string {
	v.t.Helper()
	text, err := os.ReadFile(v.path(rel))
	must(v.t, err)
	return string(text)
}

func (v *volume) create(name string, how Creation) Profile {
	v.t.Helper()
	p, made, err := v.Create(name, how)
	if err != nil || !made {
		v.t.Fatalf("create %s: made %v, %v", name, made, err)
	}
	return p
}

func (v *volume) list() map[string]Profile {
	v.t.Helper()
	list, err := v.List()
	must(v.t, err)
	byName := map[string]Profile{}
	for _, p := range list {
		byName[p.Name] = p
	}
	return byName
}

// said counts the lines that hold text.
func (v *volume) said(text string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, line := range v.told {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	v := newVolume(t, nil)
	for _, name := range []string{
		"", "-x", "_x", "A", "aB", "../x", "a/b", ".x", "a.b", "ä", "alice\n", "a\x00b", "a b", strings.Repeat("a", 65),
		"default", "main", "all", "dashboard", "taken", "gateway-x",
	} {
		_, _, err := v.Create(name, Creation{})
		if !errors.Is(err, ErrName) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("create %q: %v", name, err)
		}
		if _, err := v.Load(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("load %q: %v", name, err)
		}
		if _, err := v.Delete(name, true, nil); err == nil {
			t.Errorf("delete %q succeeded", name)
		}
	}
	for _, name := range []string{"a", "0", "a-b_c", strings.Repeat("a", 64), "gateway"} {
		v.create(name, Creation{})
	}
}

func TestABrokenProfileHarmsNoOther(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "profile.yaml"), nil, 0o644))
	v := newVolume(t, nil)
	v.create("good", Creation{})
	must(t, os.Symlink(outside, v.path("profiles/link")))
	must(t, os.Symlink("/no/where", v.path("profiles/dangling")))
	v.write("profiles/file", "")
	must(t, unix.Mkfifo(v.path("profiles/fifo"), 0o600))
	v.write("profiles/Bad Name\n/profile.yaml", "")
	v.write("profiles/dashboard/profile.yaml", "")
	v.write("profiles/.rlminit-0123456789abcdef.tmp/profile.yaml", "")
	must(t, os.MkdirAll(v.path("profiles/marker-is-a-fifo"), 0o755))
	must(t, unix.Mkfifo(v.path("profiles/marker-is-a-fifo/profile.yaml"), 0o600))
	must(t, os.MkdirAll(v.path("profiles/marker-is-a-link"), 0o755))
	must(t, os.Symlink("/etc/passwd", v.path("profiles/marker-is-a-link/profile.yaml")))
	v.write("profiles/huge/profile.yaml", "")
	must(t, os.Truncate(v.path("profiles/huge/profile.yaml"), 1<<40))

	for range 2 {
		list := v.list()
		var names []string
		for name, p := range list {
			names = append(names, name)
			if (p.Fault != nil) != (name != "good") {
				t.Errorf("%s: fault %v", name, p.Fault)
			}
			if p.Fault != nil && (!strings.Contains(p.Fault.Error(), v.path("profiles/"+name)) || strings.Contains(Reason(p.Fault), "\n")) {
				t.Errorf("%s: %v", name, p.Fault)
			}
		}
		slices.Sort(names)
		if want := []string{"dangling", "dashboard", "good", "huge", "link", "marker-is-a-fifo", "marker-is-a-link"}; !slices.Equal(names, want) {
			t.Errorf("profiles: %v\nwant      %v", names, want)
		}
	}
	for _, text := range []string{"profiles/file is skipped", "fifo is skipped", `is skipped: "Bad Name\n" is not`} {
		if n := v.said(text); n != 1 {
			t.Errorf("%q was said %d times: %q", text, n, v.told)
		}
	}
	// A broken profile can be deleted, and what it pointed to stays.
	if _, err := v.Delete("link", true, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "profile.yaml")); err != nil {
		t.Error(err)
	}
	if _, _, err := v.Create("dangling", Creation{ExistOK: true}); !errors.Is(err, ErrBroken) {
		t.Errorf("adopted a link: %v", err)
	}
}

func TestAProfilesDirectoryThatIsALinkIsRefused(t *testing.T) {
	outside := t.TempDir()
	v := newVolume(t, nil)
	must(t, os.Remove(v.path("profiles")))
	must(t, os.Symlink(outside, v.path("profiles")))
	if _, err := v.List(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
	if _, _, err := v.Create("alice", Creation{}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("wrote outside: %v", entries)
	}
}

func TestTheDefaultProfileIsTheHomeDirectory(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.Default = true })
	v.create("alice", Creation{})
	list, err := v.List()
	must(t, err)
	if len(list) != 2 || list[0].Name != "default" || list[0].Dir != v.home || list[0].Fault != nil {
		t.Fatalf("%+v", list)
	}
	must(t, v.Records.SaveIntent("default", service.Running))
	if got := v.read("gateway_state.json"); !strings.Contains(got, `"profile":"default","desired_state":"running"`) {
		t.Errorf("%s", got)
	}
	a := "1"
	if p, err := setEnvironment(v.Store, "default", map[string]*string{"A": &a}); err != nil || p.Environment()["A"] != "1" {
		t.Errorf("%v", err)
	}
	if _, err := v.Delete("default", true, nil); !errors.Is(err, ErrName) {
		t.Errorf("got %v", err)
	}
}

func TestBootLog(t *testing.T) {
	v := newVolume(t, nil)
	must(t, v.BootLog.Add(v.BootLog.Size(), []bootlog.Line{{Profile: "alice", PriorState: "running", Action: "started"}, {Profile: "bob", PriorState: "none", Action: "registered", Said: "running"}}, "killed"))
	want := "2026-05-24T18:05:33+0000 profile=alice prior_state=running action=started prior_exit=killed\n" +
		"2026-05-24T18:05:33+0000 profile=bob prior_state=none action=registered overruled_file=running prior_exit=killed\n"
	if got := v.read("logs/container-boot.log"); got != want {
		t.Errorf("%q", got)
	}
	// A boot that is gone on with tells what it has not told yet.
	since := v.BootLog.Size()
	must(t, v.BootLog.Add(since, []bootlog.Line{{Profile: "bob", PriorState: "stopped", Action: "registered"}}, "clean"))
	must(t, v.BootLog.Add(since, []bootlog.Line{{Profile: "alice", PriorState: "running", Action: "started"}, {Profile: "bob", PriorState: "stopped", Action: "registered"}}, "clean"))
	if got := v.read("logs/container-boot.log")[since:]; strings.Count(got, "profile=bob") != 1 || strings.Count(got, "profile=alice") != 1 {
		t.Errorf("%q", got)
	}
	must(t, os.Truncate(v.path("logs/container-boot.log"), bootlog.Max))
	must(t, v.BootLog.Add(v.BootLog.Size(), []bootlog.Line{{Profile: "alice", PriorState: "running", Action: "started"}}, "clean"))
	if got := v.read("logs/container-boot.log"); strings.Count(got, "\n") != 1 {
		t.Errorf("it grows for ever: %d bytes", len(got))
	}
	info, err := os.Stat(v.path("logs/container-boot.log"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
}

func TestPrepareBootRemovesWhatItShould(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.RemoveAtBoot = []string{"gateway.pid", "run/x", "*.lock", "sub/*/?"} })
	v.create("alice", Creation{})
	v.create("bob", Creation{})
	outside := t.TempDir()
	v.write("profiles/alice/gateway.pid", "1")
	v.write("profiles/alice/run/x/y", "1")
	v.write("profiles/alice/run/z", "1")
	v.write("profiles/alice/a.lock", "1")
	v.write("profiles/alice/.lock", "1")
	v.write("profiles/alice/sub/deep/x", "1")
	must(t, os.Symlink(outside, v.path("profiles/bob/b.lock")))
	v.write("profiles/alice/.rlminit-0123456789abcdef.tmp", "")
	v.write("profiles/.rlminit-0123456789abcdef.tmp/x/y", "")
	v.write(".rlminit-0123456789abcdef.tmp", "")
	must(t, os.WriteFile(filepath.Join(outside, "x"), nil, 0o600))
	must(t, os.Symlink(outside, v.path("profiles/bob/run")))
	v.PrepareBoot([]Profile{{Name: "alice"}, {Name: "bob"}})
	var left []string
	must(t, filepath.WalkDir(v.home, func(path string, d os.DirEntry, err error) error {
		if d.Name() == ".rlminit" {
			return filepath.SkipDir
		}
		left = append(left, strings.TrimPrefix(path, v.home))
		return err
	}))
	want := []string{
		"", "/profiles", "/profiles/alice", "/profiles/alice/.lock", "/profiles/alice/gateway_state.json", "/profiles/alice/profile.yaml",
		"/profiles/alice/run", "/profiles/alice/run/z", "/profiles/alice/sub", "/profiles/alice/sub/deep", "/profiles/bob", "/profiles/bob/gateway_state.json", "/profiles/bob/profile.yaml", "/profiles/bob/run",
	}
	if !slices.Equal(left, want) {
		t.Errorf("left %q", left)
	}
	if _, err := os.Stat(filepath.Join(outside, "x")); err != nil {
		t.Errorf("followed a link: %v", err)
	}
	if v.said("symbolic link") != 1 {
		t.Errorf("said %q", v.told)
	}
}

// What is ours lies in the default profile's directory too.
func TestPrepareBootLeavesWhatIsOurs(t *testing.T) {
	v := newVolume(t, func(s *Settings) {
		s.RemoveAtBoot = []string{"profiles", "logs", "logs/x.pid", "[ts]*", "profiles/*/x.pid", ".rlminit.lock"}
		s.Default = true
	})
	v.create("alice", Creation{})
	for _, kept := range []string{"logs/gateways/alice/current", "logs/container-boot.log", "state/services/web.json", "trash/bob/x", ".rlminit.lock"} {
		v.write(kept, "")
		defer func() {
			if _, err := os.Lstat(v.path(kept)); err != nil {
				t.Errorf("%s: %v", kept, err)
			}
		}()
	}
	gone := []string{"logs/x.pid", "temporary/x", "profiles/alice/logs/x", "profiles/alice/profiles/x"}
	for _, rel := range gone {
		v.write(rel, "")
	}
	v.PrepareBoot([]Profile{{Name: Default}, {Name: "alice"}})
	for _, rel := range gone {
		if _, err := os.Lstat(v.path(rel)); err == nil {
			t.Errorf("%s is left", rel)
		}
	}
	if v.said("remove_at_boot leaves "+v.path("profiles")+" alone: it is where rlminit keeps profiles") != 1 {
		t.Errorf("said %q", v.told)
	}
}

func TestRefusalsAreOneLine(t *testing.T) {
	line := regexp.MustCompile(`^[^\n]+$`)
	v := newVolume(t, nil)
	for _, name := range []string{"../x", "A", "\x1b[31m", strings.Repeat("x\n", 9999)} {
		_, _, err := v.Create(name, Creation{})
		if !line.MatchString(err.Error()) || len(err.Error()) > 300 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q", err)
		}
	}
}

// failFrom is an assignment to fail while the journal's writer may be at work.
func (v *volume) failFrom(fail func(step string) error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fail = fail
}
