package logs

import (
	"bytes"
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

func (c *Collector) room(s *Slot) int {
	if s.cfg.File && c.queued < queuedMost {
		return queueMost
	}
	return queueKeep
}

// enqueue puts out at the queue's end, once res is committed. The oldest lines
// make room for it; where that is not enough, so do those at out's beginning,
// and their size in bytes is returned.
func (c *Collector) enqueue(s *Slot, out []byte, res *result) (cut int) {
	e, room := s.entry, c.room(s)
	if len(out) > room {
		cut = len(out)
		if i := bytes.IndexByte(out[len(out)-room-1:], '\n'); i >= 0 {
			cut = len(out) - room + i
		}
		defer c.lose(s, out[:cut], res)
		out = out[cut:]
	}
	if excess := int(e.queueTail-e.queueHead) + len(out) - room; excess > 0 {
		c.drop(s, excess)
		res.queueHead, res.lostBytes, res.lostLines = e.queueHead, e.lostBytes, e.lostLines
	}
	c.ring(s.index, e.queueTail, out, c.arena.store)
	res.queueTail = e.queueTail + uint64(len(out))
	return cut
}

// lose counts out as lost, where it was to be in a file.
func (c *Collector) lose(s *Slot, out []byte, res *result) {
	if s.cfg.File {
		res.lostBytes += uint64(len(out))
		res.lostLines += uint64(bytes.Count(out, []byte{'\n'}))
	}
}

// drop takes whole lines of at least excess bytes from the queue's beginning.
// It is in force at once: what comes next overwrites them.
func (c *Collector) drop(s *Slot, excess int) {
	e := s.entry
	held := make([]byte, min(e.queueTail-e.queueHead, uint64(excess)+4096))
	for {
		c.ring(s.index, e.queueHead, held, c.arena.load)
		if i := bytes.IndexByte(held[excess-1:], '\n'); i >= 0 {
			held = held[:excess+i]
			break
		}
		if all := e.queueTail - e.queueHead; uint64(len(held)) < all {
			held = make([]byte, min(all, 2*uint64(len(held))))
			continue
		}
		break
	}
	now := c.unchanged(s)
	now.queueHead += uint64(len(held))
	if e.sendEnd > e.queueHead {
		atomic.StoreUint64(&e.sendEnd, 0) // nobody can tell any more how far that got
	}
	c.lose(s, held, &now)
	c.must(c.commit(s, now))
}

// ring applies store or load to b at a position of the queue.
func (c *Collector) ring(slot int, at uint64, b []byte, access func([]byte, int64) error) {
	place := int64(at % queueSize)
	first := min(int64(len(b)), queueSize-place)
	c.must(access(b[:first], queueAt(slot)+place))
	if first < int64(len(b)) {
		c.must(access(b[first:], queueAt(slot)))
	}
}

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
	if s.soiled {
		c.dirty = slices.DeleteFunc(c.dirty, func(other *Slot) bool { return other == s })
		s.soiled = false
	}
}

// tick has tend called in a while.
func (c *Collector) tick() {
	if !c.ticking {
		c.ticking = true
		time.AfterFunc(c.opts.retry, func() { c.post(c.tend) })
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
	for _, s := range c.dirty {
		s.soiled = false
		if e := s.entry; e.part == [2]uint32{} && e.queueTail == e.queueHead {
			c.arena.free(partAt(s.index, 0), areaSize)
		}
	}
	c.dirty = c.dirty[:0]
	if cap(c.out) > 2*outSize {
		c.out = nil
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
		c.ring(s.index, e.queueHead, data, c.arena.load)
		data = plain(data, outSize)
		if !c.prepare(s, job{slot: s, queue: true, out: data, when: c.now()}) {
			return false
		}
		e.dev, e.ino, e.off = s.file.dev, s.file.ino, s.file.size
		c.arena.at()
		e.sendFrom = e.queueHead
		atomic.StoreUint64(&e.sendEnd, e.queueHead+uint64(len(data)))
		c.working.op = appendOut
		n, err := c.call()
		c.sent(s, n)
		c.grew(s)
		if err != nil {
			s.failure = err
			return false
		}
	}
	return true
}

// sent takes what is in the file off the queue.
func (c *Collector) sent(s *Slot, n int) {
	res := c.unchanged(s)
	c.arena.at()
	res.queueHead += uint64(n)
	c.must(c.commit(s, res))
	atomic.StoreUint64(&s.entry.sendEnd, 0)
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
	c.ring(s.index, e.queueHead, data, c.arena.load)
	s.file.cfg = s.cfg
	c.working = job{slot: s, op: resume, queue: true, out: data, when: c.now(), dev: e.dev, ino: e.ino, off: e.off + int64(e.queueHead-e.sendFrom)}
	n, err := c.call()
	if err != nil {
		s.failure = err
		return false
	}
	c.sent(s, n)
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
	now := c.now()
	if s.cfg.Timestamps {
		c.stamp.set(now, fromMark)
		out = fmt.Appendf(out, "%slost %d lines, %d bytes", c.stamp.whole, lines, size)
		if s.failure != nil {
			out = fmt.Appendf(out, ": %v", s.failure)
		}
		out = append(out, '\n')
		if !c.prepare(s, job{slot: s, queue: true, out: out, when: now}) {
			return false
		}
		c.working.op = appendOut
		if _, err := c.call(); err != nil {
			s.failure = err
			return false
		}
	}
	res := c.unchanged(s)
	res.saidLines, res.saidBytes = e.lostLines, e.lostBytes
	c.must(c.commit(s, res))
	return true
}
