package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/service"
	"rlminit/wire"
)

// killAfter is what a step that was asked to end is left.
const killAfter = 2 * time.Second

// Failure is a preparation that ends the container, with this exit code.
type Failure struct {
	Code int
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// AsUser makes directories and seeds and runs the boot steps, as the user that
// the calling process is already. say is told what goes on without, and over the
// name of each part that is done. A *Failure ends the container; ctx ends the step
// that runs.
func AsUser(ctx context.Context, c *config.Config, id wire.Identity, say, over func(string)) *Failure {
	if err := volume(c, say); err != nil {
		return &Failure{1, err}
	}
	over("directories")
	if c.Strict {
		if err := writable(c.Home); err != nil {
			return &Failure{78, fmt.Errorf("cannot start: %w; strict is set", err)}
		}
	}
	defer announce("")
	// What a step leaves behind becomes a child of this process, and can be found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return &Failure{1, fmt.Errorf("cannot become a subreaper: %w", err)}
	}
	for _, s := range c.Boot {
		announce(s.Name)
		code, err := step(ctx, c, id, s)
		switch {
		case ctx.Err() != nil:
			return &Failure{128 + int(unix.SIGTERM), fmt.Errorf("boot step %s: the container is stopping", s.Name)}
		case err == nil:
		case s.Continue:
			say(fmt.Sprintf("boot step %s failed: %v; on_failure: continue", s.Name, err))
		default:
			return &Failure{code, fmt.Errorf("boot step %s failed: %w; nothing was started", s.Name, err)}
		}
		over("boot step " + s.Name)
	}
	return nil
}

// announce names the step that is running to whoever asks rlminit for something
// meanwhile; "" for none. It is a courtesy: nothing depends on it.
func announce(step string) {
	dir := os.Getenv("RLMINIT_RUNTIME_DIR")
	if dir == "" {
		return
	}
	file := filepath.Join(dir, control.BootFile)
	if step == "" {
		_ = os.Remove(file)
	} else {
		_ = os.WriteFile(file, []byte(step), 0o644)
	}
}

// step runs one step and returns the exit code that its failure gives the
// container.
func step(ctx context.Context, c *config.Config, id wire.Identity, s config.Step) (int, error) {
	d := service.Default(s.Name)
	d.Environment = s.Environment
	env, err := config.Environment(c, id, os.Environ(), d, config.Profile{})
	if err != nil {
		return 1, err
	}
	file, code, err := find(s.Command[0], s.WorkingDir, env)
	if err != nil {
		return code, err
	}
	timed, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(timed, file, s.Command[1:]...)
	cmd.Args[0] = s.Command[0]
	cmd.Env, cmd.Dir = env, s.WorkingDir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func(signal syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, signal) }
	cmd.Cancel = func() error {
		if err := group(unix.SIGTERM); err != nil {
			return err
		}
		time.AfterFunc(killAfter, func() { _ = group(unix.SIGKILL) }) // it may have ended: then nobody is left
		return nil
	}
	before := children()
	err = cmd.Run()
	if timed.Err() != nil {
		sweep(before)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case timed.Err() == context.DeadlineExceeded:
		return 1, fmt.Errorf("it did not end within %s", s.Timeout)
	case !errors.As(err, &exit):
		return 126, fmt.Errorf("cannot run %q: %w", s.Command[0], durable.Bare(err))
	}
	status := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), fmt.Errorf("killed by signal %d", int(status.Signal()))
	}
	return status.ExitStatus(), fmt.Errorf("exit code %d", status.ExitStatus())
}

// find looks a program up in the PATH that it will have; with a slash it is a
// path, from the step's working directory. The code is a shell's: 127 for what
// is not there, 126 for what cannot be executed.
func find(word, dir string, env []string) (file string, code int, err error) {
	if strings.Contains(word, "/") {
		at := word
		if !filepath.IsAbs(word) {
			at = filepath.Join(dir, word)
		}
		if code, err := executable(at); err != nil {
			return "", code, fmt.Errorf("cannot run %q: %w", word, err)
		}
		return at, 0, nil
	}
	path := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		at := filepath.Join(dir, word)
		if c, err := executable(at); err == nil && filepath.IsAbs(at) {
			return at, 0, nil
		} else if c == 126 {
			code = c
		}
	}
	if code == 126 {
		return "", code, fmt.Errorf("cannot run %q: permission denied", word)
	}
	return "", 127, fmt.Errorf("cannot run %q: not found in PATH (%s)", word, path)
}

func executable(file string) (code int, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 127, unix.ENOENT
	case err != nil:
		return 126, durable.Bare(err)
	case info.IsDir():
		return 126, unix.EISDIR
	}
	if err := unix.Access(file, unix.X_OK); err != nil {
		return 126, err
	}
	return 0, nil
}
