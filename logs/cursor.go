package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// readSize is how many bytes a cursor reads at once.
const readSize = 16 << 10

// longest is how long a line is taken to be, in bytes. A service can write what
// it likes where its log lies, a file of terabytes without a newline too: what
// is longer comes in parts, so that no reader needs memory without end.
const longest = headSize + MaxLine + 1

// cursor goes through the lines of one log: the rotated files, current, and
// what is still in memory. It keeps its file open, so that a rotation takes
// nothing from under it.
type cursor struct {
	ctx    context.Context // of the Read: even what is skipped may have no end
	home   int
	source Source
	slot   *Slot // nil: closed
	order  int
	follow bool

	fd              int          // -1: none yet
	z               *gzip.Reader // of a compressed file, once it is read from
	packed, damaged bool
	after           string // files rotated after fd's have names greater than this
	at              int64  // in the file
	files           int    // how many were opened, or begun anew
	leaving         func() // called before a file is left for the next one; may be nil
	since           string // lines older than this are skipped, as RFC 3339

	queue fromMemory
	buf   []byte // read and not passed on
	line  []byte // the current line, with its newline if there is one
	when  []byte // its time
}

// fromMemory is what a cursor has of the slot's queue.
type fromMemory struct {
	memory []byte // what was in memory when the files were at their end
	read   uint64 // position in the queue up to which it was read
	ended  bool   // memory was fetched
	missed bool   // something that was to be read next was removed, from memory or from among the files
}

func (k *cursor) close() {
	if k.fd >= 0 {
		unix.Close(k.fd)
		k.fd = -1
	}
	k.z, k.packed, k.damaged = nil, false, false
}

// openBeneath opens one file of a log. What is no file at all, but a pipe or a
// link by which a service would keep its log from being read, is as good as
// absent.
func openBeneath(dir int, name string) (int, error) {
	fd, err := durable.OpenBeneath(dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// seek goes to the nth line before the end, or where that is later, to the
// first not older than since.
func (k *cursor) seek(n int, since time.Time) error {
	if !since.IsZero() {
		k.since = since.UTC().Format(layout)
	}
	if n >= 0 {
		n -= k.remembered(n)
	}
	if k.source.Dir == "" {
		return nil
	}
	dir, err := openDir(k.home, k.source.Dir)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for {
		names, err := rotated(dir)
		if err != nil {
			return err
		}
		again, err := k.seekIn(dir, names, n, since)
		if err != nil || !again {
			return err
		}
	}
}

// seekIn is seek among the files named. It reports true where they were rotated
// meanwhile.
func (k *cursor) seekIn(dir int, names []string, n int, since time.Time) (again bool, err error) {
	k.close()
	k.at = 0
	all := append(names, current)
	for i := len(all) - 1; i >= 0; i-- {
		if at, err := rotatedAt(all[i]); err == nil && at.Before(since) && k.fd >= 0 {
			break
		}
		fd, packed, err := openRotated(dir, all[i])
		if absent(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		k.close()
		k.fd, k.packed, k.after = fd, packed, nameAfter(all[i])
		if i == len(all)-1 {
			now, err := rotated(dir)
			if err != nil {
				return false, err
			}
			if len(now) != len(names) || len(now) > 0 && nameAfter(now[len(now)-1]) != nameAfter(names[len(names)-1]) {
				return true, nil
			}
		}
		if n >= 0 {
			found := 0
			if k.at, found, err = k.backwards(n); err != nil {
				return false, err
			}
			if n -= found; n == 0 {
				break
			}
		}
	}
	return false, nil
}

// backwards finds the place of the nth line before a file's end, or of its
// first where there are fewer, and how many lines that are.
func (k *cursor) backwards(n int) (at int64, found int, err error) {
	if k.packed {
		return k.backwardsPacked(n)
	}
	var st unix.Stat_t
	if err := unix.Fstat(k.fd, &st); err != nil {
		return 0, 0, err
	}
	if n == 0 {
		return st.Size, 0, nil
	}
	block := make([]byte, readSize)
	last, length := true, 0
	for end := st.Size; end > 0; {
		if err := k.ctx.Err(); err != nil {
			return 0, 0, err
		}
		start := max(0, end-readSize)
		got, err := unix.Pread(k.fd, block[:end-start], start)
		if err != nil {
			return 0, 0, err
		}
		if int64(got) < end-start { // emptied meanwhile
			return 0, 0, nil
		}
		for i := got - 1; i >= 0; i-- {
			if block[i] == '\n' && !last || length == longest {
				if found++; found == n {
					return start + int64(i) + 1, found, nil
				}
				length = 0
			}
			last = false
			length++
		}
		end = start
	}
	if st.Size > 0 {
		found++
	}
	return 0, found, nil
}

// next goes to the next line that is asked for, and reports whether there is
// one by now.
func (k *cursor) next() (bool, error) {
	for {
		if i := bytes.IndexByte(k.buf, '\n'); i >= 0 {
			k.line, k.buf = k.buf[:i+1], k.buf[i+1:]
			if k.keep() {
				return true, nil
			}
			continue
		}
		if len(k.buf) >= longest {
			k.line, k.buf = k.buf, nil
			if k.keep() {
				return true, nil
			}
			continue
		}
		more, err := k.fill()
		if err != nil {
			return false, err
		}
		if more {
			continue
		}
		if len(k.buf) == 0 {
			k.buf = nil
			return false, nil
		}
		if k.follow {
			return false, nil // the rest of the line is to come
		}
		k.line, k.buf = k.buf, nil
		return k.keep(), nil
	}
}

// keep notes the line's time and says whether it is asked for.
func (k *cursor) keep() bool {
	if len(k.line) >= len(layout) && k.line[len(layout)-1] == 'Z' && k.line[4] == '-' {
		k.when = append(k.when[:0], k.line[:len(layout)]...)
	}
	return k.since == "" || string(k.when) >= k.since
}

// fill reads on, into the next file where one is at its end.
func (k *cursor) fill() (bool, error) {
	for {
		if k.fd >= 0 {
			n, err := k.readFile()
			if n > 0 || err != nil {
				return n > 0, err
			}
		}
		on, err := k.nextFile()
		if err != nil {
			return false, err
		}
		if !on {
			return k.fillFromMemory(), nil
		}
	}
}

func (k *cursor) readFile() (int, error) {
	if err := k.ctx.Err(); err != nil {
		return 0, err
	}
	if k.packed {
		return k.readPacked()
	}
	k.buf = append(k.buf, make([]byte, readSize)...)
	free := len(k.buf) - readSize
	n, err := unix.Pread(k.fd, k.buf[free:], k.at)
	k.buf = k.buf[:free+max(n, 0)]
	if err != nil {
		return 0, err
	}
	k.at += int64(n)
	return n, nil
}

// nextFile opens the file after the one that is at its end, or finds that more
// was written to that one before it was rotated. It reports false where there
// is nothing more to read.
func (k *cursor) nextFile() (bool, error) {
	if k.source.Dir == "" {
		return false, nil
	}
	dir, err := openDir(k.home, k.source.Dir)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	var mine unix.Stat_t
	if k.fd >= 0 {
		if left, more, err := k.left(dir, &mine); err != nil || !left {
			return more, err
		}
	}
	names, err := rotated(dir)
	if err != nil {
		return false, err
	}
	for {
		fd, name, err := k.following(dir, names, mine)
		if err != nil {
			return false, err
		}
		if name == current {
			// Between the listing and this, what was current may have got a
			// name that is not in the list.
			now, err := rotated(dir)
			if err != nil || newest(now) != newest(names) && k.ctx.Err() == nil {
				if fd >= 0 {
					unix.Close(fd)
				}
				if err != nil {
					return false, err
				}
				names = now
				continue
			}
		}
		if fd >= 0 {
			if k.leaving != nil {
				k.leaving()
			}
			k.close()
			k.fd, k.packed, k.after, k.at = fd, packed(name), nameAfter(name), 0
			k.files++
		}
		return fd >= 0, nil
	}
}

// left tells whether all was read that will ever be in the file that is read, which is
// put into mine. If not, more tells whether there is more to read in it now.
func (k *cursor) left(dir int, mine *unix.Stat_t) (left, more bool, err error) {
	if err := unix.Fstat(k.fd, mine); err != nil {
		return false, false, err
	}
	if mine.Size < k.at && !k.packed {
		k.at = 0 // emptied by a person
		k.files++
		return false, mine.Size > 0, nil
	}
	var st unix.Stat_t
	err = unix.Fstatat(dir, current, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Ino == mine.Ino && st.Dev == mine.Dev {
		k.after = nameAfter(current)
		return false, false, nil
	}
	// It is current no more, so all that will ever be in it is in it now.
	if err := unix.Fstat(k.fd, mine); err != nil {
		return false, false, err
	}
	more = mine.Size > k.at && !k.packed
	return !more, more, nil
}

// newest is the time of the file that was rotated last.
func newest(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return nameAfter(names[len(names)-1])
}

// nameAfter is a name that is less than those of files rotated after the named
// one, and not less than its own, compressed or not; for current it is that of
// now.
func nameAfter(name string) string {
	if name != current {
		return name[:len(rotatedLayout)] + "~"
	}
	return time.Now().UTC().Format(rotatedLayout)
}

// following opens what follows the file that mine describes, and returns its
// name; that is current, and the descriptor -1, where there is nothing.
func (k *cursor) following(dir int, names []string, mine unix.Stat_t) (fd int, name string, err error) {
	for _, name := range append(names[k.place(dir, names, mine):], current) {
		fd, isPacked, err := openRotated(dir, name)
		switch {
		case absent(err):
			continue
		case isPacked && !packed(name):
			name += packedSuffix
		}
		return fd, name, err
	}
	return -1, current, nil
}

// place is where in the list the file after ours stands.
func (k *cursor) place(dir int, names []string, mine unix.Stat_t) int {
	for i := len(names) - 1; i >= 0 && k.fd >= 0; i-- {
		var st unix.Stat_t
		if unix.Fstatat(dir, names[i], &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == mine.Ino && st.Dev == mine.Dev {
			return i + 1
		}
	}
	for i := len(names) - 1; i >= 0 && k.fd >= 0; i-- {
		if madeOf(dir, names[i], mine.Ino) {
			return i + 1
		}
	}
	// Where ours was removed, the oldest of those that came after is next, and some may have
	// been removed with it.
	k.queue.missed = k.queue.missed || k.fd >= 0
	return sort.Search(len(names), func(i int) bool { return names[i] > k.after })
}

// where is the slot's directory, or empty where it has no file.
func (s *Slot) where() string {
	if dir := s.dir.Load(); dir != nil {
		return *dir
	}
	return ""
}

// remembered is how many of the last n lines are in memory only.
func (k *cursor) remembered(n int) int {
	k.fetch()
	if at := lastLines(k.queue.memory, n); at >= 0 {
		k.queue.memory = k.queue.memory[at:]
	}
	return min(n, bytes.Count(k.queue.memory, []byte{'\n'}))
}

// fetch takes what is in memory, unless it will come into the file later and is
// waited for.
func (k *cursor) fetch() {
	if k.queue.ended || k.slot == nil || k.follow && k.slot.where() != "" {
		return
	}
	k.queue.ended = !k.follow
	from := k.queue.read
	k.slot.c.inbox.ask(func() { k.queue.memory, k.queue.read = k.slot.queued(k.queue.read) })
	k.queue.missed = k.queue.missed || from > 0 && k.queue.read-uint64(len(k.queue.memory)) > from
}

func (k *cursor) fillFromMemory() bool {
	k.fetch()
	k.buf = append(k.buf, k.queue.memory...)
	more := len(k.queue.memory) > 0
	k.queue.memory = nil
	return more
}

// lastLines is where the last n lines of text begin.
func lastLines(text []byte, n int) int {
	at := len(text)
	for range n {
		i := bytes.LastIndexByte(text[:max(0, at-1)], '\n')
		if i < 0 {
			return 0
		}
		at = i + 1
	}
	return at
}

// queued returns what the queue holds from a position on, and the position of
// its end. The collector's.
func (s *Slot) queued(from uint64) ([]byte, uint64) {
	if s.closing {
		return nil, from
	}
	e := s.entry
	from = max(from, e.queueHead)
	if from >= e.queueTail {
		return nil, e.queueTail
	}
	text := make([]byte, e.queueTail-from)
	s.c.memory.ring(s.index, from, text, s.c.arena.load)
	return text, e.queueTail
}
