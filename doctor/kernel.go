package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernel is what is asked of the kernel, and not read from files.
type kernel interface {
	Statfs(path string) (unix.Statfs_t, error)
	Landlock() int // the ABI; 0: none
	Synchronised() (bool, error)
	Now() time.Time
	FsyncTime(dir string) (time.Duration, error)
	Writable(path string) bool
	Owner(path string) (uid uint32, err error)
}

type system struct{}

func (system) Owner(path string) (uint32, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Uid, err
}

func (system) Statfs(path string) (st unix.Statfs_t, err error) {
	err = unix.Statfs(path, &st)
	return st, err
}

// Landlock asks for the ABI, landlock_create_ruleset(2).
func (system) Landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// Synchronised asks whether somebody keeps the machine's clock right,
// adjtimex(2).
func (system) Synchronised() (bool, error) {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return t.Status&unix.STA_UNSYNC == 0, err
}

func (system) Now() time.Time { return time.Now() }

// patience is how long a volume may take to synchronise a page.
const patience = 3 * time.Second

// errSlow is a volume that took longer.
var errSlow = errors.New("no answer within " + patience.String())

// FsyncTime measures how long the directory's file system takes to make 4 KiB
// durable, in a file that has no name: the median of three.
func (system) FsyncTime(dir string) (time.Duration, error) {
	type outcome struct {
		took time.Duration
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		defer unix.Close(fd)
		var times [3]time.Duration
		for i := range times {
			began := time.Now()
			if _, err = unix.Pwrite(fd, make([]byte, 4096), int64(i)*4096); err == nil {
				err = unix.Fsync(fd)
			}
			if err != nil {
				done <- outcome{err: err}
				return
			}
			times[i] = time.Since(began)
		}
		done <- outcome{took: max(min(times[0], times[1]), min(max(times[0], times[1]), times[2]))}
	}()
	select {
	case o := <-done:
		return o.took, o.err
	case <-time.After(patience):
		return 0, errSlow
	}
}

func (system) Writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// read returns a file below the root, without blanks around; "" where it cannot
// be read.
func (e *examination) read(path string) string {
	content, err := os.ReadFile(filepath.Join("/", e.Root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
