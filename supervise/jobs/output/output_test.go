package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pattern is a text in which every place can be told from every other.
func pattern(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "%07d\n", i)
	}
	return b[:n]
}

func opened(t *testing.T, o *Store, keep int64) (*Stream, *os.File) {
	t.Helper()
	s, write, err := newStream("stdout", keep, o.file("1", "stdout"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(write, true); err != nil { // so that a deadline ends a write
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(write), "write")
	t.Cleanup(func() {
		w.Close()
		for _, fd := range s.close() {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	})
	return s, w
}

// All of a long output is in the file, its head and tail are in the memfd, and what
// the memfd has of the rest is given back.
func TestLongOutput(t *testing.T) {
	o := Open(t.TempDir(), nil)
	s, w := opened(t, o, 64<<10)
	go s.pump()
	want := pattern(6 << 20)
	go func() {
		w.Write(want)
		w.Close()
	}()
	<-s.pumped
	s.finish()
	if got, err := os.ReadFile(s.file.whole()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
	text, truncated := excerpt(s, 64<<10)
	if !truncated || !bytes.HasPrefix(text, want[:32<<10]) || !bytes.HasSuffix(text, want[len(want)-32<<10:]) {
		t.Errorf("%d bytes, truncated %v", len(text), truncated)
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.mem, &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("the memfd takes %d bytes, %v", st.Blocks*512, err)
	}
	if got := readFrom(s, 0, int64(len(want))); !bytes.Equal(got, want) {
		t.Errorf("a reader from the beginning got %d bytes", len(got))
	}
}

// A job that is over holds no file open, whoever reads what it has written once more.
func TestFileIsClosedWithItsStream(t *testing.T) {
	s, w := opened(t, Open(t.TempDir(), nil), 4<<10)
	go s.pump()
	want := pattern(64 << 10)
	w.Write(want)
	w.Close()
	<-s.pumped
	s.finish()
	for _, fd := range s.close() {
		unix.Close(fd)
	}
	if s.file.fd != -1 {
		t.Error("its file is open")
	}
	if got := readFrom(s, 0, int64(len(want))); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
	if (Streams{s}).CloseFiles(); s.file.fd != -1 {
		t.Error("its file is open once it was read")
	}
}

// Where no file can have it, head and tail are right all the same, and a reader is
// told how much is lost.
func TestLongOutputWithoutVolume(t *testing.T) {
	for name, o := range map[string]*Store{
		"no volume": Open("", nil),
		"full":      {dir: t.TempDir(), most: 1 << 20, made: true},
		"no rights": Open(filepath.Join("/proc", "nowhere"), nil),
	} {
		s, w := opened(t, o, 64<<10)
		go s.pump()
		want := pattern(4 << 20)
		go func() {
			w.Write(want)
			w.Close()
		}()
		<-s.pumped
		s.finish()
		text, truncated := excerpt(s, 64<<10)
		if !truncated || !bytes.HasPrefix(text, want[:32<<10]) || !bytes.HasSuffix(text, want[len(want)-32<<10:]) {
			t.Errorf("%s: %d bytes, truncated %v", name, len(text), truncated)
		}
		b := make([]byte, 4096)
		n, lost, _ := s.readNow(3<<20, b)
		if at := int64(3<<20) + lost; lost == 0 || n == 0 || !bytes.Equal(b[:n], want[at:at+int64(n)]) {
			t.Errorf("%s: %d bytes after %d lost ones", name, n, lost)
		}
	}
}

// Who follows a job and comes late has all of what it wrote, without a volume too.
func TestLateReaderWithoutVolume(t *testing.T) {
	s, w := opened(t, Open("", nil), 64<<10)
	go s.pump()
	want := pattern(30 << 10)
	w.Write(want)
	w.Close()
	<-s.pumped
	s.finish()
	for _, fd := range s.close() {
		unix.Close(fd)
	}
	if got := readFrom(s, 0, int64(len(want))); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
}

// A supervisor is killed at any moment of the pumping: the next one goes on at the
// very byte. Of each step that a kill can come between there is one here.
func TestNothingIsLostWhenKilled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 15 {
		o := Open(t.TempDir(), nil)
		first, w := opened(t, o, 4<<10)
		want := pattern(random.IntN(3 << 20))
		go func() {
			w.Write(want)
			w.Close()
		}()
		s := first
		for {
			n, err := s.fill(1+random.IntN(pieceSize), true)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			switch random.IntN(4) {
			case 0: // dead before anything is done with it
			case 1: // dead in the midst of the copy
				s.file.copyFrom(s.mem, random.Int64N(s.total)+1)
			case 2:
				s.spill()
				continue
			default:
				s.spill()
			}
			pipe, err := unix.Dup(s.fds()[0])
			if err != nil {
				t.Fatal(err)
			}
			mem, err := unix.Dup(s.mem) // the same description, as tier 1 has it
			if err != nil {
				t.Fatal(err)
			}
			if s, err = openStream("stdout", []int{pipe, mem}, 4<<10, Open(o.dir, nil).file("1", "stdout"), nil); err != nil {
				t.Fatal(err)
			}
			s.spill()
		}
		close(s.pumped)
		s.finish()
		if got := readFrom(s, 0, s.size()); !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes of %d, or others", round, len(got), len(want))
		}
		if len(want) > 0 {
			if got, err := os.ReadFile(s.file.whole()); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("round %d: the file has %d bytes of %d, %v", round, len(got), len(want), err)
			}
		}
	}
}

// A survivor that keeps the pipe open, and writes without end, is not waited for.
func TestSurvivorIsNotWaitedFor(t *testing.T) {
	s, w := opened(t, Open(t.TempDir(), nil), 4<<10)
	go s.pump()
	w.Write([]byte("before the end\n"))
	stop := make(chan struct{})
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for {
			select {
			case <-stop:
				return
			default:
				w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				w.Write([]byte("on and on\n"))
			}
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.finish()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it is waited for")
	}
	close(stop)
	<-writing
	if got := readFrom(s, 0, 15); string(got) != "before the end\n" {
		t.Errorf("%q", got)
	}
}

// The sum of what is kept is bounded: the oldest goes first, and what belongs to a
// job that runs stays.
func TestOutputsAreSwept(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.stdout", i+1)), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "notes"), []byte("a person's"), 0o600)
	o := Open(dir, nil)
	o.most = 11000
	known := func(job string) bool { return job != "9" }
	o.Sweep(known, func(job string) bool { return job == "1" })
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := fmt.Sprint(left); got != "[1.stdout 10.stdout 6.stdout 7.stdout 8.stdout notes]" && got != "[1.stdout 10.stdout 7.stdout 8.stdout notes]" {
		t.Errorf("left: %s", got)
	}
}

func TestWholeRunes(t *testing.T) {
	text := []byte("aé€😀")
	for i := range len(text) + 1 {
		front, back := wholeRunes(bytes.Clone(text[:i]), false), wholeRunes(bytes.Clone(text[i:]), true)
		if s, other := asText(front); other != nil || s == "" && i > 0 {
			t.Errorf("%d: %q", i, front)
		}
		if _, other := asText(back); other != nil {
			t.Errorf("%d: %q", i, back)
		}
	}
	if _, other := asText([]byte{0xff, 'a'}); other == nil {
		t.Error("what is no text is taken for one")
	}
}

// What the file of a long output does not have is said.
func TestFullOutputIsSaid(t *testing.T) {
	for most, want := range map[int64]string{
		1 << 20: "",
		20_000:  "has 20000 of 100000 bytes of stdout: there is room for no more",
	} {
		o := Open(t.TempDir(), nil)
		o.most = most
		s, w := opened(t, o, 4<<10)
		go s.pump()
		w.Write(pattern(60_000))
		w.Write(pattern(40_000))
		w.Close()
		<-s.pumped
		s.finish()
		if got := s.lacks(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("with room for %d bytes: %q", most, got)
		}
	}
}

// Where nothing is to be made above the directory, which somebody has removed, nothing is,
// and what was there counts as before.
func TestNothingIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "jobs")
	no := errors.New("the volume is not mounted any more")
	var why error
	o := Open(dir, func() error { return why })
	if err := o.make(); err != nil {
		t.Fatal(err)
	}
	o.take(100)
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	why = no
	if err := o.make(); !errors.Is(err, no) || o.used != 100 {
		t.Errorf("%v, and %d bytes are used", err, o.used)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	why = nil
	if err := o.make(); err != nil || o.used != 0 {
		t.Errorf("%v, and %d bytes are used", err, o.used)
	}
}
