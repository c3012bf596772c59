package logs

import "bytes"

// outSize is how much output a segment has, in bytes, unless it is one line.
const outSize = 256 << 10

// composer makes output of what is staged.
type composer struct {
	memory *memory
	stamp  stamp
	out    []byte
}

// compose makes the next segment of the staged bytes: its output, in c.out,
// and its result. limit is how much output there may be, but that one line
// always fits.
func (c *composer) compose(s *Slot, limit int) ([]byte, result, error) {
	r := c.memory.arena.record
	res := c.memory.unchanged(s)
	c.out = c.out[:0]
	switch source := r.source; {
	case source == fromExit && s.entry.part[fromStdout] > 0:
		return c.cutPart(s, res, fromStdout)
	case source == fromExit && s.entry.part[fromStderr] > 0:
		return c.cutPart(s, res, fromStderr)
	case source >= fromMark:
		res.end = c.memory.arena.pos
		if source == fromExit {
			res.exitID = r.exitID
		}
		if s.cfg.Timestamps {
			c.stamp.set(r.when, source)
			c.out = append(append(append(c.out, c.stamp.whole...), c.memory.arena.staged()...), '\n')
		}
		return c.out, res, nil
	case s.cfg.Timestamps:
		return c.composeLines(s, res, limit)
	case s.entry.part[source] > 0:
		return c.cutPart(s, res, source)
	default:
		// A copy, for a late write may read it long after.
		c.out = append(c.out, plain(c.memory.arena.staged(), limit)...)
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
func (c *composer) cutPart(s *Slot, res result, stream uint32) ([]byte, result, error) {
	n := int(s.entry.part[stream])
	res.stream, res.part = stream, 0
	if s.cfg.Timestamps {
		c.stamp.set(c.memory.arena.record.when, stream)
		c.out = append(c.out, c.stamp.cut...)
	}
	err := c.appendPart(s, stream, n)
	if s.cfg.Timestamps {
		c.out = append(c.out, '\n')
	}
	return c.out, res, err
}

// appendPart appends n bytes of a stream's unfinished line to c.out.
func (c *composer) appendPart(s *Slot, stream uint32, n int) error {
	if n == 0 {
		return nil
	}
	at := len(c.out)
	c.out = append(c.out, make([]byte, n)...)
	return c.memory.arena.load(c.out[at:], partAt(s.index, stream))
}

// composeLines makes lines of the staged bytes and of the unfinished line
// before them.
func (c *composer) composeLines(s *Slot, res result, limit int) ([]byte, result, error) {
	r := c.memory.arena.record
	stream, data := r.source, c.memory.arena.staged()
	part := int(s.entry.part[stream])
	c.stamp.set(r.when, stream)
	res.stream = stream
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		head, used := c.stamp.whole, n+1
		switch text := n; {
		case n < 0 && part+len(data) <= MaxLine && !c.memory.crowded(len(data)):
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
