package profiles

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

func TestReplaceWritesTheWholeText(t *testing.T) {
	v := newVolume(t, nil)
	text := []byte("# mine\nenvironment:\n  A: b\n")
	p := v.create("alice", Creation{Text: text, Intent: service.Stopped})
	if string(p.Text()) != string(text) || p.Record.Desired != service.Stopped {
		t.Errorf("created: %+v", p)
	}
	before, err := os.Stat(v.path("profiles/alice/profile.yaml"))
	must(t, err)
	if _, err := v.Store.Replace("alice", text); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(v.path("profiles/alice/profile.yaml")); !os.SameFile(before, after) {
		t.Error("what was so already was written")
	}
	p, err = v.Store.Replace("alice", []byte("restart: {limit: 3}\n"))
	if err != nil || v.read("profiles/alice/profile.yaml") != "restart: {limit: 3}\n" || string(p.Text()) != "restart: {limit: 3}\n" {
		t.Errorf("%v %s", err, p.Text())
	}
	must(t, os.Chmod(v.path("profiles/alice/profile.yaml"), 0o644))
	_, err = v.Store.Replace("alice", []byte("restart: {limit: 3}\n"))
	must(t, err)
	if info, _ := os.Stat(v.path("profiles/alice/profile.yaml")); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := v.Store.Replace("nobody", text); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

// What was moved into the trash under a chosen name comes back as it was.
func TestDiscardAndRestore(t *testing.T) {
	v := newVolume(t, nil)
	p := v.create("alice", Creation{Intent: service.Stopped})
	v.write("profiles/alice/notes", "precious")
	must(t, v.Store.Discard("alice", "alice-revision-3"))
	if _, err := v.Store.Load("alice"); !errors.Is(err, ErrNotFound) || v.read("trash/alice-revision-3/notes") != "precious" {
		t.Errorf("discarded: %v", err)
	}
	if err := v.Store.Discard("alice", "alice-revision-3"); !errors.Is(err, ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	if text, intent, err := v.Trash.Look("alice-revision-3"); err != nil || string(text) != string(p.Text()) || intent != service.Stopped {
		t.Errorf("in the trash: %v %s %q", err, text, intent)
	}
	if _, _, err := v.Trash.Look("alice-revision-4"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not in the trash: %v", err)
	}
	if list, err := v.Trash.List(); err != nil || len(list) != 1 || list[0].Entry != "alice-revision-3" || list[0].Profile != "alice" || list[0].Revision != 3 || time.Since(list[0].At) > time.Hour {
		t.Errorf("the trash: %v %+v", err, list)
	}
	back, err := v.Store.Restore("alice", "alice-revision-3", nil, nil)
	if err != nil || back.Port != p.Port || back.Record.Desired != service.Stopped || v.read("profiles/alice/notes") != "precious" {
		t.Errorf("%v %+v", err, back)
	}
	if _, err := v.Store.Restore("alice", "alice-revision-3", nil, nil); !errors.Is(err, ErrExists) {
		t.Errorf("it is there: %v", err)
	}
	if _, err := v.Store.Restore("bob", "bob-revision-3", nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it never was: %v", err)
	}
	v.write("trash/bob-revision-0/notes", "no entry")
	v.write("trash/bob-revision-5", "nor this")
	must(t, v.Store.Discard("alice", "alice-revision-3"))
	if list, err := v.Trash.List(); err != nil || len(list) != 1 {
		t.Errorf("the trash: %v %+v", err, list)
	}
	if p := v.create("alice", Creation{Restore: "alice"}); p.Port != back.Port || p.Record.Desired != service.Stopped || v.read("profiles/alice/notes") != "precious" {
		t.Errorf("restored by a person: %+v", p)
	}
	v.write("trash/alice-revision-4/notes", "another")
	if err := v.Store.Discard("alice", "alice-revision-4"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("the name is taken: %v", err)
	}
}
