// Package output is what jobs write: from their pipes into memfds, which a successor of the
// supervisor finds with tier 1, and beyond what a result may hold into files, bounded; and
// on its way to a client. It knows of no job but its number.
package output

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/kernel"
	"rlminit/internal/redact"
	"rlminit/wire"
)

// Stream is one of a job's two outputs. Bytes leave the pipe by splice(2), which
// moves them and the memfd's position in one step that a signal cannot tear; tier
// 1 holds the memfd's description too, so a successor reads on at the byte where
// we were killed. Where splice(2) is refused, received.go has the other way. What a memfd holds above keep bytes is copied to a file at the
// same offset, as far as that goes, and then all but its head and tail is given
// back. Where secrets are masked, mask.go has a step between the two.
type Stream struct {
	name string
	pipe *os.File // the end that is read; nil: nothing comes any more
	raw  syscall.RawConn
	mem  int       // the memfd; -1 once it is closed
	into *received // what the pipe is read into
	keep int64
	file *file
	mask *masking // nil: bytes come as they are

	pumped chan struct{} // closed when the pump has ended

	mu    sync.RWMutex  // for total, freed, mem and rest
	total int64         // bytes that have come. Invariant: the memfd's position
	freed int64         // up to here all of the memfd but its head was given back
	grown chan struct{} // closed at the next growth; nil: nobody waits
	ended bool
	rest  []byte // once the memfd is closed: all that it had, where the file has less
}

// Streams are a job's two outputs. Invariant: both are there, or neither is.
type Streams [2]*Stream

// Names are those of the two.
var Names = [2]string{"stdout", "stderr"}

// There tells whether they are there.
func (ss Streams) There() bool { return ss[0] != nil }

// each calls f for those that there are.
func (ss Streams) each(f func(*Stream)) {
	for _, s := range ss {
		if s != nil {
			f(s)
		}
	}
}

// Pump has both read from now on.
func (ss Streams) Pump() { ss.each(func(s *Stream) { go s.pump() }) }

// FDs are what tier 1 is to hold.
func (ss Streams) FDs() (fds []int) {
	ss.each(func(s *Stream) { fds = append(fds, s.fds()...) })
	return fds
}

// Finish takes what nobody has read yet.
func (ss Streams) Finish() { ss.each((*Stream).finish) }

// Close lets go of both; the descriptors are the caller's to close.
func (ss Streams) Close() (fds []int) {
	ss.each(func(s *Stream) { fds = append(fds, s.close()...) })
	return fds
}

// CloseFiles closes the files of what nobody writes any more.
func (ss Streams) CloseFiles() { ss.each(func(s *Stream) { s.file.close() }) }

// Abandon has no more of them written to the volume.
func (ss Streams) Abandon() { ss.each(func(s *Stream) { s.file.abandon() }) }

// New makes what a job writes into: ends are its ends of the pipes. keep is what a result
// has of each, in bytes, lines what is masked in it; nil: nothing.
func (o *Store) New(job string, keep int64, lines *redact.Lines) (ss Streams, ends [2]int, err error) {
	for i, name := range Names {
		if ss[i], ends[i], err = newStream(name, keep, o.file(job, name), lines); err != nil {
			if i > 0 {
				wire.CloseAll(append(ss[0].close(), ends[0]))
			}
			return Streams{}, ends, err
		}
	}
	return ss, ends, nil
}

// Held is how many descriptors FDs gives of both.
func Held(lines *redact.Lines) int {
	if lines == nil {
		return 4
	}
	return 6
}

// TakeOver makes those of a predecessor's job of what FDs gave; there are Held of them.
func (o *Store) TakeOver(job string, keep int64, lines *redact.Lines, fds []int) (ss Streams, err error) {
	for i, name := range Names {
		of := fds[i*len(fds)/2 : (i+1)*len(fds)/2]
		if ss[i], err = openStream(name, of, keep, o.file(job, name), lines); err != nil {
			return Streams{}, err
		}
	}
	return ss, nil
}

// Kept are those of a job that is over, as the volume has them.
func (o *Store) Kept(job string) (ss Streams) {
	for i, name := range Names {
		s := &Stream{name: name, mem: -1, keep: control.DefaultJobOutput, file: o.file(job, name), ended: true}
		var b [1]byte
		s.file.read(b[:], 0) // opens it, if there is one
		s.total, ss[i] = s.file.size, s
	}
	return ss
}

// Sizes of the work, in bytes.
const (
	pieceSize = 256 << 10 // moved at once
	pageSize  = 4096
)

// newStream makes the memfds, and the pipe that the job writes into.
func newStream(name string, keep int64, file *file, lines *redact.Lines) (s *Stream, write int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	// A job may open /dev/stdout, though it is another user, but not read there.
	_ = unix.Fchmod(ends[0], 0o222)
	fds := []int{ends[0]}
	for len(fds) < Held(lines)/2 && err == nil {
		var mem int
		if mem, err = wire.Memfd("rlminit-job"); err == nil {
			fds = append(fds, mem)
		}
	}
	if err == nil {
		s, err = openStream(name, fds, keep, file, lines)
	} else {
		wire.CloseAll(fds)
	}
	if err != nil {
		unix.Close(ends[1])
		return nil, -1, err
	}
	return s, ends[1], nil
}

// openStream takes over what fds of another gave: a pipe, a memfd, whose position tells what
// has come, and where that is masked raw.
func openStream(name string, fds []int, keep int64, file *file, lines *redact.Lines) (*Stream, error) {
	pipe, mem, into := fds[0], fds[1], &received{fd: fds[len(fds)-1]}
	err := into.settle()
	var at int64
	if err == nil {
		at, err = unix.Seek(mem, 0, unix.SEEK_CUR)
	}
	if err == nil {
		err = unix.SetNonblock(pipe, true)
	}
	var mask *masking
	if err == nil && lines != nil {
		mask, err = openMasking(lines, fds[2], at)
	}
	if err != nil {
		wire.CloseAll(fds)
		return nil, err
	}
	s := &Stream{
		name: name, pipe: os.NewFile(uintptr(pipe), name), mem: mem, into: into, keep: keep, file: file, total: at, mask: mask,
		pumped: make(chan struct{}),
	}
	s.raw, err = s.pipe.SyscallConn()
	if err != nil {
		s.pipe.Close()
		wire.CloseAll(fds[1:])
		return nil, err
	}
	return s, nil
}

// fds are what tier 1 is to hold.
func (s *Stream) fds() []int {
	var pipe int
	_ = s.raw.Control(func(fd uintptr) { pipe = int(fd) })
	if s.mask != nil {
		return []int{pipe, s.mem, s.mask.fd}
	}
	return []int{pipe, s.mem}
}

// pump moves what comes until the pipe has no writer left, or finish.
func (s *Stream) pump() {
	defer close(s.pumped)
	s.grow(0, false) // what a predecessor has moved, and not dealt with
	s.spill()
	for {
		n, err := s.fill(pieceSize, true)
		switch {
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed):
			s.discard(err)
			return
		case n == 0 || err != nil:
			return
		}
		s.spill()
	}
}

// discard reads what comes, until the pipe has no writer left or finish, and keeps nothing of
// it, for why: a job whose pipe nobody reads would never end.
func (s *Stream) discard(why error) {
	s.file.give(why)
	slog.Warn("the rest of a job's output is not kept", "stream", s.name, "after", s.total, "err", why)
	b := make([]byte, pieceSize)
	for {
		if n, err := s.pipe.Read(b); n == 0 || err != nil {
			return
		}
	}
}

// fill moves at most so many bytes from the pipe into the memfd, or into raw. 0 is the
// pipe's end, or where it does not wait, that there is nothing.
func (s *Stream) fill(most int, wait bool) (moved int, err error) {
	failure := s.raw.Read(func(fd uintptr) bool {
		moved, err = kernel.Splice(int(fd), s.into.fd, most)
		if kernel.Refused(err) {
			moved, err = kernel.Receive(int(fd), s.into, most)
		}
		if errors.Is(err, unix.EAGAIN) {
			moved, err = 0, nil
			return !wait
		}
		return true
	})
	if err == nil {
		err = failure
	}
	if moved > 0 && err == nil {
		err = s.grow(moved, false)
	}
	return moved, err
}

// grow has those who read know of what has come: so many bytes or, where it is masked, what
// of it can be by now, and with end all that there is.
func (s *Stream) grow(moved int, end bool) (err error) {
	if s.mask != nil {
		moved, err = s.mask.pass(s.mem, end)
	}
	if moved > 0 {
		s.mu.Lock()
		s.total += int64(moved)
		s.wake()
		s.mu.Unlock()
	}
	return err
}

// wake tells whoever waits for more. The caller has s.mu.
func (s *Stream) wake() {
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

// spill copies what is more than the result will have to the file, and gives
// back what is neither head nor tail.
func (s *Stream) spill() {
	s.mu.RLock()
	total := s.total
	s.mu.RUnlock()
	if total <= s.keep {
		return
	}
	s.file.copyFrom(s.mem, total)
	from := max(roundUp(s.keep), s.freed)
	to := (total - s.keep) / pageSize * pageSize
	if to-from < pieceSize {
		return
	}
	s.mu.Lock()
	if kernel.Punch(s.mem, from, to-from) == nil {
		s.freed = to
	}
	s.mu.Unlock()
}

func roundUp(n int64) int64 { return (n + pageSize - 1) / pageSize * pageSize }

// finish takes what the job has written and nobody has read yet, and lets go of
// the pipe, whoever still has it open.
func (s *Stream) finish() {
	_ = s.pipe.SetReadDeadline(time.Unix(1, 0))
	<-s.pumped
	_ = s.pipe.SetReadDeadline(time.Time{})
	for left := s.waiting(); left > 0; {
		n, err := s.fill(min(left, pieceSize), false)
		if n == 0 || err != nil {
			break
		}
		left -= n
		s.spill()
	}
	_ = s.grow(0, true)
	s.file.copyFrom(s.mem, s.total)
	s.mu.Lock()
	s.ended = true
	s.wake()
	s.mu.Unlock()
}

// waiting is how much is in the pipe: a survivor that goes on writing is not
// waited for.
func (s *Stream) waiting() (n int) {
	_ = s.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// close lets go of what is left. Who has not read all of it yet reads from the file; where
// that has less, as without a volume, what the memfd had is kept for as long as they do.
func (s *Stream) close() (fds []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipe.Close()
	if s.mem >= 0 && s.freed == 0 && s.file.length() < s.total { // else it is more than a result has
		s.rest = make([]byte, s.total)
		s.rest = s.rest[:s.pread(s.rest, 0)]
	}
	fds = []int{s.mem}
	if s.mask != nil {
		fds = append(fds, s.mask.fd)
	}
	s.mem, s.ended = -1, true
	s.file.close()
	s.wake()
	return fds
}

// errGone: the reader is not there any more.
var errGone = errors.New("the reader is gone")

// readNow reads what there is. grown is closed when there is more, and nil where
// there never will be.
func (s *Stream) readNow(offset int64, b []byte) (n int, lost int64, grown <-chan struct{}) {
	s.mu.Lock()
	if offset >= s.total {
		if !s.ended {
			if s.grown == nil {
				s.grown = make(chan struct{})
			}
			grown = s.grown
		}
		s.mu.Unlock()
		return 0, 0, grown
	}
	s.mu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	b = b[:min(int64(len(b)), s.total-offset)]
	if s.mem >= 0 {
		switch head := roundUp(s.keep); {
		case s.freed == 0 || offset >= s.freed:
			return s.pread(b, offset), 0, nil
		case offset < head:
			return s.pread(b[:min(int64(len(b)), head-offset)], offset), 0, nil
		}
	}
	if n := s.file.read(b, offset); n > 0 {
		return n, 0, nil
	}
	if s.mem < 0 {
		if offset < int64(len(s.rest)) {
			return copy(b, s.rest[offset:]), 0, nil
		}
		return 0, s.total - offset, nil
	}
	lost = s.freed - offset
	return s.pread(b[:min(int64(len(b)), s.total-s.freed)], s.freed), lost, nil
}

func (s *Stream) pread(b []byte, offset int64) int {
	for {
		n, err := unix.Pread(s.mem, b, offset)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return max(n, 0)
	}
}
