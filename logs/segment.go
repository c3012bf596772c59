package logs

import (
	"bytes"
	"sync/atomic"
)

// outSize is how much output a segment has, in bytes, unless it is one line.
const outSize = 256 << 10

// heldMost is how many bytes of unfinished lines all slots may have together
// before such lines are cut early.
const heldMost = 64 << 20

// unchanged is the result that changes nothing in s.
func (c *Collector) unchanged(s *Slot) result {
	e := s.entry
	return result{
		end: c.arena.base(), part: e.part[0],
		exitID: e.exitID, queueHead: e.queueHead, queueTail: e.queueTail,
		lostBytes: e.lostBytes, lostLines: e.lostLines,
		saidBytes: e.saidBytes, saidLines: e.saidLines,
	}
}

// commit puts a result into force, all of it or, where this process dies
// before the phase is stored, nothing. The stage must be empty or hold s's.
func (c *Collector) commit(s *Slot, res result) error {
	r := c.arena.record
	r.res, r.slot = res, uint32(s.index)
	atomic.StoreUint32(&r.phase, applying)
	c.arena.at()
	return c.apply()
}

// apply puts the record's result into force. It may be done over.
func (c *Collector) apply() error {
	r := c.arena.record
	res, e := &r.res, c.arena.entry(int(r.slot))
	if res.partLen > 0 {
		at := partAt(int(r.slot), res.stream) + int64(res.partAt)
		if err := c.arena.store(c.arena.mem[res.partFrom:res.partFrom+uint64(res.partLen)], at); err != nil {
			return err
		}
	}
	queued := int(res.queueTail-res.queueHead) - int(e.queueTail-e.queueHead)
	if s := c.slots[r.slot]; !s.soiled && (queued != 0 || res.part != e.part[res.stream]) {
		s.soiled = true
		c.dirty = append(c.dirty, s)
		c.tick()
	}
	c.queued += queued
	c.held += int(res.part) - int(e.part[res.stream])
	e.part[res.stream] = res.part
	c.arena.at()
	e.exitID = res.exitID
	e.queueHead, e.queueTail = res.queueHead, res.queueTail
	c.arena.at()
	atomic.StoreUint64(&e.lostBytes, res.lostBytes)
	atomic.StoreUint64(&e.lostLines, res.lostLines)
	e.saidBytes, e.saidLines = res.saidBytes, res.saidLines
	c.arena.at()
	atomic.StoreUint64(&c.arena.record.base, res.end)
	c.arena.at()
	atomic.StoreUint32(&r.phase, idle)
	c.arena.at()
	return nil
}

// compose makes the next segment of the staged bytes: its output, in c.out,
// and its result. limit is how much output there may be, but that one line
// always fits.
func (c *Collector) compose(s *Slot, limit int) ([]byte, result, error) {
	r := c.arena.record
	res := c.unchanged(s)
	c.out = c.out[:0]
	switch source := r.source; {
	case source == fromExit && s.entry.part[fromStdout] > 0:
		return c.cutPart(s, res, fromStdout)
	case source == fromExit && s.entry.part[fromStderr] > 0:
		return c.cutPart(s, res, fromStderr)
	case source >= fromMark:
		res.end = c.arena.pos
		if source == fromExit {
			res.exitID = r.exitID
		}
		if s.cfg.Timestamps {
			c.stamp.set(r.when, source)
			c.out = append(append(append(c.out, c.stamp.whole...), c.arena.staged()...), '\n')
		}
		return c.out, res, nil
	case s.cfg.Timestamps:
		return c.composeLines(s, res, limit)
	case s.entry.part[source] > 0:
		return c.cutPart(s, res, source)
	default:
		// A copy, for a late write may read it long after.
		c.out = append(c.out, plain(c.arena.staged(), limit)...)
		res.end += uint64(len(c.out))
		return c.out, res, nil
	}
}

// plain is the part of data that ends with the last line that fits in limit.
func plain(data []byte, limit int) []byte {
	if len(data) <= limit {
		return data
	}
	if i := bytes.LastIndexByte(data[:limit], '\n'); i >= 0 {
		return data[:i+1]
	}
	if i := bytes.IndexByte(data[limit:], '\n'); i >= 0 {
		return data[:limit+i+1]
	}
	return data
}

// cutPart ends a stream's unfinished line. Nothing of the stage is used up.
func (c *Collector) cutPart(s *Slot, res result, stream uint32) ([]byte, result, error) {
	n := int(s.entry.part[stream])
	res.stream, res.part = stream, 0
	if s.cfg.Timestamps {
		c.stamp.set(c.arena.record.when, stream)
		c.out = append(c.out, c.stamp.cut...)
	}
	err := c.appendPart(s, stream, n)
	if s.cfg.Timestamps {
		c.out = append(c.out, '\n')
	}
	return c.out, res, err
}

// appendPart appends n bytes of a stream's unfinished line to c.out.
func (c *Collector) appendPart(s *Slot, stream uint32, n int) error {
	if n == 0 {
		return nil
	}
	at := len(c.out)
	c.out = append(c.out, make([]byte, n)...)
	return c.arena.load(c.out[at:], partAt(s.index, stream))
}

// composeLines makes lines of the staged bytes and of the unfinished line
// before them.
func (c *Collector) composeLines(s *Slot, res result, limit int) ([]byte, result, error) {
	r := c.arena.record
	stream, data := r.source, c.arena.staged()
	part := int(s.entry.part[stream])
	c.stamp.set(r.when, stream)
	res.stream = stream
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		head, used := c.stamp.whole, n+1
		switch text := n; {
		case n < 0 && part+len(data) <= MaxLine && !c.crowded(len(data)):
			res.partAt, res.partLen, res.partFrom = uint32(part), uint32(len(data)), res.end
			res.part = uint32(part + len(data))
			res.end += uint64(len(data))
			return c.out, res, nil
		case n < 0:
			text = len(data)
			fallthrough
		case part+text > MaxLine:
			head, n = c.stamp.cut, min(text, MaxLine-part)
			used = n
		}
		if len(c.out) > 0 && len(c.out)+len(head)+part+n+1 > limit {
			break
		}
		c.out = append(c.out, head...)
		if err := c.appendPart(s, stream, part); err != nil {
			return nil, res, err
		}
		c.out = append(append(c.out, data[:n]...), '\n')
		part = 0
		res.end += uint64(used)
		data = data[used:]
	}
	res.part = uint32(part)
	return c.out, res, nil
}

// crowded says that there is no room for n more bytes of unfinished lines.
func (c *Collector) crowded(n int) bool { return c.held+n > heldMost }
