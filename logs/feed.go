package logs

import (
	"bytes"
	"cmp"
	"context"
	"hash/fnv"
	"io"

	"golang.org/x/sys/unix"
)

// Feed reads logs for one who goes on later, in another process too, where it left off.
type Feed struct {
	c    *Collector
	home int
}

// NewFeed is one of a collector's logs, which may outlast it.
func NewFeed(c *Collector) (*Feed, error) {
	home, err := c.roll.dupHome(&c.home)
	if err != nil {
		return nil, err
	}
	return &Feed{c: c, home: home}, nil
}

// Position is a place between two lines of a log, or in the queue of one without a file.
// The zero value is before all that there is.
type Position struct {
	Inode  uint64 `json:"inode,omitempty"` // of the file
	At     int64  `json:"at,omitempty"`    // in it, bytes, as it was before it was compressed
	Head   uint64 `json:"head,omitempty"`  // of its first bytes, for an inode is used again
	Heads  int    `json:"heads,omitempty"` // how many those are
	After  string `json:"after,omitempty"` // the files that were rotated after it have greater names
	Queued uint64 `json:"queued,omitempty"`
}

// headMost is how many bytes of a file tell it from another of its inode: the time of its
// first line is among them.
const headMost = 64

// Lines are those of one log from a place on, as long as it grows. It is for one goroutine.
type Lines struct {
	feed  *Feed
	k     cursor
	at    Position // the latest that was asked for, or the end of the file before
	of    int      // k.files when it was made
	gone  bool
	found bool // k is where at was, or beyond
}

// Lines begins at a place. Nothing is opened yet.
func (f *Feed) Lines(source Source, at Position) *Lines {
	l := &Lines{feed: f, at: at, k: cursor{ctx: context.Background(), home: f.home, source: source, follow: true, fd: -1}}
	l.k.leaving = func() { l.at = l.Position() }
	return l
}

// Next is the next line, with its newline if it has one; nil: there is none by now. It is
// valid until the next call. It waits for the disk.
func (l *Lines) Next() ([]byte, error) {
	if !l.found {
		if err := l.find(); err != nil {
			return nil, err
		}
		l.found = true
	}
	more, err := l.k.next()
	l.gone, l.k.queue.missed = l.gone || l.k.queue.missed, false
	if err != nil || !more {
		return nil, err
	}
	return l.k.line, nil
}

// Gone tells, once, that what came next is not there any more: other lines follow.
func (l *Lines) Gone() bool {
	was := l.gone
	l.gone = false
	return was
}

// find opens the file that the place is in.
func (l *Lines) find() error {
	k := &l.k
	k.slot, k.queue.ended = l.feed.c.roll.slot(k.source.Name), false
	k.queue.read, k.queue.memory, k.buf = l.at.Queued, nil, nil
	if k.source.Dir == "" || l.at.Inode == 0 {
		k.after, k.at = l.at.After, 0
		return nil
	}
	dir, err := openDir(k.home, k.source.Dir)
	if absent(err) {
		l.gone = true
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if l.open(dir, current) {
		return nil
	}
	names, err := rotated(dir)
	if err != nil {
		return err
	}
	for i := len(names) - 1; i >= 0; i-- {
		if l.open(dir, names[i]) {
			return nil
		}
	}
	if l.open(dir, current) { // it may have been rotated before the first look, or after it
		return nil
	}
	l.gone, k.after, k.at = true, l.at.After, 0
	return nil
}

// open opens a file if it is the one that the place is in.
func (l *Lines) open(dir int, name string) bool {
	fd, isPacked, err := openRotated(dir, name)
	if err != nil {
		return false
	}
	inode, head, size := identity(fd, isPacked, l.at.Heads)
	if inode != l.at.Inode || head != l.at.Head || !isPacked && (size < l.at.At || !endsLine(fd, l.at.At)) {
		unix.Close(fd)
		return false
	}
	k := &l.k
	k.close()
	k.fd, k.packed, k.at, k.after = fd, isPacked, l.at.At, nameAfter(name)
	l.of = k.files
	return true
}

// endsLine tells whether a line ends before a place in a file: it does, unless the file is
// not what it was.
func endsLine(fd int, at int64) bool {
	last := []byte{'\n'}
	if at > 0 {
		_, _ = unix.Pread(fd, last, at-1)
	}
	return last[0] == '\n' || at > int64(longest) // a part of a line that is too long
}

// identity is what tells a file from others, by so many of its first bytes, and its size.
func identity(fd int, isPacked bool, heads int) (inode, head uint64, size int64) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, 0, 0
	}
	inode = st.Ino
	first := make([]byte, heads)
	if isPacked {
		z, err := unpack(fd)
		if err != nil {
			return 0, 0, 0
		}
		inode = inodeOf(z.Comment)
		n, _ := io.ReadFull(z, first)
		first = first[:n]
	} else {
		n, _ := unix.Pread(fd, first, 0)
		first = first[:max(n, 0)]
	}
	h := fnv.New64a()
	h.Write(first)
	return inode, h.Sum64(), st.Size
}

// Position is the place after the last line that Next gave. It names the file of that line,
// also where the next file is open by now.
func (l *Lines) Position() Position {
	k := &l.k
	if !l.found {
		return l.at
	}
	if k.fd < 0 {
		l.at.After, l.at.Queued = cmp.Or(k.after, l.at.After), k.queue.read-uint64(len(k.buf))
		return l.at
	}
	at := max(k.at-int64(len(k.buf)), 0)
	if at == 0 {
		return l.at // nothing tells this file from others yet: its inode is used again
	}
	heads := int(min(at, headMost))
	if l.of != k.files || l.at.Heads < heads {
		inode, head, _ := identity(k.fd, k.packed, heads)
		l.at, l.of = Position{Inode: inode, Head: head, Heads: heads}, k.files
	}
	l.at.At, l.at.After = at, k.after
	return l.at
}

// Start is the place before the first line of the file that the last line is of. Its Inode
// is 0 if that line is in no file.
func (l *Lines) Start() Position {
	p := l.Position()
	p.At = 0
	return p
}

// In tells whether the last line is of the file that a place is in.
func (l *Lines) In(p Position) bool {
	if l.k.fd < 0 || p.Inode == 0 {
		return false
	}
	inode, head, _ := identity(l.k.fd, l.k.packed, p.Heads)
	return inode == p.Inode && head == p.Head
}

// Rest lets go of the file, and of all that was read ahead: the next Next opens it again.
func (l *Lines) Rest() {
	l.at = l.Position()
	l.k.close()
	l.k.buf, l.k.queue.memory, l.found = nil, nil, false
}

// Parts are what a line of a file with timestamps is made of.
type Parts struct {
	Time   []byte // RFC 3339; nil: the line has none
	Stream string // out, err or rlminit
	Text   []byte
	Cut    bool // the next line of the stream goes on where this one stops
}

// Split takes a line apart, which it shares.
func Split(line []byte) (p Parts) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if len(line) < len(layout)+5 || line[len(layout)-1] != 'Z' || line[4] != '-' || line[len(layout)] != ' ' {
		return Parts{Stream: "out", Text: line}
	}
	switch string(line[len(layout)+1 : len(layout)+4]) {
	case "out":
		p.Stream = "out"
	case "err":
		p.Stream = "err"
	case "---":
		p.Stream = "rlminit"
	default:
		return Parts{Stream: "out", Text: line}
	}
	p.Time, p.Text, p.Cut = line[:len(layout)], textOf(line), line[len(layout)+4] == '+'
	return p
}

// Files changes whenever Next goes into another file.
func (l *Lines) Files() int { return l.k.files }
