package control

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// BootFile is where the boot step that is running is named, below the runtime
// directory. The service user writes it, and it goes with the last step.
const BootFile = "boot"

// noticeAfter is the time after which a late answer's blocker is named.
const noticeAfter = time.Second

// bootStep says which boot step nobody can answer for, and for how long it has
// been running; "" if there is none.
func (p *place) bootStep() string {
	f, err := os.OpenFile(filepath.Join(p.dir, BootFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	name, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil || len(name) == 0 {
		return ""
	}
	return fmt.Sprintf("boot step %s is running (%s)", name, time.Since(info.ModTime()).Round(time.Second))
}

// notice tells a person with a late answer its blocker, until
// the returned function is called.
func (l *line) notice() (enough func() bool) {
	if l.Notice == nil {
		return func() bool { return true }
	}
	return time.AfterFunc(noticeAfter, func() {
		if step := l.bootStep(); step != "" {
			l.Notice(step + "; waiting for it")
		}
	}).Stop
}
