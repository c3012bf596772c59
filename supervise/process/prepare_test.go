package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLookPathSaysWhyAProgramCannotRun(t *testing.T) {
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
	if path, err := lookPath(nil, "good", "/", env); err != nil || path != filepath.Join(dir, "good") {
		t.Errorf("good: %q, %v", path, err)
	}
	if path, err := lookPath(nil, "./good", dir, env); err != nil || path != filepath.Join(dir, "good") {
		t.Errorf("./good: %q, %v", path, err)
	}
	for name, want := range map[string]string{
		"agent":  fmt.Sprintf(`cannot run "agent": not found in PATH (%s:/nowhere)`, dir),
		"plain":  "is not executable",
		"./none": "no such file",
		dir:      "is a directory",
	} {
		if _, err := lookPath(nil, name, dir, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
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
	} {
		if got := explainExec(nil, name, filepath.Join(dir, name), c.errno); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
