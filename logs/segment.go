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
			c.out = append(append(c.out, c.stamp.whole...), c.memory.arena.staged()...)
			c.mask(s, len(c.stamp.whole))
			c.out = append(c.out, '\n')
		}
		return c.out, res, nil
	case s.cfg.Timestamps || s.cfg.Redact != nil:
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
	from := len(c.out)
	err := c.appendPart(s, stream, n)
	c.mask(s, from)
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

// mask masks what c.out has from an offset on, which is one line.
func (c *composer) mask(s *Slot, from int) {
	if s.cfg.Redact != nil {
		c.out = s.cfg.Redact.Mask(c.out, from)
	}
}

// composeLines makes lines of the staged bytes and of the unfinished line
// before them.
func (c *composer) composeLines(s *Slot, res result, limit int) ([]byte, result, error) {
	r := c.memory.arena.record
	stream, data := r.source, c.memory.arena.staged()
	part, most := int(s.entry.part[stream]), s.cfg.Redact.Searched(MaxLine)
	c.stamp.set(r.when, stream)
	res.stream = stream
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		l := line{head: c.stamp.whole, part: part, text: data[:max(n, 0)], used: n + 1, whole: true}
		switch {
		case n < 0 && part+len(data) <= most && !c.memory.crowded(len(data)):
			res.partAt, res.partLen, res.partFrom = uint32(part), uint32(len(data)), res.end
			res.part = uint32(part + len(data))
			res.end += uint64(len(data))
			return c.out, res, nil
		case n < 0:
			l.text = data
			fallthrough
		case part+len(l.text) > most:
			l.long = part+len(l.text) > most
			l.text = l.text[:min(len(l.text), max(most-part, 0))]
			l.head, l.used, l.whole = c.stamp.cut, len(l.text), false
		}
		start := len(c.out)
		if start > 0 && start+len(l.head)+part+len(l.text)+1 > limit {
			break
		}
		left, err := c.appendLine(s, &l, stream)
		if err != nil {
			return nil, res, err
		}
		if start > 0 && len(c.out) > limit { // masks can be longer than what they stand for
			c.out = c.out[:start]
			break
		}
		res.end += uint64(l.used)
		data = data[l.used:]
		if part = left; part > 0 {
			res.moved, res.movedFrom = uint32(part), uint32(int(s.entry.part[stream])-part)
			break
		}
	}
	res.part = uint32(part)
	return c.out, res, nil
}

// line is what the next line of an output is made of.
type line struct {
	head  []byte // time and mark
	part  int    // bytes of the unfinished line
	text  []byte // what follows on them in the stage
	used  int    // bytes of the stage
	whole bool   // the newline is the service's
	long  bool   // it is cut, for it is too long
}

// appendLine appends a line. Of one that is too long and masked, it leaves what a secret
// could begin in for the next: left is how much that is of the unfinished line; the rest
// of it is not used.
func (c *composer) appendLine(s *Slot, l *line, stream uint32) (left int, err error) {
	if s.cfg.Timestamps {
		c.out = append(c.out, l.head...)
	}
	from := len(c.out)
	if err := c.appendPart(s, stream, l.part); err != nil {
		return 0, err
	}
	c.out = append(c.out, l.text...)
	if l.long && s.cfg.Redact != nil {
		cut := s.cfg.Redact.Cut(c.out[from:])
		c.out = c.out[:from+cut]
		left, l.used = max(l.part-cut, 0), max(cut-l.part, 0)
	}
	c.mask(s, from)
	if s.cfg.Timestamps || l.whole {
		c.out = append(c.out, '\n')
	}
	return left, nil
}
