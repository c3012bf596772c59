package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

// volume is a Store over a fresh directory, and what it has said.
type volume struct {
	*Store
	t    *testing.T
	home string
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
		Marker: "profile.yaml", StateFile: "gateway_state.json", InitialState: service.Running,
		Ports: PortRange{9200, 9799}, Services: []string{"dashboard", "gateway-taken"},
	}
	if change != nil {
		change(&settings)
	}
	if v.Store != nil {
		v.Close()
	}
	s, err := Open(v.home, settings, func(line string) {
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
			s.Close()
		}
	})
	s.now = func() time.Time { return time.Date(2026, 5, 24, 18, 5, 33, 0, time.UTC) }
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	v := newVolume(t, nil)
	for _, name := range []string{
		"", "-x", "_x", "A", "aB", "../x", "a/b", ".x", "a.b", "ä", "alice\n", "a\x00b", "a b", strings.Repeat("a", 65),
		"default", "main", "all", "dashboard", "taken",
	} {
		_, _, err := v.Create(name, Creation{})
		if !errors.Is(err, ErrName) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("create %q: %v", name, err)
		}
		if _, err := v.Load(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("load %q: %v", name, err)
		}
		if _, err := v.Delete(name, true); err == nil {
			t.Errorf("delete %q succeeded", name)
		}
	}
	for _, name := range []string{"a", "0", "a-b_c", strings.Repeat("a", 64), "gateway-x"} {
		v.create(name, Creation{})
	}
}

func TestCreateMakesWhatTheDesignSays(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	skel := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(skel, "notes/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(skel, "notes/deep/README"), []byte("hi"), 0o644))
	must(t, os.WriteFile(filepath.Join(skel, "profile.yaml"), []byte("# mine\nrestart: always\n"), 0o644))
	v := newVolume(t, func(s *Settings) { s.Template = skel })
	p := v.create("alice", Creation{Environment: map[string]string{"TOKEN": "pa$$w: rd", "N": "1"}})
	if p.Dir != v.path("profiles/alice") || p.Service() != "gateway-alice" || p.Fault != nil || p.Unrecorded {
		t.Errorf("%+v", p)
	}
	for rel, want := range map[string]os.FileMode{
		"profiles": os.ModeDir | 0o750, "profiles/alice": os.ModeDir | 0o750, "profiles/alice/notes/deep": os.ModeDir | 0o750,
		"profiles/alice/profile.yaml": 0o600, "profiles/alice/gateway_state.json": 0o640,
	} {
		info, err := os.Lstat(v.path(rel))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", rel, info.Mode(), err, want)
		}
	}
	if got, want := v.read("profiles/alice/profile.yaml"), "# mine\nrestart: always\nenvironment:\n  N: \"1\"\n  TOKEN: 'pa$$$$w: rd'\n"; got != want {
		t.Errorf("profile.yaml:\n%s\nwant\n%s", got, want)
	}
	want := fmt.Sprintf(`{"version":1,"profile":"alice","desired_state":"running","gateway_state":"stopped","pid":0,"start_time":0,"port":%d,`+
		`"exit_reason":"","restarts":0,"updated_at":"2026-05-24T18:05:33Z"}`+"\n", p.Port)
	if got := v.read("profiles/alice/gateway_state.json"); got != want {
		t.Errorf("state file\n%s\nwant\n%s", got, want)
	}
	if env := p.Environment(); env["TOKEN"] != "pa$$w: rd" || env["N"] != "1" {
		t.Errorf("environment %v", env)
	}
	entries, err := os.ReadDir(v.path("profiles"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestCreateStoppedWithAnotherMarkerAndAPort(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.Marker = "SOUL.md" })
	p := v.create("alice", Creation{Intent: service.Stopped, Port: 7000})
	if p.Port != 7000 || p.Record.Desired != service.Stopped {
		t.Errorf("%+v", p)
	}
	if got := v.read("profiles/alice/SOUL.md"); got != "" {
		t.Errorf("the marker holds %q", got)
	}
	_, _, err := v.Create("bob", Creation{Port: 7000})
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(v.path("profiles/bob")); !os.IsNotExist(err) {
		t.Errorf("a refused profile is there: %v", err)
	}
}

func TestAFailedCreateLeavesNothing(t *testing.T) {
	skel := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(skel, "fifo"), 0o600))
	v := newVolume(t, func(s *Settings) { s.Template = skel; s.Ports = PortRange{9200, 9200} })
	for range 2 {
		if _, _, err := v.Create("alice", Creation{}); err == nil || errors.Is(err, ErrExists) {
			t.Errorf("got %v", err)
		}
	}
	entries, err := os.ReadDir(v.path("profiles"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	v.Configure(Settings{Marker: "m", StateFile: "s", Template: "/no/such/dir", Ports: PortRange{9200, 9200}})
	if _, _, err := v.Create("alice", Creation{}); err == nil || !strings.Contains(err.Error(), "gateway.template") {
		t.Errorf("got %v", err)
	}
	v.Configure(Settings{Marker: "m", StateFile: "s", Ports: PortRange{9200, 9200}})
	if p := v.create("bob", Creation{}); p.Port != 9200 {
		t.Errorf("a failed creation kept its port: %d", p.Port)
	}
}

func TestOfConcurrentCreatesOneSucceeds(t *testing.T) {
	skel := t.TempDir()
	for i := range 20 {
		must(t, os.WriteFile(filepath.Join(skel, fmt.Sprint(i)), []byte("x"), 0o644))
	}
	v := newVolume(t, func(s *Settings) { s.Template = skel })
	var all sync.WaitGroup
	results := make([]error, 16)
	for i := range results {
		all.Go(func() { _, _, results[i] = v.Create("alice", Creation{}) })
	}
	// Scans and other names at the same time must not disturb it.
	for i := range 4 {
		all.Go(func() {
			if _, _, err := v.Create(fmt.Sprintf("other-%d", i), Creation{}); err != nil {
				t.Error(err)
			}
			if _, err := v.List(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	made := 0
	for _, err := range results {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, ErrExists):
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d of %d succeeded", made, len(results))
	}
	if entries, _ := os.ReadDir(v.path("profiles")); len(entries) != 5 {
		t.Errorf("%v", entries)
	}
}

func TestExistOKTakesWhatIsThere(t *testing.T) {
	v := newVolume(t, nil)
	v.write("profiles/alice/data", "keep")
	if _, ok := v.list()["alice"]; ok {
		t.Error("a directory without the marker is a profile")
	}
	_, _, err := v.Create("alice", Creation{})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "--exist-ok") {
		t.Errorf("got %v", err)
	}
	p, made, err := v.Create("alice", Creation{ExistOK: true, Port: 7777, Environment: map[string]string{"A": "1"}})
	if err != nil || made || p.Port != 7777 || p.Record.Desired != service.Running || p.Environment()["A"] != "1" {
		t.Errorf("%+v, made %v, %v", p, made, err)
	}
	if got := v.read("profiles/alice/data"); got != "keep" {
		t.Errorf("data: %q", got)
	}

	must(t, v.SaveIntent(Gateway("alice"), service.Stopped))
	p, _, err = v.Create("alice", Creation{ExistOK: true, Environment: map[string]string{"B": "2"}})
	if err != nil || p.Record.Desired != service.Stopped {
		t.Errorf("what a person stopped is wanted %q again, %v", p.Record.Desired, err)
	}
	if env := p.Environment(); env["A"] != "1" || env["B"] != "2" {
		t.Errorf("environment %v", env)
	}
	if _, _, err := v.Create("alice", Creation{ExistOK: true, Port: 8888}); !errors.Is(err, ErrExists) {
		t.Errorf("another port: %v", err)
	}
	if p, made, err := v.Create("new", Creation{ExistOK: true}); err != nil || !made || p.Name != "new" {
		t.Errorf("%v %v", made, err)
	}
}

func TestDelete(t *testing.T) {
	v := newVolume(t, nil)
	var trashed []string
	for range 3 {
		v.create("alice", Creation{})
		path, err := v.Delete("alice", false)
		must(t, err)
		trashed = append(trashed, path)
	}
	want := []string{v.path("trash/alice-20260524T180533Z"), v.path("trash/alice-20260524T180533Z-2"), v.path("trash/alice-20260524T180533Z-3")}
	if !slices.Equal(trashed, want) {
		t.Errorf("got %v", trashed)
	}
	if _, err := os.Stat(filepath.Join(want[2], "profile.yaml")); err != nil {
		t.Error(err)
	}
	v.create("bob", Creation{})
	must(t, os.MkdirAll(v.path("profiles/bob/deep/er"), 0o700))
	if path, err := v.Delete("bob", true); err != nil || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	if _, err := v.Delete("bob", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	v.write("profiles/plain/file", "")
	if _, err := v.Delete("plain", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed a directory that is no profile: %v", err)
	}
	entries, err := os.ReadDir(v.path("profiles"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
	if err := v.SaveSeen(Gateway("bob"), Seen{State: service.SeenStopped}); err == nil {
		t.Error("a deleted profile came back by being seen")
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
		if want := []string{"dangling", "good", "huge", "link", "marker-is-a-fifo", "marker-is-a-link"}; !slices.Equal(names, want) {
			t.Errorf("profiles: %v\nwant      %v", names, want)
		}
	}
	for _, text := range []string{"profiles/file is skipped", "fifo is skipped", `is skipped: "Bad Name\n" is not`, `is skipped: "dashboard" is`} {
		if n := v.said(text); n != 1 {
			t.Errorf("%q was said %d times: %q", text, n, v.told)
		}
	}
	// A broken profile can be deleted, and what it pointed to stays.
	if _, err := v.Delete("link", true); err != nil {
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

func TestSetEnvironmentKeepsTheRest(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	v.write("profiles/alice/profile.yaml", `# about alice
restart: always # for good
environment: # hers
  # the token
  TOKEN: old # secret
  KEEP: "${HOME}/x"
  GONE: x
  FROM: {file: /run/secrets/x}
command: [a, b]
`)
	value := "new$1\n  two: lines"
	number := "007"
	p, err := v.SetEnvironment("alice", map[string]*string{"TOKEN": &value, "GONE": nil, "ABSENT": nil, "ID": &number})
	must(t, err)
	want := `# about alice
restart: always # for good
environment: # hers
  # the token
  TOKEN: |- # secret
    new$$1
      two: lines
  KEEP: "${HOME}/x"
  FROM: {file: /run/secrets/x}
  ID: "007"
command: [a, b]
`
	if got := v.read("profiles/alice/profile.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	env := p.Environment()
	if env["TOKEN"] != value || env["KEEP"] != "${HOME}/x" || env["ID"] != "007" || env["FROM"] != "{file: /run/secrets/x}" {
		t.Errorf("%q", env)
	}
	if info, _ := os.Stat(v.path("profiles/alice/profile.yaml")); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestSetEnvironmentRefusals(t *testing.T) {
	v := newVolume(t, nil)
	v.create("alice", Creation{})
	for text, want := range map[string]string{
		"environment: [a]\n":        "profile.yaml:1: environment: is not a mapping",
		"[a, b]\n":                  "profile.yaml:1: it is not a mapping",
		"a: 1\n---\nb: 2\n":         "profile.yaml:",
		"a: [\n":                    "profile.yaml:",
		"\x00":                      "profile.yaml:1",
		strings.Repeat("[", 20_000): "profile.yaml:",
	} {
		v.write("profiles/alice/profile.yaml", text)
		x := "x"
		_, err := v.SetEnvironment("alice", map[string]*string{"A": &x})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
		if got := v.read("profiles/alice/profile.yaml"); got != text {
			t.Errorf("%.20q was written over", text)
		}
	}
	for _, text := range []string{"", "# only this\n", "environment:\n", "environment: {}\n", "{}\n"} {
		v.write("profiles/alice/profile.yaml", text)
		x := "x"
		p, err := v.SetEnvironment("alice", map[string]*string{"A": &x})
		if err != nil || p.Environment()["A"] != "x" {
			t.Errorf("%q: %v", text, err)
		}
		if got := v.read("profiles/alice/profile.yaml"); !strings.Contains(got, strings.TrimSpace(strings.Trim(text, "environment:{} \n"))) {
			t.Errorf("%q lost its comment: %q", text, got)
		}
	}
	nul, bad := "a\x00", "\xff"
	for key, value := range map[string]*string{
		"": &nul, "A=B": &nul, "A B": &nul, "LISTEN_FDS": &nul, "NOTIFY_SOCKET": &nul, "NUL": &nul, "UTF": &bad,
	} {
		if _, err := v.SetEnvironment("alice", map[string]*string{key: value}); !errors.Is(err, ErrValue) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := v.SetEnvironment("nobody", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
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
	must(t, v.SaveIntent(Gateway("default"), service.Running))
	if got := v.read("gateway_state.json"); !strings.Contains(got, `"profile":"default","desired_state":"running"`) {
		t.Errorf("%s", got)
	}
	a := "1"
	if p, err := v.SetEnvironment("default", map[string]*string{"A": &a}); err != nil || p.Environment()["A"] != "1" {
		t.Errorf("%v", err)
	}
	if _, err := v.Delete("default", true); !errors.Is(err, ErrName) {
		t.Errorf("got %v", err)
	}
}

func TestBootLog(t *testing.T) {
	v := newVolume(t, nil)
	must(t, v.LogBoot([]Booted{{"alice", "running", "started"}, {"bob", "none", "registered"}}))
	want := "2026-05-24T18:05:33+0000 profile=alice prior_state=running action=started\n" +
		"2026-05-24T18:05:33+0000 profile=bob prior_state=none action=registered\n"
	if got := v.read("logs/container-boot.log"); got != want {
		t.Errorf("%q", got)
	}
	must(t, os.Truncate(v.path("logs/container-boot.log"), maxBootLog))
	must(t, v.LogBoot([]Booted{{"alice", "running", "started"}}))
	if got := v.read("logs/container-boot.log"); strings.Count(got, "\n") != 1 {
		t.Errorf("it grows for ever: %d bytes", len(got))
	}
	info, err := os.Stat(v.path("logs/container-boot.log"))
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
}

func TestPrepareBootRemovesWhatItShould(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.RemoveAtBoot = []string{"gateway.pid", "run/x"} })
	v.create("alice", Creation{})
	v.create("bob", Creation{})
	outside := t.TempDir()
	v.write("profiles/alice/gateway.pid", "1")
	v.write("profiles/alice/run/x/y", "1")
	v.write("profiles/alice/run/z", "1")
	v.write("profiles/alice/.rlminit-0123456789abcdef.tmp", "")
	v.write("profiles/.rlminit-0123456789abcdef.tmp/x/y", "")
	v.write(".rlminit-0123456789abcdef.tmp", "")
	must(t, os.WriteFile(filepath.Join(outside, "x"), nil, 0o600))
	must(t, os.Symlink(outside, v.path("profiles/bob/run")))
	v.PrepareBoot([]string{"alice", "bob"})
	var left []string
	must(t, filepath.WalkDir(v.home, func(path string, d os.DirEntry, err error) error {
		left = append(left, strings.TrimPrefix(path, v.home))
		return err
	}))
	want := []string{
		"", "/profiles", "/profiles/alice", "/profiles/alice/gateway_state.json", "/profiles/alice/profile.yaml", "/profiles/alice/run",
		"/profiles/alice/run/z", "/profiles/bob", "/profiles/bob/gateway_state.json", "/profiles/bob/profile.yaml", "/profiles/bob/run",
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
