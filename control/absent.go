package control

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// absence explains why nobody answers on the socket, from what PID 1 is.
func (c *Client) absence() *Problem {
	socket := c.Socket()
	comm, err := os.ReadFile(filepath.Join(c.proc, "1/comm"))
	if err != nil {
		return NoAnswer("no rlminit answers on %s: what PID 1 is cannot be told (no /proc); start the container with rlminit init as its ENTRYPOINT", socket)
	}
	switch name := strings.TrimSuffix(string(comm), "\n"); {
	case isInit(name) && c.isExpected():
		return NoAnswer("no rlminit answers on %s: PID 1 is %s, but its supervisor did not come up; see docker logs", socket, name)
	case isInit(name):
		return NoAnswer("no rlminit answers on %s: PID 1 is %s without a configuration, a pure init that supervises nothing; add /etc/rlminit/rlminit.yaml and start the container anew", socket, name)
	case name == "systemd" || name == "init" || name == "launchd":
		return NoAnswer("no rlminit answers on %s: PID 1 is %q, so this is not a container of rlminit's; use docker exec CONTAINER rlminit, or rlminit try", socket, name)
	default:
		return NoAnswer("no rlminit answers on %s: PID 1 is %q; the image's ENTRYPOINT was overridden", socket, name)
	}
}

// PureInit tells whether PID 1 is an rlminit that was given no configuration,
// and so has no control socket.
func (c *Client) PureInit() bool {
	comm, err := os.ReadFile(filepath.Join(c.proc, "1/comm"))
	return err == nil && strings.TrimSuffix(string(comm), "\n") == "rlminit" && !c.isExpected()
}

// isInit tells whether a program's name is one that rlminit runs under.
func isInit(comm string) bool { return comm == "rlminit" }

// isExpected tells whether PID 1 is an rlminit with a configuration, so that a
// socket which is not there yet soon will be.
func (c *Client) isExpected() bool {
	comm, err := os.ReadFile(filepath.Join(c.proc, "1/comm"))
	if err != nil || !isInit(strings.TrimSuffix(string(comm), "\n")) {
		return false
	}
	cmdline, err := os.ReadFile(filepath.Join(c.proc, "1/cmdline"))
	if err != nil {
		return false
	}
	for _, arg := range bytes.Split(cmdline, []byte{0}) {
		if string(arg) == "--" {
			break
		}
		if bytes.HasPrefix(arg, []byte("--config")) {
			return true
		}
	}
	for _, file := range c.configs {
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
