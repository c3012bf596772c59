package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rlminit/wire"
)

// TestSupervisor: tier 2 is somebody of its own where that can be, and who the
// services are where it cannot, which is said once.
func TestSupervisor(t *testing.T) {
	own := wire.Identity{UID: 49999, GID: 49999, Name: "rlminit", Home: "/"}
	able := func(string, wire.Identity, wire.Identity) (bool, string) { return false, "" }
	for name, c := range map[string]struct {
		text      string
		separable func(string, wire.Identity, wire.Identity) (bool, string)
		want      wire.Identity // the zero value: who the services are
		note, err string
	}{
		"by itself":       {"", able, own, "", ""},
		"named":           {"supervisor_user: \"777:778\"\n", able, wire.Identity{UID: 777, GID: 778, Name: "rlminit", Home: "/"}, "", ""},
		"unknown":         {"supervisor_user: nobody-here\n", able, wire.Identity{}, "", "supervisor_user: user \"nobody-here\" is not in /etc/passwd"},
		"root":            {"supervisor_user: root\n", able, wire.Identity{}, "", "is root's"},
		"root's group":    {"supervisor_user: \"777:0\"\n", able, wire.Identity{}, "", "is root's"},
		"the services":    {"supervisor_user: app\n", able, wire.Identity{}, "", "is who the services are"},
		"their group":     {"supervisor_user: \"777:1000\"\n", able, wire.Identity{}, "", "is in a group of the services"},
		"another service": {"supervisor_user: www\nservices: {web: {command: [web], user: www}}\n", able, wire.Identity{}, "", "is that of web"},
		"among the tags":  {"supervisor_user: \"777:50001\"\n", able, wire.Identity{}, "", "lies in tags"},
		"not in this place": {
			"", func(string, wire.Identity, wire.Identity) (bool, string) { return false, "the moon is full" },
			wire.Identity{},
			"the supervisor has the uid of the services, 1000, who could stop it and forge its records: the moon is full", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := vars{"PATH": "/bin"}
			h := dockerRoot(env)
			h.Separable = c.separable
			got, err := Compile(parsed(t, env, "version: 1\nuser: app\n"+c.text), h, nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.want.UID == 0 {
				c.want = got.Policy.User
			}
			if s := got.Policy.Supervisor; s.UID != c.want.UID || s.GID != c.want.GID || s.Name != c.want.Name || s.Home != c.want.Home {
				t.Errorf("%+v, want %+v", s, c.want)
			}
			if said := strings.Join(got.Notes, "\n"); said != c.note {
				t.Errorf("said %q, want %q", said, c.note)
			}
		})
	}
}

// Where rlminit is not root there is one uid for all, and what that means is said.
func TestSupervisorWithoutRoot(t *testing.T) {
	h := Host{UID: 1000, GID: 1000, Separable: func(string, wire.Identity, wire.Identity) (bool, string) { return false, "" }}
	got, err := Compile(parsed(t, nil, "version: 1\n"), h, nil)
	if err != nil || got.Policy.Supervisor.UID != 1000 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "who could stop it") {
		t.Errorf("%+v, %v, %q", got.Policy.Supervisor, err, got.Notes)
	}
}

func TestMapped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map")
	if err := os.WriteFile(file, []byte("         0       1000          1\n         1     100000      49999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint32]bool{0: true, 1: true, 49999: true, 50000: false} {
		if mapped(file, id) != want {
			t.Errorf("%d: %t", id, !want)
		}
	}
	if !mapped("/nonexistent", 5) {
		t.Error("where nobody can tell")
	}
}

// TestUnmapped: an id that the user namespace does not have is named, with what can be done.
func TestUnmapped(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	root, some := file("root", "0 0 1\n"), file("some", "0 100000 1500\n")
	for _, c := range []struct {
		uids, gids string
		id         wire.Identity
		want       string
	}{
		{some, some, wire.Identity{UID: 1000, GID: 1000, Groups: []uint32{5, 1499}}, ""},
		{root, root, wire.Identity{UID: 1000, GID: 1000}, "uid 1000 is not among those that the container's user namespace has; it has none but root's"},
		{some, root, wire.Identity{UID: 1000, GID: 1000}, "gid 1000 is not among those that the container's user namespace has; it has none but root's"},
		{some, some, wire.Identity{UID: 2000, GID: 1000}, "uid 2000 is not among those that the container's user namespace has; name another user"},
		{some, some, wire.Identity{UID: 1000, GID: 1000, Groups: []uint32{5, 3000}}, "gid 3000 is not among"},
	} {
		if got := unmappedIn(c.uids, c.gids, c.id); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", c.id, got, c.want)
		}
	}
}

// TestNamesOfProfileUsers: a line of passwd may give a profile's user a name; one that
// is somebody else's keeps the range from being the profiles'.
func TestNamesOfProfileUsers(t *testing.T) {
	for line, accepted := range map[string]bool{
		"alice:x:40000:40000::/data/profiles/alice:/bin/sh":  true,
		"alice:x:40000:40000::/data/profiles/alice/:/bin/sh": true,
		"alice:x:40000:100::/data/profiles/alice:/bin/sh":    false,
		"alice:x:100:40000::/data/profiles/alice:/bin/sh":    false,
		"alice:x:40000:40000::/data/profiles:/bin/sh":        false,
		"alice:x:40000:40000::/home/alice:/bin/sh":           false,
		"alice:x:40000:40000:::/bin/sh":                      false,
	} {
		env := vars{"PATH": "/bin"}
		h := dockerRoot(env)
		h.Separable = func(string, wire.Identity, wire.Identity) (bool, string) { return false, "" }
		h.Capabilities, h.Accounts = ^uint64(0), ParseAccounts(passwd+line+"\n", group)
		_, err := Compile(parsed(t, env, "version: 1\nuser: app\nhome: /data\ngateway: {user: auto, command: [gateway]}\n"), h, nil)
		if (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), "has an id of user alice of /etc/passwd in it") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
