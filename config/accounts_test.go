package config

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"rlminit/wire"
)

const passwd = `root:x:0:0:root:/root:/bin/sh
# a comment
app:x:1000:1000:App:/data:/bin/sh
www:x:33:33::/var/www:/bin/false
homeless:x:40:40:::/bin/false
+nis::::::
broken
alsobroken:x:notanumber:5::/:
huge:x:4294967295:5::/:
123:x:77:77::/odd:
`

const group = `root:x:0:
app:x:1000:
audio:x:29:app,www
video:x:44:app
staff:x:50:
:x:9:app
broken:x:nan:app
`

func TestResolve(t *testing.T) {
	a := ParseAccounts(passwd, group)
	for _, c := range []struct {
		user, group string
		groups      []string
		want        wire.Identity
	}{
		{"app", "", nil, wire.Identity{UID: 1000, GID: 1000, Groups: []uint32{29, 44}, Name: "app", Home: "/data"}},
		{"1000", "", nil, wire.Identity{UID: 1000, GID: 1000, Groups: []uint32{29, 44}, Name: "app", Home: "/data"}},
		{"www", "", nil, wire.Identity{UID: 33, GID: 33, Groups: []uint32{29}, Name: "www", Home: "/var/www"}},
		{"root", "", nil, wire.Identity{Name: "root", Home: "/root"}},
		{"homeless", "", nil, wire.Identity{UID: 40, GID: 40, Name: "homeless", Home: "/volume"}},
		{"app", "staff", []string{"video", "7"}, wire.Identity{UID: 1000, GID: 50, Groups: []uint32{7, 29, 44}, Name: "app", Home: "/data"}},
		{"app", "audio", nil, wire.Identity{UID: 1000, GID: 29, Groups: []uint32{44}, Name: "app", Home: "/data"}},
		// A user and group that are both written are meant exactly so.
		{"app:staff", "", nil, wire.Identity{UID: 1000, GID: 50, Name: "app", Home: "/data"}},
		{"1000:0", "", nil, wire.Identity{UID: 1000, GID: 0, Name: "app", Home: "/data"}},
		{"12345:0", "", []string{"audio"}, wire.Identity{UID: 12345, GID: 0, Groups: []uint32{29}, Name: "12345", Home: "/volume"}},
		{"12345", "", nil, wire.Identity{UID: 12345, GID: 12345, Name: "12345", Home: "/volume"}},
		// A name of digits is a name first, as with chown(1).
		{"123", "", nil, wire.Identity{UID: 77, GID: 77, Name: "123", Home: "/odd"}},
	} {
		got, err := a.Resolve(c.user, c.group, c.groups, "/volume")
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s %v: %+v, %v; want %+v", c.user, c.group, c.groups, got, err, c.want)
		}
	}
	for _, c := range []struct{ user, group, want string }{
		{"ap", "", `user "ap" is not in /etc/passwd; did you mean "app"?`},
		{"nobody", "", `user "nobody" is not in /etc/passwd; add it there, or write a uid`},
		{"huge", "", `user "huge" is not in /etc/passwd; add it there, or write a uid`},
		{"app:audo", "", `group "audo" is not in /etc/group; did you mean "audio"?`},
		{"app", "zzz", `group "zzz" is not in /etc/group; add it there, or write a gid`},
	} {
		if _, err := a.Resolve(c.user, c.group, nil, "/"); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.user, c.group, err, c.want)
		}
	}
}

func TestAccountsMayBeMissing(t *testing.T) {
	dir := t.TempDir()
	a, err := ReadAccounts(filepath.Join(dir, "passwd"), filepath.Join(dir, "group"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Resolve("5:6", "", nil, "/data")
	if want := (wire.Identity{UID: 5, GID: 6, Name: "5", Home: "/data"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "passwd"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = ReadAccounts(filepath.Join(dir, "passwd"), filepath.Join(dir, "group"))
	if want := "cannot read " + dir + "/passwd: it is no regular file"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
