package jobs

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/job"
)

// A session's directory is where only its owner looks, by where the session is recorded:
//
//	recorded    its directory                         when nobody has ended it
//	on the      .rlminit-sessions/N-… below the       the next boot that has the volume
//	volume      profile's, or the user's home         ends it, by its record
//	in memory   /tmp/rlminit-session-mN-…             the next start removes those of the
//	                                                  services' user that nobody has locked
//
// In memory numbers begin anew with each start, and whoever waits for the volume must
// write nothing there. /tmp is the container's own as a rule, and where several have the
// same, or one is started again with it, the lock tells whose lives: flock(2) ends with
// the supervisor that holds it.
//
// No name can be foreseen, and a directory that is there is never taken.
const (
	temporary       = "/tmp"
	temporaryPrefix = "rlminit-session-"
)

// dirOf is where a session of a book has its directory.
func (ss *sessions) dirOf(b *book, base, id string) string {
	name := fmt.Sprintf("%s-%08x", id, rand.Uint32())
	if b.prefix == job.InMemory {
		return filepath.Join(ss.temporary, temporaryPrefix+name)
	}
	return filepath.Join(base, job.SessionsDir, name)
}

// place is a session's directory as it is made and removed: below which, and by what name.
func (s *session) place() (base, name string) {
	base, name = filepath.Split(s.dir)
	if base = filepath.Clean(base); filepath.Base(base) == job.SessionsDir {
		return filepath.Dir(base), filepath.Join(job.SessionsDir, name)
	}
	return base, name
}

// hold has nobody take a directory that has just been made for what a container has left.
func (ss *sessions) hold(s *session) error {
	_, user := ss.runner.host.User(s.of)
	dir, err := user.Open(s.dir)
	if err != nil {
		return err
	}
	// On a file system without locks nobody can lock it in order to remove it.
	swept := errors.Is(unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || swept || st.Nlink == 0 {
		dir.Close()
		return fmt.Errorf("another container that starts at this moment has removed %s; try again", s.dir)
	}
	s.held = dir
	return nil
}

// sweep removes what sessions in memory of an earlier start have left, if there is any.
func (ss *sessions) sweep() {
	entries, _ := os.ReadDir(ss.temporary) // without it there is nothing to be found
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), temporaryPrefix) {
			continue
		}
		result, err := ss.runner.internal(Owner{}, []string{"sweep", ss.temporary, temporaryPrefix})
		if err == nil && result.State != string(job.Succeeded) {
			err = control.Failed("%s", strings.TrimSpace(result.Stderr))
		}
		if err != nil {
			slog.Warn("what a session has left is not removed", "below", ss.temporary, "err", err)
		}
		return
	}
}
