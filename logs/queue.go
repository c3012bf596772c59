package logs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// A slot's queue is a ring in its area. It holds output that cannot be written
// now (disk full, gone, read-only, not answering) and, for slots without a
// file, the newest output. Positions count on and on; modulo queueSize they are
// places in the ring.

// queueKeep is how many bytes a slot may always queue; beyond, up to queueMost,
// as long as all slots together have no more than queuedMost.
// queueStart is the first position; what was written before the queue's first
// byte may be counted from below it.
const (
	queueStart = 1 << 32
	queueKeep  = 64 << 10
	queueMost  = MaxLine + 256<<10
	queuedMost = 64 << 20
)

// retryEvery is how often a file that cannot be written is tried again.
const retryEvery = time.Second

// fail remembers why a slot's file cannot be written.
func (c *Collector) fail(s *Slot, err error) {
	if s.failure == nil && c.opts.Report != nil {
		c.opts.Report(s.name, err)
	}
	s.failure = err
	c.list(s)
}

// list has a slot's file tried again.
func (c *Collector) list(s *Slot) {
	if !s.listed {
		s.listed = true
		c.failing = append(c.failing, s)
	}
	c.tick()
}

func (c *Collector) unlist(s *Slot) {
	if s.listed {
		c.failing = slices.DeleteFunc(c.failing, func(other *Slot) bool { return other == s })
		s.listed = false
	}
	c.memory.clean(s)
}

// tick has tend called in a while.
func (c *Collector) tick() {
	if !c.ticking {
		c.ticking = true
		time.AfterFunc(c.opts.retry, func() { c.inbox.Put(c.tend) })
	}
}

// tend does what can wait: writes queues, gives memory back. It may end in any
// call of the disk; the lists tell what is left.
func (c *Collector) tend() {
	c.ticking = false
	for i := 0; i < len(c.failing) && c.disk.late == 0; {
		s := c.failing[i]
		if !c.flush(s) {
			i++
			continue
		}
		s.listed = false
		c.failing = slices.Delete(c.failing, i, i+1)
		if s.failure != nil {
			s.failure = nil
			if c.opts.Report != nil {
				c.opts.Report(s.name, nil)
			}
		}
	}
	c.memory.tidy()
	if cap(c.composer.out) > 2*outSize {
		c.composer.out = nil
	}
	if len(c.failing) > 0 && c.disk.late == 0 {
		c.tick()
	}
}

// flush writes a slot's queue to its file and reports whether all is there.
func (c *Collector) flush(s *Slot) bool {
	e := s.entry
	if !s.cfg.File {
		return true
	}
	if !c.catchUp(s) || !c.tellLoss(s) {
		return false
	}
	for e.queueHead < e.queueTail {
		data := make([]byte, min(e.queueTail-e.queueHead, queueMost))
		c.memory.ring(s.index, e.queueHead, data, c.arena.load)
		data = plain(data, outSize)
		if !c.prepare(s, job{slot: s, queue: true, out: data, when: now()}) {
			return false
		}
		e.dev, e.ino, e.off = s.file.dev, s.file.ino, s.file.size
		c.arena.at()
		e.sendFrom = e.queueHead
		atomic.StoreUint64(&e.sendEnd, e.queueHead+uint64(len(data)))
		c.working.op = appendOut
		n, err := c.call()
		c.memory.sent(s, n)
		s.grew()
		if err != nil {
			s.failure = err
			return false
		}
	}
	return true
}

// catchUp finds out what of the queue a predecessor, or a late call, had
// already written.
func (c *Collector) catchUp(s *Slot) bool {
	e := s.entry
	end := min(e.sendEnd, e.queueTail)
	if end <= e.queueHead {
		return true
	}
	data := make([]byte, end-e.queueHead)
	c.memory.ring(s.index, e.queueHead, data, c.arena.load)
	s.file.cfg = s.cfg
	c.working = job{slot: s, op: resume, queue: true, out: data, when: now(), dev: e.dev, ino: e.ino, off: e.off + int64(e.queueHead-e.sendFrom)}
	n, err := c.call()
	if err != nil {
		s.failure = err
		return false
	}
	c.memory.sent(s, n)
	return true
}

// tellLoss writes into the log what is missing from it there.
func (c *Collector) tellLoss(s *Slot) bool {
	e := s.entry
	lines, size := e.lostLines-e.saidLines, e.lostBytes-e.saidBytes
	if size == 0 {
		return true
	}
	var out []byte
	when := now()
	if s.cfg.Timestamps {
		stamp := &c.composer.stamp
		stamp.set(when, fromMark)
		out = fmt.Appendf(out, "%slost %d lines, %d bytes", stamp.whole, lines, size)
		if s.failure != nil {
			out = fmt.Appendf(out, ": %v", s.failure)
		}
		out = append(out, '\n')
		if !c.prepare(s, job{slot: s, queue: true, out: out, when: when}) {
			return false
		}
		c.working.op = appendOut
		if _, err := c.call(); err != nil {
			s.failure = err
			return false
		}
	}
	res := c.memory.unchanged(s)
	res.saidLines, res.saidBytes = e.lostLines, e.lostBytes
	must(c.memory.commit(s, res))
	return true
}
