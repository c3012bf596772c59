package s6

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
)

// setuidgid becomes a user for good and executes a command.
func setuidgid(c *call) int {
	_, words, ok := c.options("", "")
	if !ok || len(words) < 2 {
		return c.misused()
	}
	if words[0] == "" {
		return c.execute(words[1:], os.Environ())
	}
	uid, gid, groups, err := identify(words[0])
	if errors.Is(err, errUnknownUser) {
		return c.fatal(exitNo, "unknown user: %s", words[0])
	}
	if err != nil {
		return c.misused()
	}
	if uid != 0 && os.Geteuid() == uid && os.Getegid() == gid {
		return c.execute(words[1:], os.Environ()) // a script that root ran before, and the user runs here
	}
	// The groups first: whoever is root no longer cannot change them.
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"set supplementary group list", func() error { return syscall.Setgroups(groups) }},
		{"setgid", func() error { return syscall.Setresgid(gid, gid, gid) }},
		{"setuid", func() error { return syscall.Setresuid(uid, uid, uid) }},
	} {
		if err := step.do(); err != nil {
			return c.fatal(exitSystem, "unable to %s: %s", step.what, strerror(err))
		}
	}
	return c.execute(words[1:], os.Environ())
}

var errUnknownUser = errors.New("unknown user")

// identify finds an account: UID:GID, with no other group, or a name in /etc/passwd, with
// those groups that /etc/group gives it.
func identify(account string) (uid, gid int, groups []int, err error) {
	if u, g, pair := strings.Cut(account, ":"); pair {
		uid, err = id(u)
		if err == nil {
			gid, err = id(g)
		}
		return uid, gid, []int{gid}, err
	}
	if _, err := id(account); err == nil {
		return 0, 0, nil, errUnknownUser // s6 looks a number up as a name
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0, 0, nil, err
	}
	group, _ := os.ReadFile("/etc/group") // without it there are no other groups
	is, err := config.ParseAccounts(string(passwd), string(group)).Resolve(account, "", nil, "/")
	if err != nil {
		return 0, 0, nil, errUnknownUser
	}
	groups = []int{int(is.GID)}
	for _, g := range is.Groups {
		groups = append(groups, int(g))
	}
	slices.Sort(groups)
	return int(is.UID), int(is.GID), slices.Compact(groups), nil
}

// id is a uid or gid. The last of all 32-bit numbers stands for none.
func id(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n == 1<<32-1 {
		err = fmt.Errorf("no uid: %s", text)
	}
	return int(n), err
}

// askContenv is how long with-contenv waits for the supervisor.
const askContenv = 3 * time.Second

// withContenv executes a command with the environment that services of this container get.
func withContenv(c *call) int {
	_, words, ok := c.options("", "")
	if !ok || len(words) == 0 {
		return c.misused()
	}
	return c.execute(words, c.contenv(os.Environ()))
}

// contenv is the environment of services over own: the supervisor tells it those who may
// command it. A process that has each of its variables already, as a service does, keeps its
// own values, which may be its own definition's. Where nobody tells, it is that of PID 1, if
// the caller may read it.
func (c *call) contenv(own []string) []string {
	ctx, cancel := context.WithTimeout(c.ctx, askContenv)
	defer cancel()
	client := c.open()
	var theirs []string
	uid := -1
	if _, err := os.Lstat(client.Socket()); err == nil {
		if e, err := client.Environment(ctx, ""); err == nil {
			theirs, uid = e.Environment, int(e.UID)
		}
	}
	if theirs == nil {
		text, err := os.ReadFile("/proc/1/environ")
		if err != nil {
			return own
		}
		theirs = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	return overlay(own, theirs, uid == os.Geteuid())
}

// personal are the variables that say who somebody is: the caller's own stay, unless it is
// the user that they speak of.
var personal = []string{"HOME", "USER", "LOGNAME", "SHELL"}

// overlay puts the variables of theirs over own. Same tells that both are of one user.
func overlay(own, theirs []string, same bool) []string {
	mine := map[string]int{}
	out := slices.Clone(own)
	for i, v := range own {
		name, _, _ := strings.Cut(v, "=")
		mine[name] = i
	}
	complete := true
	for _, v := range theirs {
		name, _, _ := strings.Cut(v, "=")
		_, has := mine[name]
		complete = complete && has
	}
	if complete {
		return own
	}
	for _, v := range theirs {
		name, _, ok := strings.Cut(v, "=")
		at, has := mine[name]
		switch {
		case !ok || name == "":
		case !has:
			mine[name] = len(out)
			out = append(out, v)
		case same || !slices.Contains(personal, name):
			out[at] = v
		}
	}
	return out
}

// execute replaces this process by a command, which is searched for in the PATH of its
// environment. It returns only if that fails.
func (c *call) execute(words, environment []string) int {
	err := syscall.ENOENT
	for _, path := range candidates(words[0], environment) {
		switch errno, _ := unix.Exec(path, words, environment).(unix.Errno); errno {
		case unix.ENOENT, unix.ENOTDIR:
		case unix.EACCES:
			err = errno // and another directory may have one
		default:
			err = errno
		}
		if err != syscall.ENOENT && err != syscall.EACCES {
			break
		}
	}
	code := exitNotRun
	if err == syscall.ENOENT {
		code = exitNoFile
	}
	return c.fatal(code, "unable to exec %s: %s", words[0], strerror(err))
}

// defaultPath is where a command is searched for if PATH is not set.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// candidates are the paths at which a command may be.
func candidates(name string, environment []string) (paths []string) {
	if name == "" || strings.Contains(name, "/") {
		return []string{name}
	}
	path := defaultPath
	for _, v := range environment {
		if value, is := strings.CutPrefix(v, "PATH="); is {
			path = value
			break
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// strerror is an error in the words of strerror(3), which begin with a capital letter.
func strerror(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// isRuntime tells whether a directory is one in which a supervisor publishes its services.
func isRuntime(dir string) bool {
	for _, runtime := range control.RuntimeDirs(os.Getenv("RLMINIT_RUNTIME_DIR"), os.Geteuid()) {
		if real, err := filepath.EvalSymlinks(runtime); err == nil && real == dir {
			return true
		}
	}
	return false
}
