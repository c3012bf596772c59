package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// What a spawn needs is looked for in its directory, and what is amiss with either is
// said: of the directory first.
func TestPrepareSaysWhyAProgramCannotRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", "#!/bin/sh\n", 0o755)
	write("plain", "#!/bin/sh\n", 0o644)
	write("crlf", "#!/bin/sh\r\necho\r\n", 0o755)
	write("naked", "echo\n", 0o755)
	write("noshell", "#!/no/such/shell -e\n", 0o755)
	env := []string{"PATH=" + dir + ":/nowhere"}
	in := func(dir, name string) Prepared {
		return Prepare(Ourselves, Where{Dir: dir}, []string{name}, env)
	}
	for name, at := range map[string]string{"good": "/", "./good": dir} {
		if p := in(at, name); p.Err != nil || p.Path != filepath.Join(dir, "good") || p.Dir != at || p.Unrunnable != 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for at, want := range map[string]string{
		dir + "/none": "there is no such directory", dir + "/plain": "it is no directory", dir + "/good": "it is no directory",
	} {
		for _, name := range []string{"good", "./good", "agent"} {
			if p := in(at, name); p.Err == nil || !strings.Contains(p.Err.Error(), "cannot enter working_dir "+at+": "+want) || p.Unrunnable != 0 {
				t.Errorf("%s in %s: %+v, want %q", name, at, p, want)
			}
		}
	}
	for home, want := range map[string]string{dir: dir, dir + "/none": "/", dir + "/plain": "/", "": "/"} {
		if p := Prepare(Ourselves, Where{Home: home}, []string{"good"}, env); p.Err != nil || p.Dir != want {
			t.Errorf("with the home %q: %+v, want %q", home, p, want)
		}
	}
	for name, want := range map[string]string{
		"agent":  fmt.Sprintf(`cannot run "agent": not found in PATH (%s:/nowhere)`, dir),
		"plain":  "is not executable",
		"./none": "no such file",
		dir:      "is a directory",
	} {
		if p := in(dir, name); p.Err == nil || !strings.Contains(p.Err.Error(), want) || p.Unrunnable == 0 {
			t.Errorf("%s: %+v, want %q", name, p, want)
		}
	}
	for name, c := range map[string]struct {
		errno unix.Errno
		want  string
	}{
		"crlf":    {unix.ENOENT, "CR LF"},
		"naked":   {unix.ENOEXEC, "no #! line"},
		"noshell": {unix.ENOENT, `the interpreter "/no/such/shell", which does not exist`},
		"good":    {unix.E2BIG, "larger than the kernel takes"},
		"late":    {unix.ETIMEDOUT, "had not begun after 2 s"},
	} {
		if got := explainExec(nil, name, filepath.Join(dir, name), c.errno); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// A machine with too much to do is no fault of the service: it is tried again.
	for _, step := range []wire.Step{wire.StepExec, wire.StepDir, wire.StepUID} {
		why, again := ExplainSpawn(nil, []string{"late"}, "/late", "", &wire.SpawnFailed{Step: step, Errno: int32(unix.ETIMEDOUT)})
		if !again || !strings.Contains(why, "the machine is overloaded") {
			t.Errorf("at step %d, tried again: %v: %s", step, again, why)
		}
	}
	if why, again := ExplainSpawn(nil, []string{"late"}, "/late", "", &wire.SpawnFailed{Step: wire.StepExec, Errno: int32(unix.ETIME)}); again || why != "its deadline has passed" {
		t.Errorf("past its deadline, tried again: %v: %s", again, why)
	}
}
