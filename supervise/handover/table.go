package handover

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
	"rlminit/wire"
)

// Table is what a successor is to know: rows by key, in one memfd that tier 1 holds too.
// What is in it decides what becomes of services, and so it is nowhere that anybody else
// can write. HANDOVER.md has the keys, and what comes before what.
//
// Rows are appended, each with a number and a checksum; of several
// with one key the last counts. The file has two regions, of which one is in use. When
// most of that is rows which count no more, those that do are copied to the other one,
// which counts from the moment its head is written. So a kill in the middle of any write
// leaves the row of before, or the one of after. It is memory, which does not wait.
//
// Anybody may call it.
type Table struct {
	mu    sync.Mutex
	file  File
	live  int64 // bytes of the rows that count
	spare int64 // how many bytes more than twice that there may be
	region
}

// region is the one in use.
type region struct {
	begin  int64           // in the file
	end    int64           // where its next row comes to be
	number uint64          // of its last row, or of its head where it has none
	rows   map[string]span // those that count, by key
	torn   bool            // a part of a row may be at its end: nothing is appended to it
}

// File is what a Table is kept in: a simulation ends its supervisor in the middle of a
// write to it.
type File interface {
	io.ReaderAt
	io.WriterAt
	Clear(at int64) error // takes away all that is in the region which begins there
}

// memory is a memfd. The blocks of the two regions take turns in it: so the file is no
// longer than twice what is in the larger one, which a limit on the size of files
// (RLIMIT_FSIZE) counts, though there is no memory behind most of it.
type memory int

// blockBytes is the length of a block.
const blockBytes = 64 << 10

// block is where in the memfd an offset of the table is, and how much of its block follows.
func block(at int64) (in int64, rest int64) {
	region, at := at/regionBytes, at%regionBytes
	return (at/blockBytes*2+region)*blockBytes + at%blockBytes, blockBytes - at%blockBytes
}

// ReadAt is io.ReaderAt's.
func (m memory) ReadAt(b []byte, at int64) (done int, err error) {
	for done < len(b) {
		in, rest := block(at + int64(done))
		n, err := unix.Pread(int(m), b[done:min(int64(len(b)), int64(done)+rest)], in)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n == 0:
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// WriteAt is io.WriterAt's.
func (m memory) WriteAt(b []byte, at int64) (done int, err error) {
	for done < len(b) {
		in, rest := block(at + int64(done))
		n, err := unix.Pwrite(int(m), b[done:min(int64(len(b)), int64(done)+rest)], in)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n == 0:
			return done, io.ErrShortWrite
		}
		done += n
	}
	return done, nil
}

// Clear is File's.
func (m memory) Clear(at int64) error {
	for in, _ := block(at); ; in += 2 * blockBytes {
		data, err := unix.Seek(int(m), in, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing follows
		}
		if err != nil {
			return err
		}
		in += (data - in) / (2 * blockBytes) * 2 * blockBytes
		if err := kernel.Punch(int(m), in, blockBytes); err != nil {
			return err
		}
	}
}

// span is where a row is, and how long its key and its value are.
type span struct {
	at         int64
	key, value uint32
}

func (s span) size() int64 { return rowHead + int64(s.key) + int64(s.value) }

// TableKey names the file among what tier 1 holds.
const TableKey = "memory"

const (
	regionBytes = 1 << 40 // more than ever comes
	rowHead     = 8 + 4 + 4 + 4
	keyMax      = 1 << 10
	valueMax    = 256 << 20
	spareBytes  = 256 << 10
)

// OpenTable takes the file over, or makes it and has tier 1 hold it before anything
// stands in it.
func OpenTable(held Held, hold Hold) (*Table, error) {
	t := &Table{spare: spareBytes, region: region{rows: map[string]span{}}}
	if fds := held.Take(TableKey); len(fds) == 1 {
		t.file = memory(fds[0])
		return t, t.read()
	}
	fd, err := wire.Memfd(TableKey)
	if err != nil {
		return nil, fmt.Errorf("cannot keep anything for a successor: %w", err)
	}
	t.file = memory(fd)
	hold(TableKey, fd)
	return t, t.renew()
}

// Through puts another file before the one that there is.
func (t *Table) Through(before func(File) File) { t.file = before(t.file) }

// Put keeps a value under a key, in place of the one before; an empty one lets the key go.
// When it fails, the one before still counts.
func (t *Table) Put(key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.rows[key]; !known && len(value) == 0 {
		return nil
	}
	return t.put(key, value)
}

// Delete lets a key go.
func (t *Table) Delete(key string) error { return t.Put(key, nil) }

// Get is the value of a key; nil: there is none.
func (t *Table) Get(key string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.rows[key]
	if !known {
		return nil
	}
	value, err := t.value(s)
	if err != nil {
		return nil // it is memory
	}
	return value
}

// Under are the values whose keys begin with prefix, by what follows it.
func (t *Table) Under(prefix string) map[string][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string][]byte{}
	for key, s := range t.rows {
		if rest, is := strings.CutPrefix(key, prefix); is {
			if value, err := t.value(s); err == nil {
				all[rest] = value
			}
		}
	}
	return all
}

func (t *Table) value(s span) ([]byte, error) {
	value := make([]byte, s.value)
	_, err := t.file.ReadAt(value, s.at+rowHead+int64(s.key))
	return value, err
}

// put appends a row. One without a value takes its key away.
func (t *Table) put(key string, value []byte) error {
	if len(key) == 0 || len(key) > keyMax || len(value) > valueMax {
		return fmt.Errorf("%d bytes under a key of %d are more than a successor can be left", len(value), len(key))
	}
	if t.torn || t.end-t.begin > 2*t.live+t.spare {
		if err := t.renew(); err != nil {
			return err
		}
	}
	s, err := t.append(key, value)
	if err != nil {
		return fmt.Errorf("cannot keep %s for a successor: %w", key, err)
	}
	t.count(key, s)
	return nil
}

// append writes a row behind the last.
func (t *Table) append(key string, value []byte) (span, error) {
	s := span{t.end, uint32(len(key)), uint32(len(value))}
	row := make([]byte, rowHead, s.size())
	row = append(append(row, key...), value...)
	number(row, t.number+1, s)
	if _, err := t.file.WriteAt(row, s.at); err != nil {
		t.torn = true
		return s, err
	}
	t.number, t.end = t.number+1, t.end+s.size()
	return s, nil
}

// count notes where the row of a key is.
func (t *Table) count(key string, s span) {
	if before, known := t.rows[key]; known {
		t.live -= before.size()
	}
	delete(t.rows, key)
	if s.value > 0 {
		t.rows[key] = s
		t.live += s.size()
	}
}

// renew copies the rows that count to the other region, and uses that. Its head, which
// makes it the one that counts, is a row without a key, and is written last.
func (t *Table) renew() error {
	before := t.region
	t.region = region{begin: regionBytes - before.begin, rows: make(map[string]span, len(before.rows))}
	t.number, t.end = before.number+1, t.begin+rowHead
	err := t.copyRows(before.rows)
	if err != nil {
		_ = t.file.Clear(t.begin)
		t.region = before
		t.torn = true
		return fmt.Errorf("cannot make room for what a successor is to know: %w", err)
	}
	_ = t.file.Clear(before.begin) // or its memory is given back by the next
	return nil
}

func (t *Table) copyRows(rows map[string]span) error {
	if err := t.file.Clear(t.begin); err != nil {
		return err
	}
	head := make([]byte, rowHead)
	number(head, t.number, span{})
	for key, s := range rows {
		value, err := t.value(s)
		if err == nil {
			t.rows[key], err = t.append(key, value)
		}
		if err != nil {
			return err
		}
	}
	_, err := t.file.WriteAt(head, t.begin)
	return err
}

// read learns what a predecessor wrote: the rows of the region with the newer head, up
// to one that is not whole.
func (t *Table) read() error {
	for _, begin := range []int64{0, regionBytes} {
		if n, key, _ := rowAt(io.NewSectionReader(t.file, begin, regionBytes)); key == "" && n > t.number {
			t.begin, t.number = begin, n
		}
	}
	if t.number == 0 {
		return t.renew() // who made it was killed before anything was kept
	}
	t.end, t.torn = t.begin+rowHead, true
	rest := bufio.NewReaderSize(io.NewSectionReader(t.file, t.end, regionBytes), 64<<10)
	for {
		n, key, value := rowAt(rest)
		if n != t.number+1 {
			return nil
		}
		s := span{t.end, uint32(len(key)), uint32(len(value))}
		t.number, t.end = n, t.end+s.size()
		t.count(key, s)
	}
}

// rowAt reads a row; its number is 0 where there is none that is whole.
func rowAt(r io.Reader) (n uint64, key string, value []byte) {
	head := make([]byte, rowHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, "", nil
	}
	s := span{0, binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])}
	if s.key > keyMax || s.value > valueMax {
		return 0, "", nil
	}
	row := make([]byte, s.size())
	copy(row, head)
	if _, err := io.ReadFull(r, row[rowHead:]); err != nil || checksum(row) != binary.LittleEndian.Uint32(head[16:]) {
		return 0, "", nil
	}
	return binary.LittleEndian.Uint64(head), string(row[rowHead : rowHead+s.key]), row[rowHead+s.key:]
}

// number fills in the head of a row.
func number(row []byte, n uint64, s span) {
	binary.LittleEndian.PutUint64(row, n)
	binary.LittleEndian.PutUint32(row[8:], s.key)
	binary.LittleEndian.PutUint32(row[12:], s.value)
	binary.LittleEndian.PutUint32(row[16:], checksum(row))
}

// checksum is that of a row in which the checksum is zero. Its table is made when it is
// needed first: that takes 0.2 ms, and a client that needs none has begun and ended in 3.
func checksum(row []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(row[:16], table), table, row[rowHead:])
}
