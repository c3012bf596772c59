package output

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/redact"
)

// secrets is a text of lines of all lengths with secrets in them, and what is to be seen of
// it. The last line may be unfinished.
func secrets(random *rand.Rand, size int) (written, shown []byte) {
	var text strings.Builder
	for text.Len() < size {
		fmt.Fprintf(&text, "%s token=s3cr3t password: \"s3cr3t\" %s,", strings.Repeat("x", random.IntN(60)), strings.Repeat("y", random.IntN(9)))
		if random.IntN(1000) > 0 && text.Len() < size/2 || random.IntN(20) == 0 {
			text.WriteByte('\n')
		}
	}
	return []byte(text.String()), []byte(strings.ReplaceAll(text.String(), "s3cr3t", redact.Sign))
}

func lines(t *testing.T, patterns ...string) *redact.Lines {
	t.Helper()
	l, err := redact.NewLines(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whoever dies at whatever step of the masking: all is there once, and no secret.
func TestNothingIsLostOrSeenWhenKilledWhileMasking(t *testing.T) {
	for round := range 20 {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		l := lines(t, redact.Secrets)
		if round%2 == 0 {
			l = lines(t, redact.Secrets, `sk-[a-z]+`)
		}
		o := Open(t.TempDir(), nil)
		s, write, err := newStream("stdout", 4<<10, o.file("1", "stdout"), l)
		if err != nil {
			t.Fatal(err)
		}
		w := os.NewFile(uintptr(write), "write")
		written, want := secrets(random, random.IntN(3<<20))
		go func() {
			w.Write(written)
			w.Close()
		}()
		for {
			var n int64
			_ = s.raw.Read(func(fd uintptr) bool {
				n, err = unix.Splice(int(fd), nil, s.mask.fd, nil, 1+random.IntN(pieceSize), unix.SPLICE_F_NONBLOCK)
				return err != unix.EAGAIN
			})
			if n == 0 || err != nil {
				break
			}
			before, had := rawContent(t, s.mask.fd), s.size()
			alive := random.IntN(3)
			if alive > 0 {
				if err := s.grow(0, false); err != nil {
					t.Fatal(err)
				}
				s.spill()
			}
			if alive == 1 { // it died before it could note how far it got, and maybe in the midst
				restore(t, s, before, had+random.Int64N(s.size()-had+1))
			}
			if alive < 2 {
				s = successor(t, s, o, l)
			}
		}
		close(s.pumped)
		s.finish()
		if got := readFrom(s, 0, s.size()); !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes of %d, or others", round, len(got), len(want))
		}
		for _, fd := range s.close() {
			unix.Close(fd)
		}
	}
}

// rawContent is all that raw has.
func rawContent(t *testing.T, fd int) []byte {
	t.Helper()
	end, err := unix.Seek(fd, 0, unix.SEEK_CUR)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, end)
	if n, err := unix.Pread(fd, b, 0); err != nil || n < len(b) {
		t.Fatal(n, err)
	}
	return b
}

// restore puts raw back, and the memfd to where it had so much.
func restore(t *testing.T, s *Stream, raw []byte, had int64) {
	t.Helper()
	if _, err := unix.Pwrite(s.mask.fd, raw, 0); err != nil {
		t.Fatal(err)
	}
	if s.freed > 0 || s.total > s.keep {
		had = s.total // what was copied to the file was there
	}
	if _, err := unix.Seek(s.mem, had, unix.SEEK_SET); err != nil {
		t.Fatal(err)
	}
}

// successor has what tier 1 has of a stream.
func successor(t *testing.T, s *Stream, o *Store, l *redact.Lines) *Stream {
	t.Helper()
	var fds []int
	for _, fd := range s.fds() {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	next, err := openStream("stdout", fds, 4<<10, Open(o.dir, nil).file("1", "stdout"), l)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.grow(0, false); err != nil {
		t.Fatal(err)
	}
	next.spill()
	return next
}

// The memory of what was masked is given back, and the file has the whole, masked.
func TestLongMaskedOutput(t *testing.T) {
	o := Open(t.TempDir(), nil)
	s, write, err := newStream("stdout", 64<<10, o.file("1", "stdout"), lines(t, redact.Secrets))
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(write), "write")
	written, want := secrets(rand.New(rand.NewPCG(3, 4)), 8<<20)
	go s.pump()
	w.Write(written)
	w.Close()
	<-s.pumped
	s.finish()
	if got, err := os.ReadFile(s.file.whole()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes of %d, %v", len(got), len(want), err)
	}
	for _, fd := range s.close() {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Blocks*512 > 2<<20 {
			t.Errorf("a memfd takes %d bytes, %v", st.Blocks*512, err)
		}
		unix.Close(fd)
	}
}
