package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// row is a place in the table of docs/places.md.
type row struct {
	place, options                               string
	supervisor, services, apart, runtime, volume string // what becomes of them there
}

var rowOf = regexp.MustCompile("^\\| ([^|]+) \\| (?:`([^`]*)`)? *\\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestPlaces: in each place of docs/places.md all is as the table there has it.
func TestPlaces(t *testing.T) {
	t.Parallel()
	root, err := box.Repository()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "places.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		m := rowOf.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || strings.HasPrefix(m[1], "-") || m[1] == "place" {
			continue
		}
		rows++
		r := row{m[1], m[2], m[3], m[4], m[5], m[6], m[7]}
		t.Run(r.place, func(t *testing.T) {
			t.Parallel()
			r.holds(t)
		})
	}
	if rows < 15 { // or it was not understood
		t.Errorf("the table has %d rows", rows)
	}
}

// directory makes a directory of a user's, for a bind mount.
func directory(t *testing.T, uid int) string {
	dir, err := os.MkdirTemp("", "rlminit-place-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// holds starts a container there, and looks.
func (r row) holds(t *testing.T) {
	options := strings.Fields(r.options)
	for i, o := range options {
		for name, uid := range map[string]int{"ROOTS": 0, "USERS": 1000, "OTHERS": 4242} {
			if strings.HasPrefix(o, name+":") {
				options[i] = directory(t, uid) + strings.TrimPrefix(o, name)
			}
		}
		if at, found := strings.CutPrefix(o, "ONEUID:"); found {
			_, of := mountOneUID(t, 1000)
			options[i] = of + ":" + at
		}
		if strings.HasPrefix(o, "VOLUME:") {
			options[i] = fmt.Sprintf("rlminit-place-%s-%d%s", runName, i, strings.TrimPrefix(o, "VOLUME"))
			volume := strings.Split(options[i], ":")[0]
			if _, err := must(nil, "volume", "create", "--label", label+"="+runName, volume); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { docker(nil, "volume", "rm", volume) })
		}
	}
	b := startImage(t, built.based, box.Spec{Config: contract.Services(`sleeper: {command: [bash, -c, "echo here $$((40+2)); exec sleep infinity"]}`), Docker: options})
	p := b.Place.(*Place)
	user := box.Service
	for i, o := range options {
		if o == "--user" {
			fmt.Sscanf(options[i+1], "%d:%d", &user.UID, &user.GID)
		}
	}
	got := row{place: r.place, options: r.options}
	box.Eventually(b, answerTimeout, "rlminit answers or ends", func() (bool, any) {
		if status, err := p.inspect("{{.State.Status}}"); err != nil || status != "running" {
			return err == nil && status == "exited", fmt.Sprint(status, err)
		}
		a, err := p.Exec(user, nil, []string{"rlminit", "status", "--json"})
		return err == nil && a.Code == 0 && strings.Contains(a.Out, `"running"`), fmt.Sprint(a, err)
	})
	if status, _ := p.inspect("{{.State.Status}}"); status == "exited" {
		got.supervisor, got.services, got.apart, got.runtime, got.volume = "–", "nothing starts", "–", "–", "–"
	} else {
		r.look(b, user, &got)
	}
	if got != r {
		t.Errorf("| %s | `%s` | %s | %s | %s | %s | %s |\nis not what docs/places.md says:\n| %s | `%s` | %s | %s | %s | %s | %s |",
			got.place, got.options, got.supervisor, got.services, got.apart, got.runtime, got.volume,
			r.place, r.options, r.supervisor, r.services, r.apart, r.runtime, r.volume)
	}
}

// look finds out what became of ids, runtime directory and records.
func (r row) look(b *box.Box, user box.User, got *row) {
	in := func(script string) string {
		a, err := b.Exec(user, nil, []string{"sh", "-c", script})
		if err != nil {
			b.Fatal(err)
		}
		return strings.TrimSpace(a.Out)
	}
	pid := in(`pgrep -x sleep | head -1`)
	uid := in(`awk '/^Uid:/ {print $2}' /proc/$(pgrep -f '^rlminit supervise' | head -1)/status`)
	got.supervisor = "uid " + uid
	if findings := in(`rlminit doctor`); strings.Contains(findings, "the supervisor has the uid of the services") != (uid == fmt.Sprint(user.UID)) {
		b.Errorf("the supervisor is uid %s, and rlminit doctor says:\n%s", uid, findings)
	}
	got.services = "uid " + in(`awk '/^Uid:/ {print $2}' /proc/`+pid+`/status`)
	got.apart = "session"
	for group := range strings.FieldsSeq(in(`sed -n 's/^Groups://p' /proc/` + pid + `/status`)) {
		if len(group) == 5 && group >= "50000" && group <= "59999" {
			got.apart = "tag"
		}
	}
	at := in(`for d in /run/rlminit /dev/shm/rlminit-0 /dev/shm/rlminit-$(id -u); do if test -S $d/control.sock; then readlink -f $d; break; fi; done`)
	if strings.Contains(r.options, "--ipc host") && strings.HasPrefix(at, "/dev/shm/rlminit-") {
		b.Cleanup(func() { os.RemoveAll(at) }) // it is the host's, and outlives the container
	}
	switch {
	case strings.HasPrefix(at, "/dev/shm/"):
		got.runtime = "/dev/shm"
	case in(`stat -f -c %T `+at) == "tmpfs":
		got.runtime = "/run, tmpfs"
	default:
		got.runtime = "/run, disk"
	}
	box.Eventually(b, answerTimeout, "what a service prints is in docker logs, wherever that is", func() (bool, any) {
		printed := b.Printed()
		return strings.Contains(printed, "sleeper | here 42"), printed
	})
	a, err := b.Exec(user, nil, []string{"rlminit", "profile", "create", "alice"})
	if err != nil {
		b.Fatal(err)
	}
	got.volume = "not recorded"
	if a.Code == 0 {
		got.volume = "recorded"
	}
}
