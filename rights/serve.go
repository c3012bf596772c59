package rights

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/turns"
	"rlminit/job/files"
	"rlminit/reap/footprint"
	"rlminit/wire"
)

// slow is after how long a call gives its place to another.
const slow = 250 * time.Millisecond

// mostHung is how many may have given theirs: a file system that does not answer must
// keep nobody from one that does. Where threads are few nobody gives a place.
func mostHung(atOnce int) int {
	if atOnce < 16 {
		return 0
	}
	return 2 * atOnce
}

// Serve carries out what comes over the descriptor until its other end is closed,
// atOnce calls at a time: each may wait in the kernel, and takes a thread for that.
// What is under way at the end is not waited for: whoever asked is gone.
// users are those in whose names it may be asked; nil: it is itself for all.
func Serve(fd, atOnce int, users *Users) error {
	l, err := newLink(fd)
	if err != nil {
		return err
	}
	places := turns.NewBounded(atOnce, mostHung(atOnce))
	begun := underWay{calls: map[uint64]bool{}}
	rest := time.AfterFunc(footprint.After, footprint.Shrink)
	for {
		var c call
		fds, err := l.receive(&c)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Kind == kindPing {
			_ = l.send(&answer{ID: c.ID, Value: begun.count(uint64(c.Offset))}) // an error is the next receive's too
			continue
		}
		rest.Reset(footprint.After)
		go func() {
			leave := places.Take(slow) // not before: pings are answered whatever hangs
			begun.begin(c.ID)
			a, opened := users.carry(c, fds)
			begun.end(c.ID)
			wire.CloseAll(fds)
			if err := l.send(&a, opened...); err != nil {
				_ = l.send(&answer{ID: c.ID, File: durable.Answer{Failure: durable.FailureOf(err)}})
			}
			wire.CloseAll(opened)
			leave()
		}()
	}
}

// carry does one thing as the user in whose name it is asked.
func (u *Users) carry(c call, fds []int) (a answer, opened []int) {
	if c.Kind == kindFile {
		a.File, opened = durable.CarryAs(c.UID, c.File, fds, u.as)
	} else if err := u.as(c.UID, func() { a, opened = carry(c, fds) }); err != nil {
		a = answer{File: durable.Answer{Failure: durable.FailureOf(err)}}
	}
	a.ID = c.ID
	return a, opened
}

// carry does one thing that is no operation of durable's.
func carry(c call, fds []int) (a answer, opened []int) {
	var err error
	fd := -1
	switch c.Kind {
	case kindOpen:
		if c.Flags&^unix.O_PATH != 0 {
			err = unix.EPROTO // nothing is written by a path
			break
		}
		fd, err = openPath(c.Path, c.Flags, c.Mode != 0)
	case kindLook:
		for _, l := range lookAlong(c.Paths, c.Mode) {
			a.Looks = append(a.Looks, looked{l.Mode, durable.FailureOf(l.Denied), durable.FailureOf(l.Err)})
		}
	case kindListen:
		fd, err = listen(c.Name, c.Path)
	case kindBelow:
		if fd, err = files.Open(c.Path, c.Name); files.Refused(err) {
			a.Refused, err = err.Error(), nil
		} else if err != nil { // with its text
			err = errors.New(err.Error())
		}
	case kindRead:
		if len(fds) != 1 || c.Flags < 0 || c.Flags > mostRead {
			err = unix.EPROTO
			break
		}
		a.File.Data, err = readAt(fds[0], c.Flags, c.Offset)
	case kindWatch:
		var watch int
		if len(fds) != 1 {
			err = unix.EPROTO
			break
		}
		watch, err = unix.InotifyAddWatch(fds[0], c.Path, c.Mode)
		a.Value = int64(watch)
	default:
		err = unix.EOPNOTSUPP
	}
	if err != nil {
		a.File.Failure = durable.FailureOf(err)
	} else if fd >= 0 {
		opened = []int{fd}
	}
	return a, opened
}
