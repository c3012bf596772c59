package s6

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"rlminit/control"
)

// TestAgree decides about each kind of entry.
func TestAgree(t *testing.T) {
	const published = "/run/rlminit/services"
	services := []string{"gateway-default", "gateway-alice", "web"}
	for _, c := range []struct {
		what    string
		entries []entry
		want    plan
	}{
		{"an empty directory", nil, plan{link: services}},
		{
			"a gateway that the application has made",
			[]entry{{name: "gateway-alice", runs: true, down: true}, {name: "gateway-bob", runs: true, exports: []string{"MODEL"}, logs: true}, {name: "gateway-carol", runs: true, down: true}},
			plan{
				create: []registered{
					{CreateProfile: control.CreateProfile{Name: "bob", ExistOK: true}, exports: []string{"MODEL"}, logs: true},
					{CreateProfile: control.CreateProfile{Name: "carol", Stopped: true, ExistOK: true}},
				},
				known: []string{"gateway-alice", "gateway-bob", "gateway-carol"},
				link:  []string{"gateway-default", "web"},
			},
		},
		{
			"what is no service of ours",
			[]entry{{name: "redis", runs: true}, {name: "empty"}, {name: ".gateway-dave.tmp", runs: true}, {name: ".s6-svscan"}, {name: "gateway-", runs: true}},
			plan{foreign: []string{"redis", "gateway-"}, link: services},
		},
		{
			"a gateway that was renamed or deleted, and one that is as it was",
			[]entry{{name: "gateway-bob", runs: true, marked: true}, {name: "gateway-carol", down: true, marked: true}, {name: "gateway-alice", runs: true, marked: true}},
			plan{stale: []string{"gateway-bob", "gateway-carol"}, link: []string{"gateway-default", "web"}},
		},
		{
			"links",
			[]entry{
				{name: "web", link: published + "/web", runs: false},
				{name: "gateway-gone", link: published + "/gateway-gone"},
				{name: "elsewhere", link: "/srv/elsewhere", runs: true},
			},
			plan{stale: []string{"gateway-gone"}, link: []string{"gateway-default", "gateway-alice"}},
		},
	} {
		if got := agree(c.entries, services, published); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got  %+v\n want %+v", c.what, got, c.want)
		}
	}
}

func TestEntriesOf(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"gateway-alice/run", "gateway-alice/down", "gateway-bob/run", "gateway-bob/rlminit", "file"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\nexport HOME=/data\n  export MODEL='large' \nexport HOME\n# export NOT=1\nexec run\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "gateway-alice/run"), []byte(script), 0o755), os.MkdirAll(filepath.Join(dir, "gateway-alice/log"), 0o755), os.WriteFile(filepath.Join(dir, "gateway-alice/log/run"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/web", filepath.Join(dir, "web")); err != nil {
		t.Fatal(err)
	}
	got, err := entriesOf(dir)
	want := []entry{{name: "file"}, {name: "gateway-alice", runs: true, down: true, exports: []string{"HOME", "MODEL"}, logs: true}, {name: "gateway-bob", runs: true, marked: true}, {name: "web", link: "/nowhere/web"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := entriesOf(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there was read")
	}
}

func TestEnter(t *testing.T) {
	dir, published := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(published, "web"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // an entry that somebody made meanwhile is no error
		if err := enter(dir, published, "web"); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "web")); err != nil || to != filepath.Join(published, "web") {
		t.Errorf("the link points to %q: %v", to, err)
	}
	if err := enter(dir, published, "gateway-alice"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"down", "rlminit"} {
		if info, err := os.Lstat(filepath.Join(dir, "gateway-alice", file)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := enter(filepath.Join(dir, "nowhere"), published, "web"); err == nil {
		t.Error("an entry was made in a directory that is not there")
	}
}

// TestOwnDir: the supervisor's directory under another name is not the application's.
func TestOwnDir(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("RLMINIT_RUNTIME_DIR", runtime)
	services, own := filepath.Join(runtime, "services"), filepath.Join(t.TempDir(), "services")
	link := filepath.Join(t.TempDir(), "service")
	for _, dir := range []string{services, own} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(services, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{services: false, link: false, own: true, filepath.Join(own, "nowhere"): false, "/etc/passwd": false} {
		if got := isOwnDir(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
