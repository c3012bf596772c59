package control

import (
	"bytes"
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
	if uid, ok := p.Foreign(); ok {
		return NotPermitted("permission denied: you are uid %d, rlminit runs as uid %d; use docker exec -u %d", os.Geteuid(), uid, uid)
	}
	name, err := p.initName()
	if err != nil {
		return NoAnswer("no rlminit answers on %s: what PID 1 is cannot be told (no /proc); start the container with rlminit init as its ENTRYPOINT", socket)
	}
	switch {
	case isInit(name) && !p.isInitCalled():
		return NoAnswer("no rlminit answers on %s: PID 1 is not rlminit init, but another verb of rlminit; use docker exec in a container that runs, or start this one with rlminit init", socket)
	case isInit(name) && p.isExpected():
		return NoAnswer("no rlminit answers on %s: PID 1 is %s, but its supervisor did not come up; see docker logs", socket, name)
	case isInit(name):
		return NoAnswer("no rlminit answers on %s: PID 1 is %s without a configuration, a pure init that supervises nothing; add /etc/rlminit/rlminit.yaml and start the container anew", socket, name)
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
	if name, _ := p.initName(); isInit(name) {
		uid, ok = p.uidOfInit()
		return uid, ok && p.isExpected() && uid != 0 && uid != uint32(os.Geteuid())
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

// initName is the name of PID 1's program, and initArguments are what it was called with.
func (p *place) initName() (string, error) {
	comm, err := os.ReadFile(filepath.Join(p.proc, "1/comm"))
	return strings.TrimSuffix(string(comm), "\n"), err
}

func (p *place) initArguments() ([][]byte, error) {
	cmdline, err := os.ReadFile(filepath.Join(p.proc, "1/cmdline"))
	return bytes.Split(cmdline, []byte{0}), err
}

// PureInit tells whether PID 1 is an rlminit that was given no configuration,
// and so has no control socket.
func (p *place) PureInit() bool {
	name, _ := p.initName()
	return isInit(name) && p.isInitCalled() && !p.isExpected()
}

// isInitCalled tells whether PID 1, an rlminit, was called as init: one that is
// a client, of docker run --entrypoint, waits for nobody but itself.
func (p *place) isInitCalled() bool {
	args, err := p.initArguments()
	return err != nil || len(args) < 2 || string(args[1]) == "init"
}

// isInit tells whether a program's name is one that rlminit runs under.
func isInit(comm string) bool { return comm == "rlminit" }

// isExpected tells whether PID 1 is an rlminit with a configuration, so that a
// socket which is not there yet soon will be.
func (p *place) isExpected() bool {
	args, err := p.initArguments()
	if name, _ := p.initName(); err != nil || !isInit(name) || !p.isInitCalled() {
		return false
	}
	for _, arg := range args {
		if string(arg) == "--" {
			break
		}
		if bytes.HasPrefix(arg, []byte("--config")) {
			return true
		}
	}
	for _, file := range p.configs {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
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
