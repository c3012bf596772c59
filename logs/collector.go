package logs

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/logs/tee"
)

// Options are the collector's.
type Options struct {
	Home   string // the volume's root, absolute; all of Config.Dir lies beneath it
	Held   []int  // what Held gave the predecessor, back from tier 1; empty for the first
	Tee    int    // the container's stdout: non-blocking, its own open file description; negative for none
	Colour bool   // prefixes in the tee bear colours

	// Report, where set, is told that a slot's file cannot be written (err) or
	// can be again (nil); with no name, what concerns all. It must not block.
	Report func(name string, err error)

	// A test's: see arena and file.
	instant  func()
	receives bool
	put      func(fd int, p []byte) (int, error)
	retry    time.Duration
	watch    time.Duration
}

// Collector owns the slots. Its methods may be called from any goroutine.
type Collector struct {
	opts   Options
	home   int
	arena  *arena
	tee    *tee.Tee
	packer *packer
	inbox  inbox
	roll   roll

	// Owned by the collector's goroutine.
	memory   memory
	composer composer
	poller   poller
	ending   bool
	tasks    tasks
	working  job
	disk     disk
	failing  []*Slot // with a queue that is to be written
	ticking  bool
	bells    bells
	waiting  waitingMarks
	pace     pace
}

// New starts a collector. What a predecessor left half done is finished by it,
// before anything else.
func New(opts Options) (*Collector, error) {
	if opts.retry == 0 {
		opts.retry = retryEvery
	}
	if opts.watch == 0 {
		opts.watch = watchEvery
	}
	if opts.put == nil {
		opts.put = unix.Write
	}
	home, err := unix.Open(opts.Home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", opts.Home, err)
	}
	c := &Collector{opts: opts, home: home, roll: roll{byName: map[string]*Slot{}}}
	c.pace = pace{timer: time.NewTimer(time.Hour), hurry: make(chan struct{}, 1)}
	c.pace.timer.Stop()
	if err := c.open(); err != nil {
		unix.Close(home)
		return nil, err
	}
	if c.tee, err = tee.New(opts.Tee, opts.Colour); err != nil {
		c.arena.close()
		unix.Close(home)
		return nil, err
	}
	if c.packer, err = newPacker(home); err != nil {
		c.arena.close()
		unix.Close(home)
		return nil, fmt.Errorf("cannot open %s: %w", opts.Home, err)
	}
	c.disk.watched, c.disk.every = c, opts.watch
	go c.begin()
	return c, nil
}

func (c *Collector) open() (err error) {
	fd := -1
	if len(c.opts.Held) > 0 {
		fd = c.opts.Held[0]
	}
	if c.arena, err = openArena(fd); err != nil && fd >= 0 {
		// Of another version, or damaged: what it held is lost, but the pipes
		// are not, and services must not wait.
		if c.opts.Report != nil {
			c.opts.Report("", err)
		}
		unix.Close(fd)
		c.arena, err = openArena(-1)
	}
	if err != nil {
		return err
	}
	c.arena.instant, c.arena.receives = c.opts.instant, c.opts.receives
	c.memory = memory{arena: c.arena, tend: c.tick}
	c.waiting = waitingMarks{c: c, of: map[*Slot][]waitingMark{}}
	c.composer.memory = &c.memory
	c.adopt()
	if err := c.inbox.open(c.pace.wake); err != nil {
		return fmt.Errorf("cannot wait for logs: %w", err)
	}
	return c.poller.open(c.inbox.wake)
}

// Held returns the descriptors that tier 1 is to hold under "log" before any
// slot is opened.
func (c *Collector) Held() []int { return []int{c.arena.fd} }

// Close takes what is in the pipes now and ends the collector; a successor can
// go on from there. It waits for at most timeout for the disk and the tee.
func (c *Collector) Close(timeout time.Duration) error {
	if c.roll.close() {
		c.inbox.Put(func() {
			for _, s := range c.memory.slots {
				if s != nil {
					c.tasks.drain(s, nil)
				}
			}
			c.tasks = append(c.tasks, task{marked: true, done: func() { c.ending = true }})
		})
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case <-c.inbox.done:
	case <-deadline.C:
		return errors.New("cannot write the rest of the logs: the disk does not answer")
	}
	select {
	case <-c.packer.close():
	case <-deadline.C:
		return nil // what is half compressed is whole as it was
	}
	return c.tee.Close(deadline.C)
}

// obey runs the commands that were posted, and the tasks that they made.
func (c *Collector) obey() {
	for {
		for len(c.tasks) > 0 {
			c.step()
		}
		command, waits := c.inbox.Next()
		if !waits {
			return
		}
		command()
	}
}

// run is the collector's goroutine. Another takes its place where it is stuck
// in the disk: what it does is therefore kept in c, not on its stack.
func (c *Collector) run() {
	for !c.ending {
		c.obey()
		if c.ending {
			break
		}
		c.disk.rest()
		c.poller.wait()
		c.disk.work()
		for i := range c.poller.ready {
			c.obey() // what was posted before bytes were written stands before them
			c.serve(c.poller.events[i])
		}
		c.pace.turn()
	}
	c.end()
}

func (c *Collector) serve(event unix.EpollEvent) {
	if event.Fd == wakeEvent {
		var count [8]byte
		_, _ = unix.Read(c.inbox.wake, count[:])
		return
	}
	s := c.memory.slots[event.Fd>>1]
	if s == nil || s.generation != event.Pad {
		return // closed since
	}
	n := s.cfg.Redact.Searched(stageSize) // others wait no longer for what costs more
	c.take(s, uint32(event.Fd&1), &n)
}

// take deals with what is in a pipe now, *left bytes at most, and takes their
// number off *left.
func (c *Collector) take(s *Slot, stream uint32, left *int) bool {
	for c.waiting.has(s) {
		c.waiting.writeFirst(s)
	}
	room, err := c.arena.room(64 << 10)
	if err != nil {
		c.fail(s, err)
		return false
	}
	c.arena.batch(s.index, s.cfg, stream, 0)
	n, err := c.arena.fill(s.pipes[stream].read, min(room, *left))
	if err != nil || n == 0 {
		if err == nil { // no write end is left, not even ours: it would be ready for ever
			c.poller.remove(s.pipes[stream].read)
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			c.fail(s, fmt.Errorf("cannot read the service's output: %w", err))
		}
		return false
	}
	*left -= n
	s.taken.Add(uint64(n))
	c.pace.filled(&s.pipes[stream], n)
	c.settle(s, now())
	return true
}

// task is a mark, or another thing that must follow what is in the pipes.
type task struct {
	slot   *Slot
	left   [2]int // bytes to be taken from the pipes before
	source uint32 // fromMark, fromExit
	id     uint64
	text   string
	when   int64 // of a mark that has waited, µs; 0: now
	marked bool
	done   func()
}

// tasks are to be done one after the other.
type tasks []task

// exit appends a task that takes what is in a slot's pipes now, and no more (a
// process that outlives the service may write for ever), and then marks.
func (all *tasks) exit(s *Slot, id uint64, text string, done func()) {
	t := task{slot: s, source: fromExit, id: id, text: text, done: done}
	for stream := range t.left {
		if n, err := unix.IoctlGetInt(s.pipes[stream].read, unix.TIOCINQ); err == nil {
			t.left[stream] = n
		}
	}
	*all = append(*all, t)
}

// drain appends a task that takes what is in a slot's pipes now; done may be nil.
func (all *tasks) drain(s *Slot, done func()) {
	all.exit(s, 0, "", done)
	(*all)[len(*all)-1].marked = true
}

// step does a part of the first task.
func (c *Collector) step() {
	t := &c.tasks[0]
	for stream := range t.left {
		if t.left[stream] > 0 {
			if !c.take(t.slot, uint32(stream), &t.left[stream]) {
				t.left[stream] = 0
			}
			return
		}
	}
	if c.waiting.has(t.slot) && (t.source != fromMark || !c.waiting.mayWait(t.slot)) {
		c.waiting.writeFirst(t.slot)
		return
	}
	if !t.marked {
		t.marked = true
		c.mark(t)
		return
	}
	done := t.done
	c.tasks[0] = task{}
	if c.tasks = c.tasks[1:]; len(c.tasks) == 0 {
		c.tasks = nil
	}
	if done != nil {
		done()
	}
}

// mark appends a line of rlminit's own.
func (c *Collector) mark(t *task) {
	s := t.slot
	if t.source == fromExit && t.id != 0 && s.entry.exitID == t.id {
		return // the predecessor did, and died before it could tell
	}
	if t.text == "" && (t.source != fromExit || s.entry.part == [2]uint32{}) {
		return
	}
	when := cmp.Or(t.when, now())
	if t.when == 0 && t.source == fromMark && c.waiting.mayWait(s) {
		c.waiting.add(s, waitingMark{t.text, when})
		return
	}
	if _, err := c.arena.room(64 << 10); err != nil {
		c.fail(s, err)
		return
	}
	c.arena.batch(s.index, s.cfg, t.source, t.id)
	if err := c.arena.put(oneLine(t.text)); err != nil {
		c.fail(s, err)
		return
	}
	c.settle(s, when)
}

// end closes what the collector's goroutine owns.
func (c *Collector) end() {
	for _, s := range c.memory.slots {
		if s != nil {
			s.release()
		}
	}
	unix.Close(c.poller.epoll)
	c.inbox.close()
	c.roll.mu.Lock()
	unix.Close(c.home)
	c.home = -1
	c.roll.mu.Unlock()
	c.arena.close()
	close(c.inbox.done)
}
