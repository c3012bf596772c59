package logs

import (
	"bytes"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A disk may take as long as it likes, or never answer (a dead FUSE or NFS
// server). The collector calls it directly, as a goroutine in between would
// cost more than most writes; but while it does, it holds nothing that another
// could not take over. Where a call lasts longer than a second, another
// goroutine becomes the collector: the output under way goes to the slot's
// queue, and no file is touched until the late call has returned.

// watchEvery is how often a call that lasts is looked at; the second time that
// it is the same, it is late.
const watchEvery = 500 * time.Millisecond

// errLate is the reason that a slot's file cannot be written meanwhile.
var errLate = errors.New("cannot write the log: the disk has not answered for a second")

type operation uint8

const (
	makeReady operation = iota // open, check, rotate
	appendOut
	resume // after a crash
	rotateOld
)

// job is one call of the disk, and what is to be done after it.
type job struct {
	slot  *Slot
	op    operation
	when  int64
	out   []byte
	queue bool // out is the queue's beginning
	res   result

	dev, ino uint64 // resume: of the file …
	off      int64  // … and where in it out began
}

// disk is the handing over of the collector. token is odd while a call lasts;
// whoever moves it on from there is the collector.
type disk struct {
	watched *Collector
	token   atomic.Uint64
	parked  atomic.Bool
	armed   atomic.Bool
	timer   *time.Timer
	every   time.Duration
	seen    uint64
	late    int // calls that have not returned; the collector's
}

// call does c.working. It returns to the collector only: a caller who is that
// no more ends here.
func (c *Collector) call() (int, error) {
	j := c.working
	token := c.disk.token.Add(1)
	n, err := j.do()
	if !c.disk.token.CompareAndSwap(token, token+1) {
		c.inbox.Put(func() { c.returned(j, n, err) })
		runtime.Goexit()
	}
	return n, err
}

// do is the part that waits for the disk. It touches the slot's file only.
func (j *job) do() (int, error) {
	f := &j.slot.file
	switch j.op {
	case makeReady:
		return 0, f.ready(j.when, len(j.out))
	case appendOut:
		return f.append(j.out)
	case resume:
		return f.resume(j)
	case rotateOld:
		if f.fd < 0 || !f.due(0) {
			return 0, nil
		}
		return 0, f.rotate(j.when)
	}
	return 0, nil
}

// append writes out, and where it cannot be written whole, sees to it that the
// file ends with a whole line. It returns how much is in the file.
func (f *file) append(out []byte) (int, error) {
	at := f.size
	n, err := f.write(out)
	if err == nil {
		return n, nil
	}
	keep := n
	if f.cfg.Timestamps {
		keep = bytes.LastIndexByte(out[:n], '\n') + 1
	}
	size, seekErr := unix.Seek(f.fd, 0, unix.SEEK_END)
	if seekErr != nil || size < at+int64(keep) || size > at+int64(len(out)) || unix.Ftruncate(f.fd, at+int64(keep)) != nil {
		return n, err
	}
	f.size, f.mid = at+int64(keep), keep > 0 && out[keep-1] != '\n'
	return keep, err
}

// resume finds out how much of out is in the file from off, and takes away
// what is torn.
func (f *file) resume(j *job) (int, error) {
	if f.fd < 0 {
		if err := f.open(j.when); err != nil {
			return 0, err
		}
	}
	if f.dev != j.dev || f.ino != j.ino || f.size <= j.off {
		return 0, nil // replaced or emptied by a person
	}
	have := make([]byte, min(f.size-j.off, int64(len(j.out))))
	got, err := unix.Pread(f.fd, have, j.off)
	if err != nil {
		return 0, err
	}
	same := 0
	for same < got && have[same] == j.out[same] {
		same++
	}
	if same == len(j.out) || f.size > j.off+int64(len(j.out)) {
		return same, nil // all; or a person's additions, which are not ours to remove
	}
	if f.cfg.Timestamps {
		same = bytes.LastIndexByte(j.out[:same], '\n') + 1
	}
	if err := unix.Ftruncate(f.fd, j.off+int64(same)); err != nil {
		return 0, err
	}
	f.size = j.off + int64(same)
	f.mid = same > 0 && j.out[same-1] != '\n'
	return same, nil
}

// rest and work tell the watch whether there is anything to look after.
func (d *disk) rest() { d.parked.Store(true) }

func (d *disk) work() {
	d.parked.Store(false)
	if d.armed.CompareAndSwap(false, true) {
		if d.timer == nil {
			d.timer = time.AfterFunc(d.every, d.look)
		} else {
			d.timer.Reset(d.every)
		}
	}
}

// look is the timer's: it finds a call that lasts.
func (d *disk) look() {
	token := d.token.Load()
	if token%2 == 1 && token == d.seen && d.token.CompareAndSwap(token, token+1) {
		go d.watched.takeOver()
	}
	d.seen = token
	d.armed.Store(false)
	if !d.parked.Load() && d.armed.CompareAndSwap(false, true) {
		d.timer.Reset(d.every)
	}
}

// takeOver makes this goroutine the collector while the former one waits for
// the disk.
func (c *Collector) takeOver() {
	j := c.working
	s := j.slot
	c.disk.late++
	s.late = true
	c.composer.out = nil // the kernel may still read it
	c.fail(s, errLate)
	if !j.queue && j.op != rotateOld {
		cut := c.memory.enqueue(s, j.out, &j.res)
		if j.op != makeReady {
			r, e := c.arena.record, s.entry
			e.dev, e.ino, e.off = r.dev, r.ino, r.off
			e.sendFrom = e.queueTail - uint64(cut)
			atomic.StoreUint64(&e.sendEnd, j.res.queueTail)
		}
		must(c.memory.commit(s, j.res))
		c.settle(s, now())
	}
	c.run()
}

// returned is told the outcome of a late call.
func (c *Collector) returned(j job, n int, err error) {
	s := j.slot
	s.late = false
	c.disk.late--
	if s.heir != nil {
		s.file.close()
		s = s.heir
		s.late = false
	}
	if j.op == appendOut || j.op == resume {
		if sent := s.entry.sendFrom + uint64(n); n > 0 && sent > s.entry.queueHead {
			res := c.memory.unchanged(s)
			res.queueHead = min(sent, res.queueTail)
			must(c.memory.commit(s, res))
		}
		atomic.StoreUint64(&s.entry.sendEnd, 0)
	}
	if s.closing {
		c.discard(s)
		return
	}
	if err != nil {
		c.fail(s, err)
	}
	c.tick()
}
