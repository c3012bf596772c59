package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every child has the groups that the container was given beyond root's own, and
// those of files; nobody has root's.
func TestGroupsOfTheContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	dir := t.TempDir()
	socket, roots := filepath.Join(dir, "docker.sock"), filepath.Join(dir, "root.sock")
	for _, file := range []string{socket, roots} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(socket, 0, 998); err != nil {
		t.Fatal(err)
	}
	host := dockerRoot(nil)
	host.Accounts = ParseAccounts(passwd, group+"wheel:x:10:root\n")
	host.Groups = []uint32{0, 10, 29, 4000}
	c := parsed(t, nil, "version: 1\nuser: app\nmain: {command: [x], user: root}\ngroups_of: ["+socket+", "+roots+", "+dir+"/none]\n"+
		"services: {web: {command: [x], user: www, groups: [video]}}\n")
	got, err := Compile(c, host, nil)
	if err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]struct{ got, want []uint32 }{
		"the user":  {got.Policy.User.Groups, []uint32{29, 44, 998, 4000}},
		"a service": {got.Policy.Privileged[0].Identity.Groups, []uint32{29, 44, 998, 4000}},
		"main":      {got.Policy.Main.Identity.Groups, []uint32{10, 29, 998, 4000}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s has the groups %v, want %v", who, c.got, c.want)
		}
	}
	notes := strings.Join(got.Notes, "\n")
	for _, want := range []string{roots + " belongs to the group root", "cannot look at " + dir + "/none: no such file"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
}

// Nobody has root's group: by its name or number the configuration is at fault, and by
// another name, which only the place knows, it cannot be used there.
func TestGroupRootIsRefused(t *testing.T) {
	for _, name := range []string{"0", "root", "00"} {
		for at, text := range map[string]string{
			"services.web": "services: {web: {command: [x], groups: [audio, \"" + name + "\"]}}\n",
			"main":         "main: {command: [x], groups: [audio, \"" + name + "\"]}\n",
			"gateway":      "gateway: {command: [x], user: auto, groups: [audio, \"" + name + "\"]}\n",
		} {
			_, faults := Parse(bundle("version: 1\nuser: app\n"+text), nil)
			want := "rlminit.yaml:3: " + at + ".groups[1]: group \"" + name + "\" is root's, and lets a service write what is root's; name another"
			if faults.Error() != want {
				t.Errorf("got %v\nwant %s", faults, want)
			}
		}
	}
	c := parsed(t, nil, "version: 1\nuser: app\nservices: {web: {command: [x], groups: [toor]}}\n")
	host := dockerRoot(nil)
	host.Accounts = ParseAccounts(passwd, group+"toor:x:0:\n")
	if _, err := Compile(c, host, nil); err == nil || !strings.Contains(err.Error(), "services.web: group \"toor\" is root's") {
		t.Errorf("groups: [toor]: %v", err)
	}
}

func TestGroupsOfWithoutRoot(t *testing.T) {
	c := parsed(t, nil, "version: 1\ngroups_of: [/etc/passwd]\n")
	got, err := Compile(c, Host{UID: 1000, GID: 1000, Groups: []uint32{5}}, nil)
	if err != nil || !slices.Equal(got.Policy.User.Groups, []uint32{5}) || len(got.Notes) != 1 {
		t.Errorf("%v, %v, %q", err, got.Policy.User.Groups, got.Notes)
	}
}
