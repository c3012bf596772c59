package spawn

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/prepare"
	"rlminit/service"
	"rlminit/wire"
)

// DropTemporary removes what a service that is gone has in its directory for temporary
// files, and that itself. The channel is closed when that is done; nil: there is none.
// It is called with the service's last definition.
func (p *Preparer) DropTemporary(d *service.Definition, before <-chan struct{}) <-chan struct{} {
	top := p.Walls().Temporary()
	if top == "" || !d.Isolation.Wanted() {
		return before
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		uid, _ := p.RecordedUser(d)
		p.removeTemporary(p.Walls().TemporaryOf(d.Name, uid))
		if before != nil {
			<-before
		}
	}()
	return done
}

// DropOldTemporary removes what earlier starts have left.
func (p *Preparer) DropOldTemporary() {
	dir, prefix := filepath.Split(wire.TemporaryPrefix)
	entries, _ := os.ReadDir(dir) // without it there is nothing to be found
	for _, e := range entries {
		if path := dir + e.Name(); strings.HasPrefix(e.Name(), prefix) && e.IsDir() && path != p.Walls().Temporary() {
			p.removeTemporary(path)
		}
	}
}

// removeTemporary removes such a directory, if it is there: root does that where it has
// made it.
func (p *Preparer) removeTemporary(path string) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p.Files != nil {
		_, err = p.Files.owner(wire.RemoveProgram, 0, fd)
	} else {
		err = prepare.RemoveTemporary(fd)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Debug("a directory for temporary files is not removed", "path", path, "err", err)
	}
}
