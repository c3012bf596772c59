package logs

import (
	"bytes"
	"cmp"
	"sync/atomic"
	"time"
)

// lastMost is how much of a service's last line is remembered, in bytes.
const lastMost = 256

// now is the time in microseconds since 1970.
func now() int64 { return time.Now().UnixMicro() }

// settle deals with all that is staged.
func (c *Collector) settle(s *Slot, when int64) {
	r := c.arena.record
	for !c.arena.empty() || r.source == fromExit && s.entry.part != [2]uint32{} {
		r.when, r.limit = when, outSize
		if left := s.file.left(); !c.direct(s) {
			r.limit = queueKeep / 4
		} else if left > 0 {
			r.limit = min(r.limit, left)
		}
		out, res, err := c.composer.compose(s, int(r.limit))
		must(err)
		c.deliver(s, out, res)
	}
}

// direct says that output goes straight to the file.
func (c *Collector) direct(s *Slot) bool {
	return s.cfg.File && !s.listed && !s.late && c.disk.late == 0 && s.entry.queueHead == s.entry.queueTail
}

// deliver puts a segment's output where it belongs, and its result into force.
func (c *Collector) deliver(s *Slot, out []byte, res result) {
	if len(out) > 0 {
		c.pass(s, out, res)
		if c.direct(s) {
			out = c.send(s, out, res)
		}
		if len(out) > 0 {
			c.memory.enqueue(s, out, &res)
			if s.cfg.File {
				c.list(s)
			}
		}
	}
	must(c.memory.commit(s, res))
	s.grew()
}

// grew tells whoever follows the slot's log.
func (s *Slot) grew() {
	s.c.bells.grew(s.name)
	if s.cfg.Grew != nil {
		s.cfg.Grew()
	}
}

// send appends out to the slot's file and returns what could not be.
func (c *Collector) send(s *Slot, out []byte, res result) []byte {
	r := c.arena.record
	if !c.prepare(s, job{slot: s, out: out, res: res, when: r.when}) {
		return out
	}
	r.dev, r.ino, r.off = s.file.dev, s.file.ino, s.file.size
	c.arena.at()
	atomic.StoreUint32(&r.phase, appending)
	c.arena.at()
	c.working.op = appendOut
	n, err := c.call()
	if err != nil {
		c.fail(s, err)
	}
	c.awaitAge(s)
	return out[n:]
}

// prepare makes the slot's file ready for a job's output.
func (c *Collector) prepare(s *Slot, j job) bool {
	s.file.cfg = s.cfg
	if s.file.dir != s.cfg.Dir {
		s.file.close()
		s.file.dir = s.cfg.Dir
	}
	j.op = makeReady
	c.working = j
	if _, err := c.call(); err != nil {
		c.fail(s, err)
		return false
	}
	return true
}

// pass shows output to the tee, and remembers the last line.
func (c *Collector) pass(s *Slot, out []byte, res result) {
	if c.arena.record.source >= fromMark && res.end != c.arena.base() {
		return // rlminit's own
	}
	if s.cfg.Tee {
		var text func([]byte) []byte
		if s.cfg.Timestamps {
			text = textOf
		}
		c.tee.Pass(&s.teed, cmp.Or(s.cfg.Prefix, s.name), out, text)
	}
	line := bytes.TrimRight(out, "\n")
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if s.cfg.Timestamps {
		line = textOf(line)
	}
	if len(line) > 0 {
		s.last = append(s.last[:0], line[:min(len(line), lastMost)]...)
	}
}

// textOf is a line without its time and mark.
func textOf(line []byte) []byte {
	n := len(layout) + len(" out ")
	if len(line) < n {
		return nil
	}
	if line[n-1] == '+' {
		n++
	}
	return line[min(n, len(line)):]
}

// must is for what cannot fail short of a defect. This process dies then, and
// its successor goes on from the arena.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// adopt reads what a predecessor left in the table.
func (c *Collector) adopt() {
	c.roll.orphans = map[[2]uint64]int{}
	high := int(c.arena.record.high)
	c.roll.taken = make([]bool, high)
	for i := range high {
		e := c.arena.entry(i)
		if e.used == 0 {
			continue
		}
		c.roll.taken[i] = true
		c.roll.orphans[e.pipes] = i
		c.memory.count(e, 1)
	}
}

// begin finishes what a predecessor left in the stage, and is the collector
// from then on.
func (c *Collector) begin() {
	r := c.arena.record
	phase := atomic.LoadUint32(&r.phase)
	if phase == applying || !c.arena.empty() {
		cfg, err := r.config()
		must(err)
		ghost := c.ghost(int(r.slot), cfg)
		c.disk.work()
		switch phase {
		case applying:
			must(c.memory.apply())
		case appending:
			c.finish(ghost)
		}
		c.settle(ghost, now())
	}
	c.run()
}

// finish appends the rest of a segment that a predecessor was appending.
func (c *Collector) finish(s *Slot) {
	r := c.arena.record
	out, res, err := c.composer.compose(s, int(r.limit))
	must(err)
	c.working = job{slot: s, op: resume, when: now(), out: out, res: res, dev: r.dev, ino: r.ino, off: r.off}
	n, err := c.call()
	if err == nil && n < len(out) {
		c.working.op, c.working.out = appendOut, out[n:]
		var more int
		more, err = c.call()
		n += more
	}
	if err != nil {
		c.fail(s, err)
	}
	if n < len(out) {
		c.memory.enqueue(s, out[n:], &res)
	}
	must(c.memory.commit(s, res))
}
