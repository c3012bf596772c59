package logs

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Rotated files can be compressed. The collector does not wait for that: a
// goroutine that lives only as long as there is something to do makes
//
//	TIME.log → compress.tmp, which is written whole and synchronised
//	compress.tmp → TIME.log.gz, by renaming
//	TIME.log removed
//
// A kill leaves, after the first step, a file that no reader looks at and the
// next time overwrites; after the second, both files, of which a reader takes
// the first, and the next time removes it. So a line is there once at any moment.
const (
	packedSuffix = ".gz"
	packingName  = "compress.tmp"
)

// packer compresses what is rotated, one file after the other.
type packer struct {
	home int // its own

	mu   sync.Mutex
	dirs []string // still to be looked through
	busy bool
	end  bool
	idle chan struct{} // closed when it has ended; made by close
}

func newPacker(home int) (*packer, error) {
	own, err := unix.FcntlInt(uintptr(home), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return &packer{home: own}, nil
}

// ask has the rotated files of a directory compressed.
func (p *packer) ask(dir string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end {
		return
	}
	for _, asked := range p.dirs {
		if asked == dir {
			return
		}
	}
	p.dirs = append(p.dirs, dir)
	if !p.busy {
		p.busy = true
		go p.work()
	}
}

// close has the file under way be the last, and returns a channel that is closed
// when that is done.
func (p *packer) close() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.end, p.idle = true, make(chan struct{})
		if !p.busy {
			p.finish()
		}
	}
	return p.idle
}

func (p *packer) finish() {
	unix.Close(p.home)
	close(p.idle)
}

func (p *packer) work() {
	for {
		p.mu.Lock()
		if p.end || len(p.dirs) == 0 {
			p.busy = false
			if p.end {
				p.finish()
			}
			p.mu.Unlock()
			return
		}
		dir := p.dirs[0]
		p.dirs = p.dirs[1:]
		p.mu.Unlock()
		p.pack(dir)
	}
}

func (p *packer) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

// pack compresses the rotated files of a directory. One that cannot be, for want
// of room say, stays as it is, and is tried at the next rotation.
func (p *packer) pack(name string) {
	dir, err := durable.OpenBeneath(p.home, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	names, err := rotated(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if p.ended() {
			return
		}
		if !packed(name) && packFile(dir, name) != nil {
			return
		}
	}
}

// packFile compresses one file.
func packFile(dir int, name string) error {
	from, err := openBeneath(dir, name)
	if absent(err) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(from), name)
	defer in.Close()
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	if err := unix.Unlinkat(dir, packingName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	to, err := durable.OpenBeneath(dir, packingName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(to), packingName)
	defer out.Close()
	if err := compress(out, in, name, st.Ino); err != nil {
		_ = unix.Unlinkat(dir, packingName, 0) // it was the disk that was full
		return err
	}
	// What a kill left under that name is replaced by the same.
	if err := unix.Renameat(dir, packingName, dir, name+packedSuffix); err != nil {
		return err
	}
	if err := unix.Fsync(dir); err != nil {
		return err
	}
	err = unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.ENOENT) {
		// It became one too many meanwhile, and was removed.
		err = unix.Unlinkat(dir, name+packedSuffix, 0)
	}
	return err
}

func compress(out *os.File, in io.Reader, name string, inode uint64) error {
	z, err := gzip.NewWriterLevel(out, gzip.BestSpeed) // nobody's service shall wait for a processor
	if err != nil {
		return err
	}
	z.Name, z.Comment = name, inodeComment(inode)
	if _, err := io.Copy(z, in); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Sync()
}

// inodeComment says in a compressed file which file it was made of: a reader
// that has that one open knows by it where it is.
func inodeComment(inode uint64) string { return "inode " + strconv.FormatUint(inode, 10) }

// inodeOf is the inode in such a comment; 0: none.
func inodeOf(comment string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(comment, "inode "), 10, 64)
	return n
}

// madeOf tells whether a compressed file was made of the file with that inode.
func madeOf(dir int, name string, inode uint64) bool {
	fd, isPacked, err := openRotated(dir, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !isPacked {
		return false
	}
	z, err := unpack(fd)
	return err == nil && z.Comment == inodeComment(inode)
}

func packed(name string) bool { return strings.HasSuffix(name, packedSuffix) }

func unpack(fd int) (*gzip.Reader, error) {
	z, err := gzip.NewReader(&section{fd: fd})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // an empty file is no compressed one
	}
	return z, err
}

// section reads a descriptor without moving its position.
type section struct {
	fd int
	at int64
}

func (s *section) Read(p []byte) (int, error) {
	n, err := unix.Pread(s.fd, p, s.at)
	if err != nil {
		return 0, err
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	s.at += int64(n)
	return n, nil
}

// openRotated opens a file of a log, by its name when it was listed: meanwhile
// it may have been compressed.
func openRotated(dir int, name string) (fd int, isPacked bool, err error) {
	fd, err = openBeneath(dir, name)
	if absent(err) && name != current && !packed(name) {
		if fd, err = openBeneath(dir, name+packedSuffix); err == nil {
			return fd, true, nil
		}
	}
	return fd, packed(name), err
}

// readPacked is readFile for a compressed file. What is damaged ends it, with a
// line that says so.
func (k *cursor) readPacked() (int, error) {
	if k.damaged {
		return 0, nil
	}
	n, err := k.unpackOn()
	if err == nil || errors.Is(err, io.EOF) || k.ctx.Err() != nil {
		return n, k.ctx.Err()
	}
	k.damaged = true
	before := len(k.buf)
	if before > 0 && k.buf[before-1] != '\n' {
		k.buf = append(k.buf, '\n')
	}
	if len(k.when) > 0 {
		k.buf = append(append(k.buf, k.when...), marks[fromMark].whole...)
	}
	k.buf = append(k.buf, "a compressed part of this log is damaged, and the rest of that part is missing here\n"...)
	return n + len(k.buf) - before, nil
}

// unpackOn takes the next bytes of a compressed file into the buffer.
func (k *cursor) unpackOn() (n int, err error) {
	if k.z == nil {
		if k.z, err = unpack(k.fd); err != nil {
			return 0, err
		}
		for left := k.at; left > 0; {
			skipped, err := io.CopyN(io.Discard, k.z, min(left, readSize))
			if left -= skipped; err != nil || k.ctx.Err() != nil {
				return 0, err
			}
		}
	}
	k.buf = append(k.buf, make([]byte, readSize)...)
	free := len(k.buf) - readSize
	for n == 0 && err == nil {
		n, err = k.z.Read(k.buf[free:])
	}
	k.buf = k.buf[:free+n]
	if k.at += int64(n); n > 0 {
		err = nil // it comes again
	}
	return n, err
}

// backwardsPacked is backwards for a compressed file, which can only be read
// from its beginning: once to count its lines, and once to find the place.
func (k *cursor) backwardsPacked(n int) (at int64, found int, err error) {
	all := 0
	size, err := k.scan(func(int64) bool { all++; return true })
	if err != nil || n == 0 {
		return size, 0, err
	}
	if all <= n {
		return 0, all, nil
	}
	skip := all - n
	_, err = k.scan(func(end int64) bool {
		skip--
		at = end
		return skip > 0
	})
	return at, n, err
}

// scan reads a compressed file, and calls each with the place behind each line
// until that returns false. It returns how much there is to read.
func (k *cursor) scan(each func(end int64) bool) (int64, error) {
	z, err := unpack(k.fd)
	if err != nil {
		return 0, nil // damaged, as reading it will say
	}
	block := make([]byte, readSize)
	var at int64
	mid := false
	for {
		n, err := z.Read(block)
		for i, b := range block[:n] {
			if mid = b != '\n'; !mid && !each(at+int64(i)+1) {
				return at, nil
			}
		}
		at += int64(n)
		if ctxErr := k.ctx.Err(); ctxErr != nil {
			return 0, ctxErr
		}
		if err != nil {
			if mid {
				each(at)
			}
			return at, nil
		}
	}
}
