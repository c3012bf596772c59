// Package shim has a command that people type in a container run as the service user when
// root calls it, as docker exec does: with the environment and the directory of services.
//
// A shim is a file of one line, which the kernel executes by this program: no shell takes
// part, and the command takes the place of the process, so that exit code, signals and
// terminal are its own. The package makes such files and reads them. It never becomes another
// user itself: rlminit exec does.
package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/durable"
)

// Flag is what stands before the program in a shim's line.
const Flag = "--run="

// lineMost is how much of its first line the kernel reads, execve(2).
const lineMost = 255

// line is the content of a shim: self executes target.
func line(self, target string) string { return "#!" + self + " " + Flag + target + "\n" }

// Install makes the file link, a shim by which self executes target. One that is there
// already and right stays; anything else is replaced only with force.
func Install(self, link, target string, force bool) error {
	content := line(self, target)
	switch {
	case !filepath.IsAbs(target):
		return fmt.Errorf("cannot make the shim %s: %s is no absolute path; write NAME=/PATH", link, target)
	case strings.ContainsAny(self, " \t\n") || strings.ContainsAny(target, "\n") || strings.TrimRight(target, " \t") != target:
		return fmt.Errorf("cannot make the shim %s: the kernel cannot read such a name in a first line: %q; rename it", link, content)
	case len(content) > lineMost:
		return fmt.Errorf("cannot make the shim %s: its line has %d bytes, and the kernel reads %d; use shorter paths", link, len(content), lineMost)
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return fmt.Errorf("cannot make the shim %s: there is no %s (%w); install the program first", link, target, durable.Bare(err))
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("cannot make the shim %s: %s is no program", link, target)
	}
	if there, err := os.Stat(link); err == nil && os.SameFile(there, info) {
		return fmt.Errorf("cannot make the shim %s: it is the program itself; make it in another directory, which comes first in PATH", link)
	}
	if isShim(target) {
		return fmt.Errorf("cannot make the shim %s: %s is a shim; name the program behind it", link, target)
	}
	if now, err := os.ReadFile(link); err == nil && string(now) == content {
		return nil
	}
	if _, err := os.Lstat(link); err == nil && !force {
		return fmt.Errorf("cannot make %s: something else has that name; use --force to replace it", link)
	}
	return write(link, content)
}

// write makes an executable file in one step.
func write(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".shim-")
	if err != nil {
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Chmod(0o755)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("cannot make %s: %w", path, err)
	}
	return nil
}

// isShim tells whether a file is one: its first line names a program and the flag.
func isShim(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, lineMost+1)
	n, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	text, _, _ := bytes.Cut(first[:n], []byte("\n"))
	return bytes.HasPrefix(text, []byte("#!")) && bytes.Contains(text, []byte(" "+Flag))
}

// Exec executes target with the arguments that follow it, and returns only if it cannot.
// Root gets the service user, by the program rlminit beside self. Any other user, and root
// where no supervisor is or will be, runs it as it is; notice is told of the second.
func Exec(self, target string, args []string, notice func(string)) error {
	if isShim(target) {
		return fmt.Errorf("cannot run %s: it is a shim itself; make this shim of the program behind it", target)
	}
	if os.Geteuid() == 0 {
		if control.Open().Supervised() {
			program := filepath.Join(filepath.Dir(self), "rlminit")
			argv := append([]string{"rlminit", "exec", "--", target}, args...)
			return failed(program, unix.Exec(program, argv, os.Environ()))
		}
		notice("no rlminit supervises here: " + target + " runs as root")
	}
	return failed(target, unix.Exec(target, append([]string{target}, args...), os.Environ()))
}

// NotRun is a program that could not be executed, with the exit code that a shell gives it.
type NotRun struct {
	Code int
	what string
}

func (e *NotRun) Error() string { return e.what }

// failed is the error of an execve(2) that returned.
func failed(path string, err error) error {
	code := 126
	why := err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		code = 127
		if _, err := os.Stat(path); err == nil {
			code, why = 126, "its interpreter is not there; look at its first line"
		}
	}
	return &NotRun{code, fmt.Sprintf("cannot run %s: %s", path, why)}
}
