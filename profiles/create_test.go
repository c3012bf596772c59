package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

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

// A name that reads like that of a gateway is another profile's, but on a volume
// that has one already it goes on as before.
func TestCreateNamedLikeAGateway(t *testing.T) {
	v := newVolume(t, nil)
	for _, exists := range []bool{false, true} {
		_, _, err := v.Create("gateway-bob", Creation{ExistOK: exists})
		if !errors.Is(err, ErrName) || !strings.Contains(err.Error(), "names that begin with gateway- are those of services") {
			t.Errorf("%v", err)
		}
		must(t, os.MkdirAll(v.path("profiles/gateway-bob"), 0o755))
	}
	v.write("profiles/gateway-bob/profile.yaml", "")
	if _, made, err := v.Create("gateway-bob", Creation{ExistOK: true}); made || err != nil {
		t.Errorf("one that there is: %v, %v", made, err)
	}
	if _, _, err := v.Create("gateway-bob", Creation{}); !errors.Is(err, ErrExists) {
		t.Errorf("one that there is, again: %v", err)
	}
	if p, there := v.list()["gateway-bob"]; !there || p.Fault != nil || p.Service() != "gateway-gateway-bob" {
		t.Errorf("%+v", p)
	}
}

func TestCreateStoppedWithAnotherMarkerAndAPort(t *testing.T) {
	v := newVolume(t, func(s *Settings) { s.Marker = "SOUL.md" })
	p := v.create("alice", Creation{Intent: service.Stopped, Port: 7000, PortAny: true})
	if p.Port != 7000 || p.Record.Desired != service.Stopped {
		t.Errorf("%+v", p)
	}
	if got := v.read("profiles/alice/SOUL.md"); got != "" {
		t.Errorf("the marker holds %q", got)
	}
	_, _, err := v.Create("bob", Creation{Port: 7000, PortAny: true})
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
	v := newVolume(t, func(s *Settings) { s.Template = skel; s.Ports = PortRange{First: 9200, Last: 9200} })
	for range 2 {
		if _, _, err := v.Create("alice", Creation{}); err == nil || errors.Is(err, ErrExists) {
			t.Errorf("got %v", err)
		}
	}
	entries, err := os.ReadDir(v.path("profiles"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	v.Configure(Settings{Marker: "m", StateFile: "s", Beginning: Beginning{Template: "/no/such/dir"}, Ports: PortRange{First: 9200, Last: 9200}})
	if _, _, err := v.Create("alice", Creation{}); err == nil || !strings.Contains(err.Error(), "gateway.template") {
		t.Errorf("got %v", err)
	}
	v.Configure(Settings{Marker: "m", StateFile: "s", Ports: PortRange{First: 9200, Last: 9200}})
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
	p, made, err := v.Create("alice", Creation{ExistOK: true, Port: 7777, PortAny: true, Environment: map[string]string{"A": "1"}})
	if err != nil || made || p.Port != 7777 || p.Record.Desired != service.Running || p.Environment()["A"] != "1" {
		t.Errorf("%+v, made %v, %v", p, made, err)
	}
	if got := v.read("profiles/alice/data"); got != "keep" {
		t.Errorf("data: %q", got)
	}

	must(t, v.Records.SaveIntent("alice", service.Stopped))
	p, _, err = v.Create("alice", Creation{ExistOK: true, Environment: map[string]string{"B": "2"}})
	if err != nil || p.Record.Desired != service.Stopped {
		t.Errorf("what a person stopped is wanted %q again, %v", p.Record.Desired, err)
	}
	if env := p.Environment(); env["A"] != "1" || env["B"] != "2" {
		t.Errorf("environment %v", env)
	}
	if _, _, err := v.Create("alice", Creation{ExistOK: true, Port: 8888, PortAny: true, Environment: map[string]string{"C": "3"}}); !errors.Is(err, ErrExists) {
		t.Errorf("another port: %v", err)
	}
	if env := v.list()["alice"].Environment(); env["C"] != "" {
		t.Errorf("refused, and yet the environment is %v", env)
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
		path, err := v.Delete("alice", false, nil)
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
	if path, err := v.Delete("bob", true, nil); err != nil || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	if _, err := v.Delete("bob", true, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	v.write("profiles/plain/file", "")
	if _, err := v.Delete("plain", true, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed a directory that is no profile: %v", err)
	}
	entries, err := os.ReadDir(v.path("profiles"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
	_ = saveSeen(v.Records, "bob", Seen{State: service.SeenStopped})
	if _, err := os.Stat(v.path("profiles/bob")); err == nil {
		t.Error("a deleted profile came back by being seen")
	}
}
