package journal

import (
	"bufio"
	"errors"
	"io"
)

// span is a piece of a file, in bytes.
type span struct{ at, length int64 }

// scanned is what reading a segment to its end found.
type scanned struct {
	records int
	good    int64  // where the last good record ends; the rest is torn
	torn    int64  // bytes after that
	bad     []span // damage with good records after it
	// open: the last good record lacks its newline.
	open bool
}

// maxBad bounds the damages that are told one by one.
const maxBad = 1000

// scan reads f from the byte from up to the byte to (negative: to its end), and
// calls each for every good record with where its line begins. The record is
// valid until each returns. An error is the file system's or each's.
func scan(f io.ReaderAt, from, to int64, each func(r Record, at int64) error) (scanned, error) {
	if to < 0 {
		to = 1<<63 - 1
	}
	lines := bufio.NewReaderSize(io.NewSectionReader(f, from, to-from), 64<<10)
	s := scanned{good: from}
	var pending []span // bad so far, with nothing good after it
	var long []byte
	for at := from; ; {
		line, whole, read, err := readLine(lines, &long)
		if read == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return s, err
		}
		r, bad := parseRecord(line)
		if bad == nil {
			if each != nil {
				if err := each(r, at); err != nil {
					return s, err
				}
			}
			if len(s.bad) < maxBad {
				s.bad = append(s.bad, pending...)
			}
			pending = pending[:0]
			s.records++
			s.good, s.open = at+read, !whole
		} else if n := len(pending); n > 0 && pending[n-1].at+pending[n-1].length == at {
			pending[n-1].length += read
		} else {
			pending = append(pending, span{at, read})
		}
		at += read
		s.torn = at - s.good
	}
	return s, nil
}

// readLine returns the next line without its newline, whether it had one, and
// how many bytes of the file it took. A line that is longer than any record may
// be comes back empty, so that it counts as damaged.
func readLine(b *bufio.Reader, long *[]byte) (line []byte, whole bool, read int64, err error) {
	*long = (*long)[:0]
	tooLong := false
	for {
		part, err := b.ReadSlice('\n')
		read += int64(len(part))
		whole = err == nil
		if whole {
			part = part[:len(part)-1]
		}
		if len(*long) == 0 && !tooLong && !errors.Is(err, bufio.ErrBufferFull) {
			return part, whole, read, err // the common case: no copy
		}
		if tooLong = tooLong || len(*long)+len(part) > maxSnapshot; !tooLong {
			*long = append(*long, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if tooLong {
				return nil, whole, read, err
			}
			return *long, whole, read, err
		}
	}
}
