package handover

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Text is one text that a successor is to have, in a memfd that tier 1 holds too. It is
// written to one of two places in turn, each time with a single pwrite(2), and counts
// with its checksum: one that was torn by a kill leaves the one before.
type Text struct {
	fd    int
	seq   uint64 // of the newest
	long  [2]int // bytes of what is in each place, at most
	room  []byte // for the next one
	write func(b []byte, at int64) (int, error)
}

const (
	// textBytes is how far the places are from each other; what is longer is not kept.
	// There is no memory behind what was never written.
	textBytes = 64 << 20
	// largeText is how long a text may be whose memory is kept for the next one.
	largeText = 64 << 10
)

// OpenText takes over what is under key, with the text that a predecessor left there, or
// makes it.
func OpenText(key string, held Held, hold Hold) (t *Text, left []byte, err error) {
	t = &Text{}
	t.Through(func(b []byte, at int64) (int, error) { return unix.Pwrite(t.fd, b, at) })
	if fds := held.Take(key); len(fds) == 1 {
		t.fd, t.long = fds[0], [2]int{textBytes, textBytes}
		return t, t.read(), nil
	}
	if t.fd, err = unix.MemfdCreate(key, unix.MFD_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("cannot keep the %s for a successor: %w", key, err)
	}
	hold(key, t.fd)
	return t, nil, nil
}

// Through has the file written by write in place of pwrite(2): a simulation ends its
// supervisor in the middle of one.
func (t *Text) Through(write func(b []byte, at int64) (int, error)) { t.write = write }

// Write keeps what appendTo adds to the bytes that it is given, in place of the text
// before.
func (t *Text) Write(appendTo func([]byte) []byte) {
	if cap(t.room) < copyHeader {
		t.room = make([]byte, copyHeader)
	}
	b := appendTo(t.room[:copyHeader])
	if t.room = b; cap(b) > largeText {
		t.room = nil
	}
	if len(b) > textBytes {
		return
	}
	t.seq++
	number(b, t.seq)
	at := int64(t.seq%2) * textBytes
	if n, err := t.write(b, at); err != nil || n < len(b) {
		return // it is memory, and there is none: the one before counts
	}
	long := &t.long[t.seq%2]
	if *long > len(b)+largeText { // what was longer is given back
		_ = unix.Fallocate(t.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at+int64(len(b)), int64(*long-len(b)))
	}
	*long = len(b)
}

// read is the newest text that is whole.
func (t *Text) read() (text []byte) {
	for at := range int64(2) {
		if seq, body := numbered(t.place(at * textBytes)); seq > t.seq {
			t.seq, text = seq, body
		}
	}
	return text
}

// place is what is in a place, as far as its header says that there is something.
func (t *Text) place(at int64) []byte {
	header := make([]byte, copyHeader)
	if n, err := unix.Pread(t.fd, header, at); err != nil || n < copyHeader {
		return nil
	}
	b := make([]byte, min(copyHeader+int(binary.LittleEndian.Uint32(header[8:])), textBytes))
	n, _ := unix.Pread(t.fd, b, at)
	return b[:max(0, n)]
}
