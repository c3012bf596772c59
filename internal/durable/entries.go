package durable

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eachEntry calls f for every name in the directory but "." and "..", until it
// fails. The names are raw bytes: a hostile directory need not hold UTF-8.
func eachEntry(fd int, f func(name string, kind fs.FileMode) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(fd, buf) })
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			name, kind, size := direntAt(rest)
			rest = rest[size:]
			if name == "." || name == ".." {
				continue
			}
			if err := f(name, kind); err != nil {
				return err
			}
		}
	}
}

// direntAt reads one struct linux_dirent64, getdents(2).
func direntAt(b []byte) (name string, kind fs.FileMode, size int) {
	size = int(binary.NativeEndian.Uint16(b[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
	raw := b[unsafe.Offsetof(unix.Dirent{}.Name):size]
	if i := bytes.IndexByte(raw, 0); i >= 0 {
		raw = raw[:i]
	}
	return string(raw), typeOf(uint32(b[unsafe.Offsetof(unix.Dirent{}.Type)]) << 12), size // IFTODT of dirent.h
}
