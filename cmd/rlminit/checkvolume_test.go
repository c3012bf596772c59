package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Links on a hostile volume are not followed, FIFOs not waited for, escapes not obeyed by the
// terminal, and none of them keeps another profile from being looked at.
func TestCheckHostileVolume(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir, "volume"}, parts...)...) }
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	profile := func(name, text string) {
		do(os.MkdirAll(at("profiles", name), 0o755))
		do(os.WriteFile(at("profiles", name, "marker"), nil, 0o644))
		if text != "" {
			do(os.WriteFile(at("profiles", name, "profile.yaml"), []byte(text), 0o644))
		}
	}
	secret := filepath.Join(dir, "secret")
	do(os.WriteFile(secret, []byte("kind: outside\n"), 0o644))
	for _, name := range []string{"good", "link", "fifo", "huge", "directory", "statelink", "statefifo"} {
		profile(name, "")
	}
	profile("escape", "kind: \"a\\e[31mb\"\n")
	do(os.Symlink(secret, at("profiles", "link", "profile.yaml")))
	do(unix.Mkfifo(at("profiles", "fifo", "profile.yaml"), 0o644))
	do(os.WriteFile(at("profiles", "huge", "profile.yaml"), nil, 0o644))
	do(os.Truncate(at("profiles", "huge", "profile.yaml"), 1<<40))
	do(os.Mkdir(at("profiles", "directory", "profile.yaml"), 0o755))
	do(os.Symlink(secret, at("profiles", "statelink", "gateway_state.json")))
	do(unix.Mkfifo(at("profiles", "statefifo", "gateway_state.json"), 0o644))
	profile("evil\x1b[2J\nname", "")
	do(os.Symlink(dir, at("profiles", "elsewhere")))
	do(unix.Mkfifo(at("profiles", "pipe"), 0o644))
	do(os.MkdirAll(at("trash", "old-20260101T000000Z"), 0o755))
	do(os.Symlink(secret, at("trash", "old-20260101T000000Z", "profile.yaml")))
	do(unix.Mkfifo(at("trash", "pipe-20260101T000000Z"), 0o644))
	do(os.Symlink(dir, at(".rlminit")))
	config := filepath.Join(dir, "new.yaml")
	do(os.WriteFile(config, []byte("version: 1\nuser: \"1000:1000\"\ngateway: {command: [sleep, \"1\"], marker: marker}\n"), 0o644))

	var nowhere *box
	r := nowhere.rlminit(t, "check", "--volume", at(), "--json", config)
	var is checkedVolume
	do(json.Unmarshal([]byte(r.out), &is))
	var refused []string
	for _, p := range is.Refused {
		refused = append(refused, p.Profile)
	}
	if want := []string{"directory", "elsewhere", "escape", "fifo", "huge", "link"}; r.code != 14 || !slices.Equal(refused, want) {
		t.Errorf("exit code %d, refused %v, want %v: %s", r.code, refused, want, r.out)
	}
	if notes := strings.Join(is.Notes, "\n"); is.Profiles != 9 || !strings.Contains(notes, "pipe is skipped") || !strings.Contains(notes, ".rlminit") {
		t.Errorf("%d profiles, notes %s", is.Profiles, notes)
	}
	for _, args := range [][]string{{"--json"}, nil} {
		r := nowhere.rlminit(t, append([]string{"check", "--volume", at(), config}, args...)...)
		if strings.Contains(r.out+r.err, "\x1b") || strings.Contains(r.out+r.err, "outside") {
			t.Errorf("check %q writes %q", args, r.out+r.err)
		}
	}
}
