package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// supervisor is one that starts services which each do nothing but
//
//	cat DIR/fifo/NAME
//
// and so tell, by opening the FIFO, that they run.
type supervisor struct {
	name  string
	needs string // the program; "" for this one
	// prepare writes the configuration into dir and returns the command line.
	prepare func(dir string, names []string) ([]string, error)
	// stop is the signal to PID 1 that ends it in order; 0: it has none.
	stop syscall.Signal
	// restarts: a service that was killed comes back.
	restarts bool
	// cgroup is that of all of it, which it may write; "" for ours.
	cgroup string
}

// supervisors are rlminit, s6 to hold it against, and others; last, the floor:
// a loop that starts the same commands and does nothing else.
func supervisors() []supervisor {
	all := []supervisor{
		{name: "rlminit", needs: *binary, prepare: prepareRlminit, stop: syscall.SIGTERM, restarts: true},
		{name: "s6", needs: "s6-svscan", prepare: prepareS6, stop: syscall.SIGTERM, restarts: true},
		{name: "runit", needs: "runsvdir", prepare: prepareRunit, restarts: true},
		{name: "supervisord", needs: "supervisord", prepare: prepareSupervisord, stop: syscall.SIGTERM, restarts: true},
		{name: "bare loop", prepare: prepareFloor},
	}
	return slices.DeleteFunc(all, func(s supervisor) bool {
		if s.needs == "" {
			return false
		}
		_, err := exec.LookPath(s.needs)
		return err != nil
	})
}

func fifo(dir, name string) string { return filepath.Join(dir, "fifo", name) }

// prepareRlminit: without tee, as the others log nowhere; and healthy after as
// long as s6 takes for it.
func prepareRlminit(dir string, names []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nuser: nobody\nhome: %s/volume\nservices:\n", dir)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: {command: [/bin/cat, %s], restart: {reset_after: 1s}, log: {tee: off}}\n", name, fifo(dir, name))
	}
	file := filepath.Join(dir, "rlminit.yaml")
	return []string{*binary, "init", "--config", file}, os.WriteFile(file, []byte(b.String()), 0o644)
}

// script is a run script of s6 and runit.
func script(dir, name string) error {
	service := filepath.Join(dir, "scan", name)
	if err := os.MkdirAll(service, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(service, "run"), fmt.Appendf(nil, "#!/bin/sh\nexec /bin/cat %s\n", fifo(dir, name)), 0o755)
}

func prepareS6(dir string, names []string) ([]string, error) {
	for _, name := range names {
		if err := script(dir, name); err != nil {
			return nil, err
		}
	}
	return []string{"s6-svscan", "-c", fmt.Sprint(len(names) + 8), filepath.Join(dir, "scan")}, nil
}

func prepareRunit(dir string, names []string) ([]string, error) {
	for _, name := range names {
		if err := script(dir, name); err != nil {
			return nil, err
		}
	}
	return []string{"runsvdir", "-P", filepath.Join(dir, "scan")}, nil
}

func prepareSupervisord(dir string, names []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "[supervisord]\nnodaemon=true\nuser=root\nminfds=8192\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=%s/pid\n", dir)
	for _, name := range names {
		fmt.Fprintf(&b, "[program:%s]\ncommand=/bin/cat %s\nstdout_logfile=NONE\nstderr_logfile=NONE\nstartsecs=0\n", name, fifo(dir, name))
	}
	file := filepath.Join(dir, "supervisord.conf")
	return []string{"supervisord", "-c", file}, os.WriteFile(file, []byte(b.String()), 0o644)
}

func prepareFloor(dir string, names []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{self, "floor"}
	for _, name := range names {
		argv = append(argv, fifo(dir, name))
	}
	return argv, nil
}

// floor starts the commands one after the other, and nothing else.
func floor(fifos []string) error {
	for _, path := range fifos {
		if _, err := syscall.ForkExec("/bin/cat", []string{"cat", path}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}); err != nil {
			return err
		}
	}
	time.Sleep(time.Hour) // until it is killed
	return nil
}

// scene is a supervisor at work.
type scene struct {
	*supervisor
	cmd    *exec.Cmd
	dir    string
	names  []string
	opened *openings
	took   time.Duration // until every service ran
}

// stage starts n services below a supervisor and waits until they all run.
func (s *supervisor) stage(n int) (_ *scene, err error) {
	sc := &scene{supervisor: s}
	if sc.dir, err = os.MkdirTemp("/var/tmp", "rlminit-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			sc.end()
		}
	}()
	if err := os.Chmod(sc.dir, 0o755); err != nil {
		return nil, err
	}
	for i := range n {
		sc.names = append(sc.names, fmt.Sprintf("s%d", i))
	}
	if sc.opened, err = watch(filepath.Join(sc.dir, "fifo"), sc.names); err != nil {
		return nil, err
	}
	argv, err := s.prepare(sc.dir, sc.names)
	if err != nil {
		return nil, err
	}
	sc.cmd = boxed(argv...)
	if s.cgroup != "" {
		sc.cmd.Env = append(sc.cmd.Env, ownCgroup+"="+s.cgroup)
	}
	began := time.Now()
	if err := sc.cmd.Start(); err != nil {
		return nil, err
	}
	if err := sc.opened.await(sc.names...); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	sc.took = time.Since(began)
	return sc, nil
}

// end kills what is left: the kernel ends a PID namespace with its first process.
func (sc *scene) end() {
	if sc.cmd != nil && sc.cmd.Process != nil {
		_ = sc.cmd.Process.Kill()
		_ = sc.cmd.Wait()
	}
	if sc.opened != nil {
		sc.opened.close()
	}
	_ = os.RemoveAll(sc.dir)
}

// overhead is what belongs to the supervisor: all but the services.
func (sc *scene) overhead() ([]process, error) {
	all, err := within(sc.cmd.Process.Pid)
	return slices.DeleteFunc(all, func(p process) bool { return filepath.Base(p.argv[0]) == "cat" }), err
}
