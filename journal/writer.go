package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
)

// Sizes, in bytes.
const (
	segmentLimit = 10 << 20 // a segment ends before it would be larger
	reserveSize  = 512 << 10
	allocateStep = 256 << 10 // bytes allocated at a time beyond the reserve
)

// writer writes the newest segment. One goroutine uses it once the journal is
// open.
type writer struct {
	journal *Journal
	disk    disk
	boot    string
	held    func() bool
	say     func(string)
	now     func() time.Time
	volume  string
	fresh   bool
	limit   int64 // the size before which a segment ends, bytes

	seq  uint64 // of the last record
	next uint64 // the number of the next segment
	prev uint64 // that of the newest one that is there; 0: none
	// prevSeq is the number of the last record there.
	prevSeq uint64
	lost    bool // the volume is another's: nothing is written ever again

	// What is known follows from the segment with this number and later ones: none
	// of them is removed before another has been begun. 0: from any there is.
	needed uint64

	open openSegment
	// noAllocate: the file system cannot set blocks aside, so the reserve is a file.
	noAllocate bool

	// restore makes the directory again that somebody has removed, with its format file.
	// gone: it is to be made, and a segment begun there. Where that fails, why is what it
	// is until it is tried again.
	restore func() error
	gone    bool
	why     error
	again   time.Time

	aside []takenAside // files to be kept aside once there is a segment of ours
	said  string       // the failure of a begin that was said last
}

// openSegment is the segment that is written; file is nil where one is to be begun
// first. Invariant: the file is good up to pos, and nothing is after it.
type openSegment struct {
	file      file
	name      string
	number    uint64
	pos       int64
	snapshot  int64 // the size of its first record
	allocated int64 // up to where the file system has set blocks aside
	traced    bool  // its name was seen to lead to it, which not every file system shows
}

// end gives back the blocks allocated in advance.
func (s *openSegment) end() {
	if s.file != nil {
		_ = s.file.truncate(s.pos) // only space is at stake
		s.file.Close()
		s.file = nil
	}
}

// leave gives the segment up. The next one begins with a snapshot that knows
// nothing of refused records.
func (s *openSegment) leave() {
	s.file.Close()
	s.file, s.name = nil, ""
}

// takenAside is a file that must not be read again as a segment, and why.
type takenAside struct{ name, why string }

// write is the writer's goroutine: it commits what waits, until Close.
func (j *Journal) write() {
	w := &j.writer
	defer close(j.ended)
	for {
		batch, dropped := j.queue.take()
		if len(batch) == 0 {
			w.open.end()
			return
		}
		w.commit(batch, dropped)
	}
}

// commit writes a batch, and answers each request. Where the disk is full only
// those that may use the reserve are written.
func (w *writer) commit(batch []*request, dropped uint64) {
	err := w.attempt(batch, dropped)
	if isFull(err) {
		var reserved, rest []*request
		for _, r := range batch {
			if r.reserved {
				reserved = append(reserved, r)
			} else {
				rest = append(rest, r)
			}
		}
		w.answer(rest, err)
		if len(reserved) == 0 {
			w.journal.queue.lose(dropped)
			return
		}
		batch = reserved
		again := w.attempt(batch, dropped)
		if again != nil && errors.Is(err, ErrInDoubt) && !errors.Is(again, ErrInDoubt) {
			again = fmt.Errorf("%w; %w", again, ErrInDoubt)
		}
		err = again
	}
	if err != nil {
		w.journal.queue.lose(dropped)
	}
	w.answer(batch, err)
}

// answer tells every caller that waits. Notes that failed are counted.
func (w *writer) answer(batch []*request, err error) {
	for _, r := range batch {
		switch n := uint64(len(r.bodies)); {
		case r.note && err != nil:
			w.journal.queue.miss(n)
			r.tell(nil)
		case !r.note:
			if err != nil {
				w.journal.count(func(s *Stats) { s.Refused += n })
			}
			r.done <- err
		}
	}
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// attempt writes a batch with one write and, unless it is notes alone, one
// fsync. On an error nothing of it counts.
func (w *writer) attempt(batch []*request, dropped uint64) error {
	if w.lost = w.lost || !w.held(); w.lost {
		return ErrLost
	}
	size := 0
	durable, reserved := false, true
	for _, r := range batch {
		size += r.size()
		durable = durable || !r.note && len(r.bodies) > 0
		reserved = reserved && r.reserved
	}
	if size == 0 {
		return nil
	}
	if err := w.ready(int64(size)); err != nil {
		return err
	}
	line := make([]byte, 0, size+200)
	seq, at := w.seq, w.now()
	add := func(kind string, body []byte) {
		seq++
		line = appendRecord(line, seq, at, w.boot, kind, body)
	}
	if dropped > 0 {
		add(TypeLost, fmt.Appendf(nil, `"count":%d`, dropped))
	}
	noted := map[*request][]byte{}
	for _, r := range batch {
		r.first = seq + 1
		begin := len(line)
		for i, kind := range r.kinds {
			add(kind, r.bodies[i])
		}
		if r.told != nil {
			noted[r] = bytes.TrimSuffix(bytes.Clone(line[begin:]), []byte("\n"))
		}
	}
	if err := w.put(line, durable, reserved); err != nil {
		return err
	}
	if w.lost = !w.held(); w.lost && durable {
		return fmt.Errorf("%w; %w", ErrLost, ErrInDoubt) // its new owner may have read it, or not
	}
	w.seq, w.prevSeq = seq, seq
	w.applied(line)
	for r, line := range noted {
		r.tell(line)
	}
	return nil
}

// applied hands written records to the folds and shows them to readers.
func (w *writer) applied(lines []byte) {
	j := w.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats.Bytes += uint64(len(lines))
	for rest := lines; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		j.stats.Records++
		if r, err := parseRecord(line); err == nil {
			j.folds.apply(r)
		}
		rest = after
	}
	j.shown(w.open.name, w.open.pos)
}

// ready sees to it that there is a segment with room for so many bytes.
func (w *writer) ready(size int64) error {
	if w.open.file != nil && w.open.traced && !w.disk.named(w.open.name, w.open.file) {
		// No boot would find records there.
		w.say("somebody has removed the journal's " + w.open.name + ": what counts is written anew, and older records are lost")
		w.open.leave()
		w.gone, w.why, w.prev, w.prevSeq = true, nil, 0, 0
	}
	if w.gone {
		return w.anew()
	}
	full := w.open.pos+size > w.limit && w.open.pos > 2*w.open.snapshot
	if w.open.file != nil && !full {
		return nil
	}
	err := w.begin()
	if err != nil && w.open.file != nil {
		return nil // no room for another one: this one goes on
	}
	return err
}

// againWithin is when it is tried again to make the directory.
const againWithin = 5 * time.Second

// anew begins a segment in a directory that somebody has removed.
func (w *writer) anew() error {
	if w.why != nil && w.now().Before(w.again) {
		return w.why
	}
	var err error
	if w.restore != nil {
		if err = w.restore(); err != nil {
			w.sayOnce("cannot make the journal again: " + err.Error())
		}
	}
	if err == nil {
		err = w.begin()
	}
	w.why, w.again = err, w.now().Add(againWithin)
	return err
}

// sayOnce says why no segment can be begun, unless that was said last.
func (w *writer) sayOnce(text string) {
	if text != w.said {
		w.said = text
		w.say(text)
	}
}

// put writes lines at the end of the segment. Where that fails the segment ends
// there, and what may be on the disk is taken back.
func (w *writer) put(lines []byte, durable, reserved bool) error {
	if err := w.allocate(int64(len(lines)), reserved); err != nil {
		return err
	}
	_, err := w.open.file.WriteAt(lines, w.open.pos)
	if isFull(err) && reserved && w.freeReserve() {
		_, err = w.open.file.WriteAt(lines, w.open.pos)
	}
	synced := err == nil
	if err == nil && durable {
		err = w.sync(w.open.file)
	}
	if err == nil {
		w.open.pos += int64(len(lines))
		return nil
	}
	back := w.open.file.truncate(w.open.pos)
	if back == nil {
		back = w.open.file.sync()
	}
	w.open.allocated = w.open.pos // a truncated file has lost the blocks beyond its end
	if back != nil || synced {
		// After an fsync that failed the kernel forgets the pages it could not write, and
		// the next fsync says nothing of it: only another file is to be trusted.
		w.open.leave()
	}
	if back != nil {
		return fmt.Errorf("%w; %w", err, ErrInDoubt)
	}
	return err
}

// allocate sets blocks aside for so many bytes and, unless these are what the
// reserve is for, the reserve beyond.
func (w *writer) allocate(size int64, reserved bool) error {
	need := w.open.pos + size + reserveSize
	if reserved {
		need = w.open.pos + size
	}
	if w.noAllocate || w.open.allocated >= need {
		return nil
	}
	err := w.open.file.allocate(w.open.pos, need+allocateStep)
	if err == nil {
		w.open.allocated = need + allocateStep
		return nil
	}
	if isFull(err) {
		if err = w.open.file.allocate(w.open.pos, need); err == nil {
			w.open.allocated = need
			return nil
		}
	}
	switch {
	case isFull(err) && reserved:
		return nil // then the write says whether there is room
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), kernel.Refused(err):
		w.noAllocate = true
		w.keepReserve()
		return nil
	}
	return err
}

// reserveName is the file that is the reserve where blocks cannot be set aside
// for the segment itself.
const reserveName = "reserve"

// keepReserve writes the reserve's file, if it is not there. Its content has no
// pattern, lest the file system compress it.
func (w *writer) keepReserve() {
	f, err := w.disk.create(reserveName)
	if err != nil {
		return // it is there, or there is no room for it
	}
	defer f.Close()
	if _, err = f.WriteAt(noise(reserveSize), 0); err == nil {
		err = f.sync()
	}
	if err != nil {
		_ = w.disk.remove(reserveName)
	}
}

// freeReserve gives the reserve's file back to the file system.
func (w *writer) freeReserve() bool {
	return w.noAllocate && w.disk.remove(reserveName) == nil
}

// newMark and the boot's id follow on a segment's name until its snapshot is on the
// disk: so the snapshot of a segment that can be found is never one that a failing
// disk has forgotten.
const newMark = ".new-"

// begin begins a segment with a snapshot of all folds. Where that fails, the
// segment before goes on, unless a rest of the new one may be found at a boot:
// then nothing is written before another one has been begun.
func (w *writer) begin() error {
	err := w.tryBegin()
	if isFull(err) && w.retire(segmentsKept-1) {
		err = w.tryBegin() // the oldest was to go anyway
	}
	if err != nil {
		w.sayOnce("cannot begin a segment of the journal: " + err.Error())
		return err
	}
	w.said, w.gone = "", false
	w.setAside()
	w.retire(segmentsKept)
	return nil
}

func (w *writer) tryBegin() error {
	line, err := w.snapshotLine()
	if err != nil {
		return err
	}
	number, name := w.next, segmentName(w.next)
	unnamed := name + newMark + w.boot
	f, err := w.unnamed(unnamed, line)
	if err != nil {
		return err
	}
	if w.open.file != nil {
		// No boot looks at the end of a segment that another follows: notes are there,
		// which a power cut could leave in part. They are in the snapshot all the same.
		_ = w.open.file.sync()
	}
	err = w.disk.rename(unnamed, name)
	if errors.Is(err, unix.EEXIST) { // another's
		f.Close()
		w.next++
		return w.tryBegin()
	}
	w.next++
	if err != nil {
		f.Close()
		_ = w.disk.remove(unnamed)
		back := w.disk.remove(name) // what failed may have been to make its name durable
		if back == nil {
			back = w.disk.sync()
		}
		if back != nil && w.open.file != nil {
			w.open.leave()
		}
		return err
	}
	w.open.end()
	size := int64(len(line))
	w.open = openSegment{file: f, name: name, number: number, pos: size, snapshot: size, traced: w.disk.named(name, f)}
	w.prev, w.needed = number, number
	w.seq++
	w.prevSeq = w.seq
	w.markNewest(number)
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	w.journal.shown(name, w.open.pos)
	w.journal.stats.Segments++
	w.journal.stats.Records++
	w.journal.stats.Bytes += uint64(w.open.pos)
	return nil
}

// unnamed writes what becomes a segment when it has the name of one.
func (w *writer) unnamed(name string, line []byte) (file, error) {
	f, err := w.disk.create(name)
	if errors.Is(err, unix.EEXIST) { // a rest of one that could not be begun
		if err = w.disk.remove(name); err == nil {
			f, err = w.disk.create(name)
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(line, 0); err == nil {
		err = w.sync(f)
	}
	if err == nil && !w.held() {
		w.lost, err = true, ErrLost
	}
	if err != nil {
		f.Close()
		_ = w.disk.remove(name) // it is no segment: it does no harm
	}
	return f, err
}

// markNewest says which segment is the newest. Where that fails nothing is lost but that
// its absence is not noticed.
func (w *writer) markNewest(number uint64) {
	names, err := w.disk.list()
	if err != nil {
		return
	}
	name := fmt.Sprintf("%s%0*d", newestPrefix, segmentDigits, number)
	f, err := w.disk.create(name)
	if err != nil {
		return
	}
	f.Close()
	for _, old := range names {
		if strings.HasPrefix(old, newestPrefix) && old != name {
			_ = w.disk.remove(old)
		}
	}
}

// snapshotLine makes the first record of the next segment.
func (w *writer) snapshotLine() ([]byte, error) {
	w.journal.mu.Lock()
	sections, err := w.journal.folds.sections()
	w.journal.mu.Unlock()
	if err != nil {
		return nil, err
	}
	body, err := encodeBody(Entry{Type: TypeSnapshot, Body: snapshot{Format: Format, Volume: w.volume, Segment: w.next, Previous: w.prev, PreviousSeq: w.prevSeq, Sections: sections}})
	if err != nil {
		return nil, err
	}
	return appendRecord(nil, w.seq+1, w.now(), w.boot, TypeSnapshot, body), nil
}

// setAside renames what must not be read again as a segment. That was waited
// for until all that it held is in a snapshot of ours.
func (w *writer) setAside() {
	for _, a := range w.aside {
		to := a.name + ".aside-" + w.now().UTC().Format("20060102T150405Z")
		name := to
		err := w.disk.rename(a.name, name)
		for i := 2; errors.Is(err, unix.EEXIST) && i < 100; i++ {
			name = fmt.Sprintf("%s-%d", to, i)
			err = w.disk.rename(a.name, name)
		}
		if err != nil {
			w.say(fmt.Sprintf("the journal's %s is not used: %s; it cannot be kept aside: %v", a.name, a.why, err))
			continue
		}
		w.say(fmt.Sprintf("the journal's %s is not used any more: %s; it is kept as %s", a.name, a.why, name))
	}
	w.aside = nil
}

// retire removes the oldest segments but for the keep newest and for those that
// are needed, and of those kept aside the oldest. It tells whether anything went.
func (w *writer) retire(keep int) (gone bool) {
	names, err := w.disk.list()
	if err != nil {
		return false
	}
	var segments, aside, unfinished []string
	for _, name := range names {
		if number, ok := segmentNumber(name); ok && (w.open.file == nil || number <= w.open.number) {
			segments = append(segments, name)
		} else if strings.Contains(name, asideMark) {
			aside = append(aside, name)
		} else if strings.Contains(name, segmentSuffix+newMark) {
			unfinished = append(unfinished, name)
		}
	}
	old := slices.DeleteFunc(oldest(segments, keep), func(name string) bool {
		number, _ := segmentNumber(name)
		return number >= w.needed
	})
	for _, name := range slices.Concat(old, oldest(aside, asideKept), unfinished) {
		gone = w.disk.remove(name) == nil || gone
	}
	return gone
}
