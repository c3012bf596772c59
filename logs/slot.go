package logs

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/redact"
	"rlminit/logs/tee"
)

// Config is how a slot's output is kept.
type Config struct {
	Dir        string        // the log's directory, relative to Options.Home
	File       bool          // false: only in memory (the newest) and the tee
	MaxSize    int64         // bytes of a file before it is rotated; 0: no limit
	MaxAge     time.Duration // of a file's first byte before it is rotated; 0: no limit
	MaxFiles   int           // rotated files kept beside current; 0: all
	Compress   bool          // rotated files are compressed, gzip(1)
	Tee        bool          // lines go to the container's stdout as well
	Prefix     string        // of lines in the tee; empty: the slot's name
	Timestamps bool          // false: bytes as they are, of both streams as they come
	Redact     *redact.Lines // what is masked before anything is written; nil: nothing
	Grew       func()        // told, by the collector, that the log has grown; it must not block. nil: nobody is
}

func (cfg *Config) validate() error {
	if n := len(cfg.Redact.Source()); n > redact.MostInAll {
		return fmt.Errorf("cannot mask by patterns of %d bytes: they may have %d", n, redact.MostInAll)
	}
	if !cfg.File {
		return nil
	}
	if cfg.Dir == "" || len(cfg.Dir) > maxDir || strings.HasPrefix(cfg.Dir, "/") {
		return fmt.Errorf("cannot log to %q: not a directory below the volume's root", cfg.Dir)
	}
	for name := range strings.SplitSeq(cfg.Dir, "/") {
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("cannot log to %q: not a plain path", cfg.Dir)
		}
	}
	return nil
}

// Stats counts what a service has written, and what its slot could not keep.
type Stats struct {
	Bytes     uint64 // taken from its pipes by this process; a successor begins at 0
	LostBytes uint64 // as they would have stood in the file
	LostLines uint64
}

// pipe is a stream's. Tier 1 holds both ends too.
type pipe struct {
	read, write int
	size        int  // bytes it holds
	fixed       bool // the kernel does not give it more
}

// Slot is a service's place in the log: it outlives the service's processes,
// and through tier 1 also this one. Its methods never wait for the disk.
type Slot struct {
	c          *Collector
	name       string
	index      int
	generation int32
	pipes      [2]pipe
	entry      *entry
	closed     chan struct{} // nil before Close

	// Owned by the collector's goroutine.
	cfg     *Config // nobody changes it: there is another one then
	file    file
	late    bool // a call of the disk for this file has not returned; file is its
	closing bool
	failure error  // why the file cannot be written
	listed  bool   // in failing
	soiled  bool   // in dirty
	heir    *Slot  // of a slot that the recovery made up: the real one
	last    []byte // the newest line of the service's own, cut short
	teed    tee.From
	age     *time.Timer

	taken atomic.Uint64 // bytes of its pipes; the collector's to write

	dir atomic.Pointer[string] // cfg.Dir, or nil without a file; for readers
}

// initialPipe is a pipe's size before its service proves to need more. The
// kernel counts an unprivileged user's pipes and soon gives small ones only
// (pipe(7), pipe-user-pages-soft); with these, 2,000 services get what they
// ask for.
const (
	initialPipe = 16 << 10
	largestPipe = 256 << 10
)

// Open makes a slot, or takes over a predecessor's where held is what Held gave
// it. The directory is made when there is something to write.
func (c *Collector) Open(name string, cfg Config, held []int) (*Slot, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Slot{c: c, name: name, cfg: &cfg}
	inodes, err := s.openPipes(held)
	if err != nil {
		return nil, err
	}
	c.roll.mu.Lock() // and so nothing that is posted after Close needs the slot
	defer c.roll.mu.Unlock()
	adopted, err := c.roll.enter(s, inodes)
	if err != nil {
		s.closePipes()
		return nil, err
	}
	s.publish(&cfg)
	s.entry = c.arena.entry(s.index)
	s.file = file{home: c.home, dir: cfg.Dir, cfg: s.cfg, fd: -1, put: c.opts.put, packer: c.packer}
	if !adopted {
		*s.entry = entry{pipes: inodes, used: 1, queueHead: queueStart, queueTail: queueStart}
		c.arena.record.high = max(c.arena.record.high, uint32(s.index)+1)
	}
	c.inbox.Put(func() { c.register(s) })
	return s, nil
}

// openPipes makes the pipes, or takes over held, and returns their inodes.
func (s *Slot) openPipes(held []int) (inodes [2]uint64, err error) {
	for i := range s.pipes {
		p := &s.pipes[i]
		if len(held) == 4 {
			p.read, p.write = held[2*i], held[2*i+1]
		} else {
			var ends [2]int
			if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
				s.closePipes()
				return inodes, fmt.Errorf("cannot make a log pipe for %s: %w", s.name, err)
			}
			p.read, p.write = ends[0], ends[1]
			_, _ = unix.FcntlInt(uintptr(p.read), unix.F_SETFL, unix.O_NONBLOCK)
			// A service may open /dev/stdout, though of another user, but not
			// read what it or others have written.
			_ = unix.Fchmod(p.read, 0o222)
			p.size, _ = unix.FcntlInt(uintptr(p.read), unix.F_SETPIPE_SZ, initialPipe)
		}
		var st unix.Stat_t
		if err = unix.Fstat(p.read, &st); err == nil && p.size <= 0 { // a predecessor's, or one that was not made larger
			p.size, err = unix.FcntlInt(uintptr(p.read), unix.F_GETPIPE_SZ, 0)
		}
		if err != nil {
			s.closePipes()
			return inodes, fmt.Errorf("cannot examine the log pipes of %s: %w", s.name, err)
		}
		inodes[i] = st.Ino
	}
	return inodes, nil
}

func (s *Slot) closePipes() {
	for i := range s.pipes {
		for _, fd := range []int{s.pipes[i].read, s.pipes[i].write} {
			if fd > 0 {
				unix.Close(fd)
			}
		}
		s.pipes[i] = pipe{}
	}
}

// Name is what the slot was opened as.
func (s *Slot) Name() string { return s.name }

// Held returns the descriptors that tier 1 is to hold under "log/NAME" before
// the first spawn.
func (s *Slot) Held() []int {
	return []int{s.pipes[0].read, s.pipes[0].write, s.pipes[1].read, s.pipes[1].write}
}

// Stdout returns the descriptor that a process of the service gets as its
// stdout. Call it for each spawn: a predecessor may have made the pipe
// non-blocking for all who share it.
func (s *Slot) Stdout() int { return blocking(s.pipes[fromStdout].write) }

// Stderr is Stdout's like.
func (s *Slot) Stderr() int { return blocking(s.pipes[fromStderr].write) }

func blocking(fd int) int {
	_ = unix.SetNonblock(fd, false)
	return fd
}

// Mark writes a line of rlminit's own, before all that is written after the
// call; where that would make the file, a moment later, or not at all if this process is
// killed before. In a log without timestamps marks do not appear.
func (s *Slot) Mark(text string) {
	s.c.inbox.Put(func() {
		if !s.closing {
			s.c.tasks = append(s.c.tasks, task{slot: s, source: fromMark, text: text})
		}
	})
}

// MarkExit writes the line that tells of a process's end, after all that was
// written before the call; unfinished lines are ended. The same id, unless it
// is 0, is not marked twice in a row, not even by a successor: an exit that was
// not acknowledged may be marked again. done, unless nil, is called from the
// collector, and must not block, when the line is where it survives this
// process; last is what the service said last, of at most 256 bytes.
func (s *Slot) MarkExit(id uint64, text string, done func(last string)) {
	s.c.inbox.Put(func() {
		then := func() {
			if done != nil {
				done(string(s.last))
			}
		}
		if s.closing {
			then()
			return
		}
		s.c.tasks.exit(s, id, text, then)
	})
}

// Reconfigure changes how output is kept from here on.
func (s *Slot) Reconfigure(cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	s.publish(&cfg)
	s.c.inbox.Put(func() {
		s.cfg = &cfg
		s.teed.Rename()
	})
	return nil
}

func (s *Slot) publish(cfg *Config) {
	if s.dir.Store(nil); cfg.File {
		s.dir.Store(&cfg.Dir)
	}
}

// Stats tells what was lost since the slot was made.
func (s *Slot) Stats() Stats {
	return Stats{s.taken.Load(), atomic.LoadUint64(&s.entry.lostBytes), atomic.LoadUint64(&s.entry.lostLines)}
}

// Close writes what is in the pipes now and forgets the slot, once; its files stay.
// Tier 1 is to let go of "log/NAME" by itself.
func (s *Slot) Close() {
	c := s.c
	s.closed = make(chan struct{})
	c.roll.leave(s)
	c.inbox.Put(func() {
		if !s.closing {
			c.tasks.exit(s, 0, "", func() { c.discard(s) })
		}
	})
}

// AwaitWritten calls done, from the collector, when all that the pipes have now is taken.
// done must not block; written tells whether all of the slot is in its file, so that it
// can be closed and opened again, and nothing is lost.
func (s *Slot) AwaitWritten(done func(written bool)) {
	s.c.inbox.Put(func() {
		if s.closing {
			done(false)
			return
		}
		s.c.tasks.drain(s, func() {
			done(!s.closing && s.cfg.File && s.failure == nil && !s.late && s.entry.queueHead == s.entry.queueTail)
		})
	})
}

// Closed is closed when nothing of the slot is written any more; nil before Close.
func (s *Slot) Closed() <-chan struct{} { return s.closed }

// register makes the collector serve a slot.
func (c *Collector) register(s *Slot) {
	if ghost := c.memory.slotAt(s.index); ghost != nil {
		c.unlist(ghost)
		if ghost.late {
			ghost.heir, s.late = s, true
		} else {
			ghost.file.close()
		}
	}
	c.memory.place(s.index, s)
	for stream := range s.pipes {
		if err := c.poller.add(s, stream); err != nil {
			c.fail(s, err)
		}
	}
	if s.entry.queueTail > s.entry.queueHead && s.cfg.File {
		c.list(s)
	}
}

// discard forgets a slot, and with it what its queue still holds.
func (c *Collector) discard(s *Slot) {
	s.closing = true
	delete(c.waiting.of, s)
	if s.late {
		return // returned comes back here
	}
	for stream := range s.pipes {
		if fd := s.pipes[stream].read; fd > 0 {
			c.poller.remove(fd)
		}
	}
	c.unlist(s)
	s.release()
	c.memory.forget(s)
	c.roll.free(s.index)
	if s.closed != nil {
		close(s.closed)
	}
}

// awaitAge has the slot's file rotated when it is old enough.
func (c *Collector) awaitAge(s *Slot) {
	if s.cfg.MaxAge <= 0 || s.age != nil || s.file.size == 0 {
		return
	}
	left := s.cfg.MaxAge - time.Duration(sinceBoot()-s.file.born)*time.Microsecond
	s.age = time.AfterFunc(max(left, time.Millisecond), func() {
		c.inbox.Put(func() {
			s.age = nil
			if s.closing || !c.direct(s) || s.cfg.MaxAge <= 0 {
				return // rotated, if at all, before the next line is written
			}
			s.file.cfg = s.cfg
			c.working = job{slot: s, op: rotateOld, when: now()}
			if _, err := c.call(); err != nil {
				c.fail(s, err)
			}
			c.awaitAge(s)
		})
	})
}

// Settled tells the collector that every slot which a predecessor had was
// opened again; what the others left is given up.
func (c *Collector) Settled() {
	for _, index := range c.roll.abandoned() {
		c.inbox.Put(func() {
			ghost := c.memory.slotAt(index)
			if ghost == nil {
				ghost = c.ghost(index, Config{})
			}
			c.discard(ghost)
		})
	}
}

// ghost makes a slot without pipes for what is left of one.
func (c *Collector) ghost(index int, cfg Config) *Slot {
	s := &Slot{c: c, index: index, entry: c.arena.entry(index), cfg: &cfg}
	s.file = file{home: c.home, dir: cfg.Dir, cfg: s.cfg, fd: -1, put: c.opts.put, packer: c.packer}
	c.memory.place(index, s)
	return s
}

// release closes a slot's descriptors.
func (s *Slot) release() {
	if s.age != nil {
		s.age.Stop()
	}
	if !s.late {
		s.file.close()
	}
	s.closePipes()
}
