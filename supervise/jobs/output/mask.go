package output

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
	"rlminit/internal/redact"
)

// Where secrets are masked, a pipe is read into a memfd of its own, and only what is masked
// goes on from there, line by line, into the one that everybody reads:
//
//	pipe ─splice→ raw ─masked→ memfd → result, file, who follows
//
// Both memfds are tier 1's too. raw has at its beginning how far it was dealt with, and how
// much that came to, in two numbers that one write changes: it lies in one page, and no
// signal tears that. A successor masks from there on once more, which comes to the same,
// for what a line is masked to follows from the line alone; the memfd's position tells how
// much of it is there already.

// rawAt is where in raw the first byte of the pipe is.
const rawAt = 4096

// longestLine is the longest line that is kept as one, in bytes. It is the logs'.
const longestLine = 1 << 20

// masking is what a stream has where secrets are masked.
type masking struct {
	lines *redact.Lines
	fd    int // raw; its position is the end of what has come

	at     int64 // of raw: dealt with up to here
	masked int64 // what that came to, in bytes
	skip   int64 // of what comes next this is there already
	begun  []byte
}

// openMasking takes over raw, or the one of a stream that has just begun. there is how much
// the memfd has.
func openMasking(lines *redact.Lines, fd int, there int64) (*masking, error) {
	m := &masking{lines: lines, fd: fd, at: rawAt}
	var mark [16]byte
	n, err := unix.Pread(fd, mark[:], 0)
	if err != nil {
		return nil, err
	}
	if n == len(mark) {
		if at := int64(binary.LittleEndian.Uint64(mark[:])); at > 0 {
			m.at, m.masked = at, int64(binary.LittleEndian.Uint64(mark[8:]))
		}
	}
	m.skip = there - m.masked
	end, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	if err == nil && end < rawAt {
		_, err = unix.Seek(fd, rawAt, unix.SEEK_SET)
	}
	if err == nil && m.skip < 0 {
		err = errors.New("the memory of an output is damaged")
	}
	return m, err
}

// mark notes that all before at is dealt with, and gives its memory back.
func (m *masking) mark(at, masked int64) error {
	var mark [16]byte
	binary.LittleEndian.PutUint64(mark[:], uint64(at))
	binary.LittleEndian.PutUint64(mark[8:], uint64(masked))
	if _, err := unix.Pwrite(m.fd, mark[:], 0); err != nil {
		return err
	}
	m.at, m.masked = at, masked
	if end := at / pageSize * pageSize; end > rawAt {
		_ = kernel.Punch(m.fd, rawAt, end-rawAt)
	}
	return nil
}

// pass puts what raw has into the memfd, masked: whole lines, and at the end what is left.
// It returns how many bytes have come there.
func (m *masking) pass(mem int, end bool) (moved int, err error) {
	come, err := unix.Seek(m.fd, 0, unix.SEEK_CUR)
	if err != nil {
		return 0, err
	}
	for m.at+int64(len(m.begun)) < come {
		from := len(m.begun)
		m.begun = append(m.begun, make([]byte, min(come-m.at-int64(from), pieceSize))...)
		if n, err := unix.Pread(m.fd, m.begun[from:], m.at+int64(from)); err != nil || n < len(m.begun)-from {
			return moved, errors.Join(err, errors.New("the memory of an output is damaged"))
		}
		n, err := m.passLines(mem, end && m.at+int64(len(m.begun)) == come)
		if moved += n; err != nil {
			return moved, err
		}
	}
	if end && len(m.begun) > 0 {
		n, err := m.passLines(mem, true)
		return moved + n, err
	}
	return moved, nil
}

// passLines is pass for what was read of raw.
func (m *masking) passLines(mem int, end bool) (moved int, err error) {
	most := m.lines.Searched(longestLine)
	var out []byte
	rest := m.begun
	for len(rest) > 0 {
		n := bytes.IndexByte(rest, '\n') + 1
		switch {
		case n == 0 && len(rest) < most && !end:
		case n == 0 && len(rest) < most:
			n = len(rest)
		case n == 0 || n > most:
			n = m.lines.Cut(rest[:most])
		}
		if n == 0 {
			break
		}
		text := bytes.TrimSuffix(rest[:n], []byte{'\n'})
		out = m.lines.Mask(append(out, text...), len(out))
		out = append(out, rest[len(text):n]...)
		rest = rest[n:]
	}
	if len(rest) == len(m.begun) {
		return 0, nil
	}
	known := min(m.skip, int64(len(out)))
	for fresh := out[known:]; len(fresh) > 0; {
		n, err := unix.Write(mem, fresh)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return moved, err
		}
		moved, fresh = moved+n, fresh[n:]
	}
	m.skip -= known
	err = m.mark(m.at+int64(len(m.begun)-len(rest)), m.masked+int64(len(out)))
	m.begun = append(m.begun[:0], rest...)
	if cap(m.begun) > 2*pieceSize && len(m.begun) == 0 {
		m.begun = nil
	}
	return moved, err
}
