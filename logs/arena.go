package logs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
	"rlminit/internal/redact"
	"rlminit/wire"
)

// The arena is a sparse memfd:
//
//	0          record      what the collector is doing now
//	tableAt    entries     one a slot
//	stageAt    stage       bytes on their way; the memfd's own position is its end
//	areasAt    areas       one a slot, of areaSize: unfinished lines and queue
//
// Up to areasAt it is mapped. Areas are read and written by pread(2) and
// pwrite(2), as they are rarely used, and a mapping would cost a page table
// each.
const (
	arenaMagic   = 0x726c6d696e69744c
	arenaVersion = 2 // another, too, where the patterns mask otherwise that internal/redact has by name

	maxSlots  = 65536
	entrySize = 128
	tableAt   = 4096
	stageAt   = tableAt + maxSlots*entrySize
	stageSize = 256 << 10
	stageEnd  = stageAt + stageSize
	areasAt   = (stageEnd + areaAlign - 1) / areaAlign * areaAlign
	areaAlign = 4096

	partSize  = MaxLine + areaAlign // of one stream's unfinished line
	queueSize = 2 << 20             // of the queue's space; see queueKeep
	areaSize  = 2*partSize + queueSize
)

// Phases of the record.
const (
	idle uint32 = iota
	appending
	applying
)

// Sources of a batch, and marks of a line.
const (
	fromStdout uint32 = iota
	fromStderr
	fromMark // a line of rlminit's own
	fromExit // the same, and it ends unfinished lines
)

// record is what the collector is doing. Only the collector writes it, in
// program order; phase and base are atomic so that the compiler keeps them in
// their place.
type record struct {
	magic   uint64
	version uint32
	phase   uint32 // atomic
	base    uint64 // atomic: position up to which the stage is dealt with
	rewind  uint32 // atomic: the stage is empty and its position being set back

	high uint32 // all entries in use lie below

	// The batch: whose bytes lie between base and the position. Set while
	// there are none.
	slot       uint32
	source     uint32
	exitID     uint64
	timestamps bool
	file       bool
	dirLen     uint16
	dir        [maxDir]byte
	redactLen  uint16
	redact     [redact.MostInAll]byte // the patterns: redact.Lines has their Source

	// The segment being appended: set before phase becomes appending.
	when  int64 // µs since 1970, the time in its lines
	limit int64 // of its output
	dev   uint64
	ino   uint64
	off   int64

	// The results: set before phase becomes applying.
	res result

	// Where splice(2) is refused: so many bytes may come behind this position, and are
	// there if they are not the pattern any more. See kernel.Receiver.
	expectedAt uint64
	expected   uint32 // atomic
}

// maxDir is the longest Config.Dir, in bytes.
const maxDir = 512

// result is what a segment changes, as absolute values, so that it may be
// applied twice.
type result struct {
	end       uint64 // base
	stream    uint32 // whose unfinished line changes
	part      uint32 // its length
	partAt    uint32 // where in it …
	partLen   uint32 // … this many bytes go …
	partFrom  uint64 // … from this position of the stage
	moved     uint32 // this many bytes of it go to its beginning …
	movedFrom uint32 // … from here in it; what they come from stays as it is
	exitID    uint64
	queueHead uint64
	queueTail uint64
	lostBytes uint64
	lostLines uint64
	saidBytes uint64
	saidLines uint64
}

// entry is what a slot keeps beyond this process. Only the collector writes
// it; lostBytes and lostLines are atomic, for Stats.
type entry struct {
	used      uint32
	_         uint32
	pipes     [2]uint64 // inodes of the pipes that it belongs to
	part      [2]uint32 // lengths of the unfinished lines
	exitID    uint64    // the last exit marked
	queueHead uint64
	queueTail uint64
	lostBytes uint64 // in all
	lostLines uint64
	saidBytes uint64 // of those, told in the log
	saidLines uint64
	dev       uint64 // of the file that the queue's first bytes are being appended to
	ino       uint64
	off       int64
	sendFrom  uint64 // from here in the queue, at off in the file …
	sendEnd   uint64 // … up to here; not above queueHead for none
}

type arena struct {
	fd     int
	mem    []byte
	record *record
	pos    uint64 // the descriptor's position

	receives bool // splice(2) is refused: the pipes are read by kernel.Receive

	// instant, where set, is called wherever this process may die between two
	// steps; a test dies there.
	instant func()
}

func (a *arena) at() {
	if a.instant != nil {
		a.instant()
	}
}

// openArena makes an arena, or takes over a predecessor's where fd is one.
func openArena(fd int) (*arena, error) {
	if fd >= 0 {
		return takeArena(fd)
	}
	fd, err := wire.Memfd("rlminit-log")
	if err != nil {
		return nil, fmt.Errorf("cannot make the log's memory: %w", err)
	}
	a, err := makeArena(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot set up the log's memory: %w", err)
	}
	return a, nil
}

func makeArena(fd int) (*arena, error) {
	if err := unix.Ftruncate(fd, areasAt); err != nil {
		return nil, err
	}
	if _, err := unix.Seek(fd, stageAt, unix.SEEK_SET); err != nil {
		return nil, err
	}
	a, err := mapArena(fd)
	if err != nil {
		return nil, err
	}
	a.pos = stageAt
	a.record.version = arenaVersion
	atomic.StoreUint64(&a.record.base, stageAt)
	a.record.magic = arenaMagic
	return a, nil
}

func mapArena(fd int) (*arena, error) {
	mem, err := unix.Mmap(fd, 0, areasAt, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &arena{fd: fd, mem: mem, record: (*record)(unsafe.Pointer(&mem[0]))}, nil
}

// takeArena takes over a predecessor's arena. On an error fd stays open.
func takeArena(fd int) (*arena, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot take over the log's memory: %w", err)
	}
	if st.Size < areasAt {
		return nil, errors.New("cannot take over the log's memory: it is too short")
	}
	a, err := mapArena(fd)
	if err != nil {
		return nil, fmt.Errorf("cannot take over the log's memory: %w", err)
	}
	if err := a.check(); err != nil {
		_ = unix.Munmap(a.mem)
		return nil, fmt.Errorf("cannot take over the log's memory: %w", err)
	}
	return a, nil
}

// check finishes a rewind, reads the position and sees whether it can be.
func (a *arena) check() error {
	r := a.record
	if r.magic != arenaMagic || r.version != arenaVersion {
		return errors.New("another version wrote it")
	}
	if atomic.LoadUint32(&r.rewind) != 0 {
		if err := a.rewind(); err != nil {
			return err
		}
	}
	pos, err := unix.Seek(a.fd, 0, unix.SEEK_CUR)
	if err != nil {
		return err
	}
	a.pos = uint64(pos)
	if err := a.expectation(); err != nil {
		return err
	}
	base := a.base()
	if base < stageAt || a.pos < base || a.pos > stageEnd || r.slot >= maxSlots || r.high > maxSlots || r.dirLen > maxDir || r.source > fromExit || r.redactLen > redact.MostInAll {
		return errors.New("it is damaged")
	}
	if _, err := r.config(); err != nil {
		return err
	}
	return nil
}

// config is how the batch is kept.
func (r *record) config() (Config, error) {
	masks, err := redact.LinesOf(string(r.redact[:r.redactLen]))
	return Config{Dir: string(r.dir[:r.dirLen]), File: r.file, Timestamps: r.timestamps, Redact: masks}, err
}

// close closes the descriptor. The mapping stays, for Slot.Stats may be asked at
// any time.
func (a *arena) close() { unix.Close(a.fd) }

// base is the position up to which the stage is dealt with.
func (a *arena) base() uint64 { return atomic.LoadUint64(&a.record.base) }

// empty says that nothing in the stage waits to be dealt with.
func (a *arena) empty() bool { return a.base() == a.pos }

// staged returns the bytes not dealt with. They are valid until the next fill.
func (a *arena) staged() []byte { return a.mem[a.base():a.pos] }

// room returns how many bytes the stage takes, after setting it back to its
// start where it is empty and less than want is left.
func (a *arena) room(want int) (int, error) {
	if left := int(stageEnd - a.pos); left >= want || !a.empty() {
		return left, nil
	}
	return stageSize, a.rewind()
}

// rewind sets an empty stage back to its start. Two things change, and not at
// once; the flag makes a successor finish it.
func (a *arena) rewind() error {
	atomic.StoreUint32(&a.record.rewind, 1)
	a.at()
	if _, err := unix.Seek(a.fd, stageAt, unix.SEEK_SET); err != nil {
		return fmt.Errorf("cannot set back the log's position: %w", err)
	}
	a.pos = stageAt
	a.at()
	atomic.StoreUint64(&a.record.base, stageAt)
	a.at()
	atomic.StoreUint32(&a.record.rewind, 0)
	return nil
}

// batch says whose the next bytes in the stage are, and what a successor would
// have to know to write them. The stage must be empty.
func (a *arena) batch(slot int, cfg *Config, source uint32, exitID uint64) {
	r := a.record
	r.slot, r.source, r.exitID = uint32(slot), source, exitID
	r.timestamps, r.file = cfg.Timestamps, cfg.File
	r.dirLen = uint16(copy(r.dir[:], cfg.Dir))
	r.redactLen = uint16(copy(r.redact[:], cfg.Redact.Source()))
	atomic.StoreUint32(&r.phase, idle)
	a.at()
}

// fill moves at most n bytes from a pipe into the stage and returns how many.
// It does not wait: with nothing there it returns unix.EAGAIN.
func (a *arena) fill(pipe, n int) (moved int, err error) {
	if !a.receives {
		moved, err = kernel.Splice(pipe, a.fd, n)
		a.receives = kernel.Refused(err)
	}
	if a.receives {
		return kernel.Receive(pipe, a, n)
	}
	if err != nil {
		return 0, err
	}
	a.pos += uint64(moved)
	a.at()
	return moved, nil
}

// Expect is kernel.Receiver's.
func (a *arena) Expect(n int) ([]byte, error) {
	b := a.mem[a.pos : a.pos+uint64(n)]
	kernel.Pattern(b, int64(a.pos))
	a.record.expectedAt = a.pos
	a.at()
	atomic.StoreUint32(&a.record.expected, uint32(n))
	a.at()
	return b, nil
}

// Advance is kernel.Receiver's.
func (a *arena) Advance(n int) error {
	a.at()
	if _, err := unix.Seek(a.fd, int64(a.pos)+int64(n), unix.SEEK_SET); err != nil {
		return fmt.Errorf("cannot advance the log's position: %w", err)
	}
	a.pos += uint64(n)
	a.at()
	atomic.StoreUint32(&a.record.expected, 0)
	a.at()
	return nil
}

// expectation advances behind what a predecessor expected if it has come.
func (a *arena) expectation() error {
	n := atomic.LoadUint32(&a.record.expected)
	if n == 0 {
		return nil
	}
	end := a.pos + uint64(n)
	if a.pos < stageAt || end > stageEnd {
		return errors.New("it is damaged")
	}
	if a.pos != a.record.expectedAt || !kernel.Came(a.mem[a.pos:end], int64(a.pos)) {
		n = 0
	}
	return a.Advance(int(n))
}

// put writes text into the stage.
func (a *arena) put(text string) error {
	if text == "" {
		return nil
	}
	n, err := unix.Write(a.fd, []byte(text))
	if err != nil {
		return fmt.Errorf("cannot write the log's memory: %w", err)
	}
	a.pos += uint64(n)
	a.at()
	return nil
}

func (a *arena) entry(slot int) *entry {
	return (*entry)(unsafe.Pointer(&a.mem[tableAt+slot*entrySize]))
}

func partAt(slot int, stream uint32) int64 {
	return areasAt + int64(slot)*areaSize + int64(stream)*partSize
}

// slotsWithin is the number of slots whose areas can be written where files may not be of
// any size, and that size: RLIMIT_FSIZE of getrlimit(2).
func slotsWithin() (most int, limit uint64) {
	is, err := kernel.Rlimit(unix.RLIMIT_FSIZE)
	if err != nil || is.Cur == unix.RLIM_INFINITY {
		return maxSlots, unix.RLIM_INFINITY
	}
	return int(max(0, min(int64(min(is.Cur, 1<<62))-areasAt, maxSlots*areaSize)) / areaSize), is.Cur
}

func queueAt(slot int) int64 {
	return areasAt + int64(slot)*areaSize + 2*partSize
}

// store writes b at position at of an area.
func (a *arena) store(b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(a.fd, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot write the log's memory: %w", err)
		}
		b, at = b[n:], at+int64(n)
	}
	a.at()
	return nil
}

// load reads len(b) bytes from position at of an area.
func (a *arena) load(b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(a.fd, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the log's memory: %w", err)
		}
		if n == 0 { // beyond the end, where nothing was ever stored
			clear(b)
			return nil
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// free gives pages of an area back.
func (a *arena) free(at, n int64) {
	_ = kernel.Punch(a.fd, at, n)
}

func init() {
	if unsafe.Sizeof(entry{}) > entrySize || unsafe.Sizeof(record{}) > tableAt {
		panic("logs: the arena's layout does not fit")
	}
}
