package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"rlminit/usage"
)

// place is what there is to see here of the rlminit that is asked, without asking it.
type place struct {
	dir     string   // the runtime directory
	named   bool     // RLMINIT_RUNTIME_DIR names it: no other place is looked at
	proc    string   // where proc(5) is mounted
	shared  string   // what runtime directories in /dev/shm begin with
	configs []string // where the configuration would be
}

// Trusted says why nobody is to be asked in the runtime directory, and nothing there to
// be believed.
func (p *place) Trusted() error {
	err := trusted(p.dir, os.Geteuid())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // nobody answers there
	}
	return err
}

// RuntimeDir returns the directory that the client asks in.
func (p *place) RuntimeDir() string { return p.dir }

// Socket returns the path of the control socket.
func (p *place) Socket() string { return filepath.Join(p.dir, SocketName) }

// absence explains why nobody answers on the socket, from what PID 1 is.
func (p *place) absence() *Problem {
	socket := p.Socket()
	if p.named {
		socket += ", which RLMINIT_RUNTIME_DIR names"
	}
	if uid, ok := p.Foreign(); ok {
		return NotPermitted("permission denied: you are uid %d, rlminit runs as uid %d; use docker exec -u %d", os.Geteuid(), uid, uid)
	}
	name, called, expected := p.initProcess()
	switch {
	case name == "":
		return NoAnswer("no rlminit answers on %s: what PID 1 is cannot be told (no /proc); start the container with rlminit init as its ENTRYPOINT", socket)
	case expected:
		return NoAnswer("no rlminit answers on %s: PID 1 is rlminit, but its supervisor did not come up; see docker logs", socket)
	case called:
		return NoAnswer("no rlminit answers on %s: PID 1 is rlminit without a configuration, a pure init that supervises nothing; add /etc/rlminit/rlminit.yaml and start the container anew", socket)
	case name == "rlminit":
		return NoAnswer("no rlminit answers on %s: PID 1 is not rlminit init, but another verb of rlminit; use docker exec in a container that runs, or start this one with rlminit init", socket)
	case name == "systemd" || name == "init" || name == "launchd":
		return NoAnswer("no rlminit answers on %s: PID 1 is %q, so this is not a container of rlminit's; use docker exec CONTAINER rlminit, or rlminit try", socket, name)
	default:
		return NoAnswer("no rlminit answers on %s: PID 1 is %q; the image's ENTRYPOINT was overridden", socket, name)
	}
}

// Foreign tells whether an rlminit runs here whose runtime directory is of no use
// to this caller, for it belongs to a uid that is neither root nor the caller's:
// that of PID 1, or of a directory in /dev/shm where PID 1 is something else.
func (p *place) Foreign() (uid uint32, ok bool) {
	if name, _, expected := p.initProcess(); name == "rlminit" {
		uid, ok = p.uidOfInit()
		return uid, ok && expected && uid != 0 && uid != uint32(os.Geteuid())
	}
	if p.named {
		return 0, false
	}
	dirs, _ := filepath.Glob(p.shared + "*") // the pattern is a good one
	for _, dir := range dirs {
		uid, err := strconv.ParseUint(strings.TrimPrefix(dir, p.shared), 10, 32)
		if err != nil || int(uid) == os.Geteuid() || trusted(dir, int(uid)) != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, SocketName)); err == nil {
			return uint32(uid), true
		}
	}
	return 0, false
}

// uidOfInit returns the effective uid of PID 1.
func (p *place) uidOfInit() (uid uint32, ok bool) {
	_, err := fmt.Sscan(usage.Status(p.proc, 1)["Uid"], new(uint32), &uid)
	return uid, err == nil
}

// initProcess tells the name of PID 1's program; whether it is an rlminit that was called
// as init, for one that is a client, of docker run --entrypoint, waits for nobody but
// itself; and whether it has a configuration, so that a socket which is not there yet
// soon will be.
//
// A program that was executed by a link is named after the link in comm, proc_pid_comm(5).
// It is rlminit too if its first argument, a full path, is a link to a file of that name.
// Only root can read the link to the executed file, proc_pid_exe(5).
func (p *place) initProcess() (name string, called, expected bool) {
	comm, _ := os.ReadFile(filepath.Join(p.proc, "1/comm"))
	cmdline, _ := os.ReadFile(filepath.Join(p.proc, "1/cmdline"))
	name = strings.TrimSuffix(string(comm), "\n")
	options, _, _ := strings.Cut(string(cmdline), "\x00--\x00")
	words := strings.Split(options, "\x00")
	if len(words) < 2 || words[1] != "init" {
		return name, false, false
	}
	if program, _ := filepath.EvalSymlinks(words[0]); filepath.IsAbs(words[0]) && filepath.Base(program) == "rlminit" {
		name = "rlminit"
	}
	called = name == "rlminit"
	expected = called && strings.Contains(options, "\x00--config")
	for _, file := range p.configs {
		_, err := os.Stat(file)
		expected = expected || called && err == nil
	}
	return name, called, expected
}

// UnderInit tells whether PID 1 is rlminit, called as what it may.
func (p *place) UnderInit() bool {
	name, _, _ := p.initProcess()
	return name == "rlminit"
}

// Supervised tells whether a supervisor is here, or will be.
func (p *place) Supervised() bool {
	_, err := os.Lstat(p.Socket())
	name, called, expected := p.initProcess()
	return err == nil || expected || name == "rlminit" && !called
}

// PureInit tells whether PID 1 is an rlminit that was given no configuration,
// and so has no control socket.
func (p *place) PureInit() bool {
	_, called, expected := p.initProcess()
	return called && !expected
}

// configFiles are the places of the configuration, as far as a client that
// shares the container's environment can tell.
func configFiles() []string {
	files := []string{"/etc/rlminit/rlminit.yaml"}
	if named := os.Getenv("RLMINIT_CONFIG"); named != "" {
		files = []string{named}
	}
	return files
}

// cutShort is said of a request whose connection ended before the answer, and
// that must not be sent twice.
func cutShort(what string) *Problem {
	return NoAnswer("%s", fmt.Sprintf("cannot tell whether %s was done: the supervisor was replaced before it answered; see rlminit status", what))
}
