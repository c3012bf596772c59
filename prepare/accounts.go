package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/wire"
)

// rename gives the service user its new uid and gid in passwd and group, so that
// `docker exec -u NAME` finds it. user is how the configuration names it: a
// number, and nobody's name, has no line. Where the files cannot be written the
// user goes without; the error says so.
func rename(passwd, group, user string, id wire.Identity) error {
	name, _, _ := strings.Cut(user, ":")
	uid, gid := strconv.FormatUint(uint64(id.UID), 10), strconv.FormatUint(uint64(id.GID), 10)
	var before string // the primary group that passwd gave the user
	err := edit(passwd, func(fields []string) bool {
		if len(fields) < 4 || fields[0] != name {
			return false
		}
		before = fields[3]
		changed := fields[2] != uid || fields[3] != gid
		fields[2], fields[3] = uid, gid
		return changed
	})
	if err == nil && before != "" && before != gid {
		err = edit(group, func(fields []string) bool {
			if len(fields) < 3 || fields[2] != before {
				return false
			}
			fields[2] = gid
			return true
		})
	}
	if err != nil {
		return fmt.Errorf("cannot give %s uid %s and gid %s in %s: %w; services have them all the same, and docker exec takes -u %s:%s",
			name, uid, gid, passwd, err, uid, gid)
	}
	return nil
}

// account gives the supervisor a line in passwd and group where nobody has its ids,
// for people who look at processes and files. It is a courtesy: where the files
// cannot be written there is none.
func account(passwd, group string, id wire.Identity) {
	uid, gid := strconv.FormatUint(uint64(id.UID), 10), strconv.FormatUint(uint64(id.GID), 10)
	_ = add(group, id.Name, gid, id.Name+":x:"+gid+":")
	_ = add(passwd, id.Name, uid, id.Name+":x:"+uid+":"+gid+":the supervisor of rlminit:/:/sbin/nologin")
}

// inContainer tells whether an engine says that this is a container, so that
// passwd is nobody else's: rlminit try shares that of the machine.
func inContainer() bool {
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if unix.Access(file, unix.F_OK) == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// hasAccount tells whether somebody has the uid, or nobody can know.
func hasAccount(passwd string, id wire.Identity) bool {
	content, err := os.ReadFile(passwd)
	return err != nil || listed(string(content), id.Name, strconv.FormatUint(uint64(id.UID), 10))
}

// listed tells whether a line has the name or the number.
func listed(text, name, number string) bool {
	for l := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(l, "\n"), ":")
		if len(fields) > 2 && (fields[0] == name || fields[2] == number) {
			return true
		}
	}
	return false
}

// add adds a line to a file of passwd's kind, unless it has the name or the
// number; a file that is missing is left so.
func add(path, name, number, line string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(content)
	if listed(text, name, number) {
		return nil
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return replace(path, text+line+"\n")
}

// edit changes lines of a file of passwd's kind: change alters the fields of one
// and tells whether it did. The file is replaced whole, with the mode and owner
// that it had; without a change it is not touched, and a missing one is none.
func edit(path string, change func(fields []string) bool) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(content), "\n")
	changed := false
	for i, line := range lines {
		text, end, _ := strings.Cut(line, "\n")
		fields := strings.Split(text, ":")
		if change(fields) {
			changed = true
			if len(end) > 0 || strings.HasSuffix(line, "\n") {
				fields[len(fields)-1] += "\n"
			}
			lines[i] = strings.Join(fields, ":")
		}
	}
	if !changed {
		return nil
	}
	return replace(path, strings.Join(lines, ""))
}

// replace puts a new file in the place of path. Nobody but root can write to the
// directory, so the name beside it is nobody's trap.
func replace(path, content string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	fresh := path + ".rlminit"
	if err := unix.Unlink(fresh); err != nil && err != unix.ENOENT {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return durable.Bare(err)
	}
	_, err = f.WriteString(content)
	if err == nil && (st.Uid != 0 || st.Gid != 0) {
		err = f.Chown(int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = f.Chmod(fs.FileMode(st.Mode & 0o777))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = unix.Rename(fresh, path)
	}
	if err != nil {
		unix.Unlink(fresh) // the first error is the one to tell
	}
	return durable.Bare(err)
}
