package prepare

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/wire"
)

// temporaryName is what may be removed: a directory for temporary files, or one
// service's in it.
var temporaryName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(wire.TemporaryPrefix) + `[0-9a-f]{16}(/[^/]+)?$`)
})

// RemoveTemporary removes a directory that a start of rlminit has made for temporary
// files and that no start that lives has locked, or one service's in such a directory,
// locked or not. directory is a descriptor of it; nothing else is removed.
func RemoveTemporary(directory int) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", directory))
	if err != nil {
		return err
	}
	if !temporaryName().MatchString(path) {
		return fmt.Errorf("%s is no directory for temporary files", path)
	}
	top := path
	if within := filepath.Dir(path); strings.HasPrefix(within, wire.TemporaryPrefix) {
		top = within
	}
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to uid %d", top, st.Uid)
	}
	if top == path && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
		return nil // another container's, which lives
	}
	above, err := durable.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	return above.RemoveAll(filepath.Base(path))
}
