package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/wire"
)

var app = wire.Identity{UID: 1000, GID: 1000, Name: "app", Home: "/data"}

// write puts a file into a directory of the test's.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInherits(t *testing.T) {
	for _, c := range []struct{ patterns, yes, no string }{
		{"*", "PATH SECRET_KEY a.b", "NOTIFY_SOCKET LISTEN_FDS LISTEN_PID WATCHDOG_USEC RLMINIT_HOME RLMINIT_X"},
		{"* !SECRET_*", "PATH SECRET", "SECRET_KEY SECRET_"},
		{"!SECRET_*", "PATH", "SECRET_KEY"},
		{"* !SECRET_* SECRET_OK", "SECRET_OK", "SECRET_KEY"},
		{"LANG LC_*", "LANG LC_ALL", "PATH LANGUAGE"},
		{"A?C", "ABC", "AC ABBC"},
		{"*_PROXY", "HTTP_PROXY _PROXY", "HTTP_PROXY_X"},
		{"A*B*C", "ABC AxBxC AxBBxC", "AxC"},
		{"", "", "PATH"},
		{"RLMINIT_* NOTIFY_SOCKET", "", "RLMINIT_HOME NOTIFY_SOCKET"},
	} {
		conf := &Config{InheritEnv: strings.Fields(c.patterns)}
		for _, name := range strings.Fields(c.yes) {
			if !conf.Inherits(name) {
				t.Errorf("%s: %s is not inherited", c.patterns, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if conf.Inherits(name) {
				t.Errorf("%s: %s is inherited", c.patterns, name)
			}
		}
	}
}

func TestEnvironmentOrder(t *testing.T) {
	dir := t.TempDir()
	token := write(t, dir, "token", "s3cret\n\n")
	global := write(t, dir, "global.env", "G=file\nX=global file\n")
	own := write(t, dir, "own.env", "# own\n\nexport O=file\nX='own file'\n")
	c := &Config{
		InheritEnv: []string{"*", "!SECRET_*"}, EnvFile: []string{global},
		Environment: map[string]service.Value{"G": {Text: "text"}, "LANG": {Text: "C"}},
	}
	d := service.Default("gateway-alice")
	d.EnvFile = []string{own, "?" + dir + "/missing"}
	d.Environment = map[string]service.Value{"X": {Text: "definition"}, "TOKEN": {File: token}, "HOME": {Text: "/elsewhere"}}
	container := []string{
		"LANG=de", "HOME=/root", "PATH=/bin", "SECRET_A=b", "RLMINIT_HOME=/data", "NOTIFY_SOCKET=/x", "LISTEN_FDS=1", "BYTES=\xff", "odd", "=x",
	}
	got, err := Environment(c, app, container, d, Profile{Name: "alice", Dir: "/data/profiles/alice", Port: 9471})
	want := []string{
		"LANG=C", "HOME=/elsewhere", "PATH=/bin", "BYTES=\xff", "USER=app", "LOGNAME=app", "G=text", "X=definition",
		"PROFILE=alice", "PROFILE_DIR=/data/profiles/alice", "PORT=9471", "O=file", "TOKEN=s3cret\n",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\ngot  %q\nwant %q", err, got, want)
	}
}

func TestEnvironmentWithoutAnything(t *testing.T) {
	got, err := Environment(&Config{}, app, []string{"PATH=/bin", "A=b"}, service.Default("web"), Profile{})
	want := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/data", "USER=app", "LOGNAME=app"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %q", err, got)
	}
}

func TestEnvironmentFaults(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(path string) *service.Definition {
		d := service.Default("web")
		d.Environment = map[string]service.Value{"A": {File: path}}
		return d
	}
	env := func(text string) *service.Definition {
		d := service.Default("web")
		sub := filepath.Join(dir, strconv.Itoa(len(text)))
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		d.EnvFile = []string{write(t, sub, "x.env", text)}
		return d
	}
	for _, c := range []struct {
		d    *service.Definition
		want string
	}{
		{file(dir + "/none"), "cannot read DIR/none for A: no such file or directory"},
		{file(fifo), "cannot read DIR/fifo for A: it is no regular file"},
		{file(dir), "cannot read DIR for A: it is no regular file"},
		{file("/dev/zero"), "cannot read /dev/zero for A: it is no regular file"},
		{file(write(t, dir, "big", strings.Repeat("x", 131072))), "cannot read DIR/big for A: it has more than 131071 bytes"},
		{file(write(t, dir, "nul", "a\x00b")), "cannot read DIR/nul for A: it holds a NUL byte"},
		{env("A=1\nB\n"), `cannot read env_file DIR/6/x.env:2: the line has no =; write NAME=value`},
		{env("A B=1"), `cannot read env_file DIR/5/x.env:1: a variable's name cannot hold a space`},
		{env("WATCHDOG_USEC=1"), `cannot read env_file DIR/15/x.env:1: "WATCHDOG_USEC": is set by rlminit itself; take it out`},
		{env("A='x"), "cannot read env_file DIR/4/x.env:1: A's value has a quote that is not closed"},
		{env(`A="wxyz\"`), "cannot read env_file DIR/9/x.env:1: A's value has a quote that is not closed"},
		{env(`A="x" y`), "cannot read env_file DIR/7/x.env:1: A's value goes on behind its quotes; put the quotes around all of it"},
		{env(`A="xyz"#`), "cannot read env_file DIR/8/x.env:1: A's value goes on behind its quotes; put the quotes around all of it"},
		{env("A=1\nB\nC\nD=\n"), `cannot read env_file DIR/11/x.env:2: the line has no =; write NAME=value (and one more fault)`},
		{env("A=\x00"), "cannot read env_file DIR/3/x.env:1: A holds a NUL byte"},
	} {
		done := make(chan error, 1)
		go func() {
			_, err := Environment(&Config{}, app, nil, c.d, Profile{})
			done <- err
		}()
		select {
		case err := <-done:
			got := "no error"
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: no answer", c.want)
		}
	}
	d := service.Default("web")
	d.EnvFile = []string{dir + "/missing.env"}
	if _, err := Environment(&Config{}, app, nil, d, Profile{}); err == nil ||
		err.Error() != "cannot read env_file "+dir+"/missing.env: no such file or directory" {
		t.Errorf("%v", err)
	}
}

func TestEnvFileLines(t *testing.T) {
	for line, want := range map[string]string{
		"A=b": "A=b", "  A = b ": "A=b", "A=": "A=", "export A=b": "A=b", "A=b=c": "A=b=c", `A="x y"`: "A=x y", `A="x\ny\"z\\$"`: "A=x\ny\"z\\$",
		`A='x\n"y"'`: `A=x\n"y"`, "A=b # c": "A=b # c", "A=${B}": "A=${B}", "A=\r": "A=", "# A=b": "", "": "", "\t": "",
		`A="x" # c`: "A=x", `A='x'	#`: "A=x", `A="x # y"`: "A=x # y", `A="x\\"`: `A=x\`, `A='x\'`: `A=x\`,
	} {
		name, value, ok, fault := envLine(line)
		got := ""
		if ok {
			got = name + "=" + value
		}
		if got != want || fault != "" {
			t.Errorf("%q: %q %q, want %q", line, got, fault, want)
		}
	}
}
