package kernel

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func memfd(t *testing.T, content []byte) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.Pwrite(fd, content, 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

// Both ways to give memory back come to the same.
func TestPunch(t *testing.T) {
	for name, punch := range map[string]func(int, int64, int64) error{"fallocate": Punch, "madvise": punchMapped} {
		fd := memfd(t, bytes.Repeat([]byte{1}, 5*4096))
		if err := punch(fd, 4096, 2*4096); err != nil {
			t.Fatal(name, err)
		}
		got := make([]byte, 5*4096+1)
		n, err := unix.Pread(fd, got, 0)
		if err != nil || n != 5*4096 || bytes.Count(got[:n], []byte{0}) != 2*4096 || got[4096] != 0 || got[3*4096] != 1 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Blocks != 3*8 {
			t.Errorf("%s: %d blocks, %v", name, st.Blocks, err)
		}
	}
}

// Both ways to copy to a file append there, and leave the memfd's position alone.
func TestAppend(t *testing.T) {
	for name, add := range map[string]func(file, memfd int, from int64, n int) (int, error){"sendfile": Append, "write": appendPiece} {
		fd := memfd(t, []byte("0123456789"))
		path := filepath.Join(t.TempDir(), "file")
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, from := range []int64{0, 4} {
			if n, err := add(int(f.Fd()), fd, from, 4); n != 4 || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if n, err := add(int(f.Fd()), fd, 10, 4); n != 0 || err != nil {
			t.Errorf("%s, behind the end: %d, %v", name, n, err)
		}
		if got, err := os.ReadFile(path); string(got) != "01234567" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
