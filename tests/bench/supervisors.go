package main

import (
	"embed"
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
//	/opt/service DIR/fifo/NAME
//
// and so tell, by opening the FIFO, that they run: programs/service.c.
type supervisor struct {
	name  string
	needs string // the program; "" for this one
	// prepare writes the configuration into dir and returns the command line.
	prepare func(dir string, names []string) ([]string, error)
	// stop is the signal to PID 1 that ends it in order; 0: it has none.
	stop syscall.Signal
	// restarts: a service that was killed comes back.
	restarts bool
	// outside: strace follows all of it, and writes to DIR/strace.
	outside bool
	// cgroup is that of all of it, which it may write; "" for ours.
	cgroup string
}

// supervisors are rlminit, s6 to hold it against, and others; last, the floor:
// a program that starts the same commands from two threads and does nothing else.
// Pebble and supervisord-go are no packages of Debian's: PEER_PEBBLE and
// PEER_SUPERVISORD name their binaries.
func supervisors() []supervisor {
	all := []supervisor{
		{name: "rlminit", needs: *binary, prepare: prepareRlminit, stop: syscall.SIGTERM, restarts: true},
		{name: "s6", needs: "s6-svscan", prepare: prepareS6, stop: syscall.SIGTERM, restarts: true},
		{name: "runit", needs: "runsvdir", prepare: prepareRunit, restarts: true},
		{name: "supervisord", needs: "supervisord", prepare: prepareSupervisord, stop: syscall.SIGTERM, restarts: true},
		{name: "Pebble", needs: peer("PEER_PEBBLE"), prepare: preparePebble, stop: syscall.SIGTERM, restarts: true},
		{name: "supervisord-go", needs: peer("PEER_SUPERVISORD"), prepare: prepareSupervisordGo, stop: syscall.SIGTERM, restarts: true},
		{name: "floor", prepare: prepareFloor},
	}
	return slices.DeleteFunc(all, func(s supervisor) bool {
		if s.needs == "" {
			return false
		}
		_, err := exec.LookPath(s.needs)
		return err != nil
	})
}

// peer is the binary that a variable names; one that is not there, where it names none.
func peer(variable string) string {
	if path := os.Getenv(variable); path != "" {
		return path
	}
	return "/nonexistent"
}

// checkPeers refuses a variable that names what cannot be run: it would be left out.
func checkPeers() error {
	for _, variable := range []string{"PEER_PEBBLE", "PEER_SUPERVISORD"} {
		if path := os.Getenv(variable); path != "" {
			if _, err := exec.LookPath(path); err != nil {
				return fmt.Errorf("cannot run what %s names: %w", variable, err)
			}
		}
	}
	return nil
}

// service is the program that each supervisor starts. It has no libc.
func service() string { return filepath.Join(programs, "service") }

// programs is where those of this folder are that are written in C.
var programs string

// compile makes the programs, with the C compiler, in a directory that it returns.
func compile() (dir string, err error) {
	if dir, err = os.MkdirTemp("/var/tmp", "rlminit-bench-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return dir, err
	}
	for name, flags := range map[string][]string{"service": {"-nostdlib", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"}, "floor": {"-pthread"}} {
		argv := append([]string{"-O2", "-static", "-x", "c", "-", "-o", filepath.Join(dir, name)}, flags...)
		cmd := exec.Command("cc", argv...)
		source, err := sources.Open("programs/" + name + ".c")
		if err != nil {
			return dir, err
		}
		cmd.Stdin = source
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("cannot compile %s.c: %w: %s", name, err, out)
		}
	}
	return dir, nil
}

//go:embed programs
var sources embed.FS

// runFiles is the directory in a scene's for what is to be in /run.
const runFiles = "run"

func fifo(dir, name string) string { return filepath.Join(dir, "fifo", name) }

// prepareRlminit: without tee, as the others log nowhere; and healthy after as
// long as s6 takes for it.
func prepareRlminit(dir string, names []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nuser: nobody\nhome: %s/volume\nservices:\n", dir)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: {command: [%s, %s], restart: {reset_after: 1s}, log: {tee: off}}\n", name, service(), fifo(dir, name))
	}
	file := filepath.Join(dir, "rlminit.yaml")
	return []string{*binary, "init", "--config", file}, os.WriteFile(file, []byte(b.String()), 0o644)
}

// script is a run script of s6 and runit.
func script(dir, name string) error {
	run := filepath.Join(dir, "scan", name)
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(run, "run"), fmt.Appendf(nil, "#!/bin/sh\nexec %s %s\n", service(), fifo(dir, name)), 0o755)
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
	file, err := supervisordFile(dir, names, "NONE")
	return []string{"supervisord", "-c", file}, err
}

// prepareSupervisordGo: to this one NONE is the name of a file.
func prepareSupervisordGo(dir string, names []string) ([]string, error) {
	file, err := supervisordFile(dir, names, "/dev/null")
	return []string{os.Getenv("PEER_SUPERVISORD"), "-c", file}, err
}

// supervisordFile writes a supervisord.conf, with that word for no log.
func supervisordFile(dir string, names []string, nowhere string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "[supervisord]\nnodaemon=true\nuser=root\nminfds=8192\nlogfile=/dev/null\nlogfile_maxbytes=0\npidfile=%s/pid\n", dir)
	for _, name := range names {
		fmt.Fprintf(&b, "[program:%s]\ncommand=%s %s\nstdout_logfile=%[4]s\nstderr_logfile=%[4]s\nstartsecs=0\n", name, service(), fifo(dir, name), nowhere)
	}
	file := filepath.Join(dir, "supervisord.conf")
	return file, os.WriteFile(file, []byte(b.String()), 0o644)
}

// preparePebble: its directory is in memory. It has its state there, and a socket.
func preparePebble(dir string, names []string) ([]string, error) {
	var b strings.Builder
	b.WriteString("services:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: {override: replace, startup: enabled, command: %s %s}\n", name, service(), fifo(dir, name))
	}
	layers := filepath.Join(dir, runFiles, "pebble", "layers")
	if err := os.MkdirAll(layers, 0o755); err != nil {
		return nil, err
	}
	return []string{"env", "PEBBLE=/run/pebble", os.Getenv("PEER_PEBBLE"), "run"}, os.WriteFile(filepath.Join(layers, "001-bench.yaml"), []byte(b.String()), 0o644)
}

func prepareFloor(dir string, names []string) ([]string, error) {
	argv := []string{filepath.Join(programs, "floor"), service()}
	for _, name := range names {
		argv = append(argv, fifo(dir, name))
	}
	return argv, nil
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
	// It is removed with the programs: where thousands of inodes have just been freed, an
	// ext4 without a journal takes ten times as long for a new one.
	if sc.dir, err = os.MkdirTemp(programs, "scene-"); err != nil {
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
	intoRun := filesForRun + "=" + filepath.Join(sc.dir, runFiles)
	sc.cmd.Env = append(sc.cmd.Env, intoRun)
	if s.outside {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		sc.cmd = exec.Command("strace", append([]string{"-f", "-qq", "-s", "8", "-o", filepath.Join(sc.dir, "strace"), self, "outside"}, argv...)...)
		sc.cmd.Env = append(os.Environ(), intoRun)
	}
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
}

// overhead is what belongs to the supervisor: all but the services.
func (sc *scene) overhead() ([]process, error) {
	all, err := within(sc.cmd.Process.Pid)
	return slices.DeleteFunc(all, func(p process) bool { return filepath.Base(p.argv[0]) == "service" }), err
}
