// Package proc reads files of /proc and of cgroups without allocating: each whole into
// a buffer of the caller's, and numbers out of it.
package proc

import (
	"bytes"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// Parent returns the parent's pid, field 4 of proc_pid_stat(5).
func Parent(pid int32) int32 {
	var buffer [512]byte
	return int32(Number(Field(AfterName(Read(buffer[:], "/proc/", sys.Decimal(pid), "/stat")), 4-2)))
}

// AfterName skips pid and name, which may hold anything.
func AfterName(stat []byte) []byte {
	return stat[bytes.LastIndexByte(stat, ')')+1:]
}

// Read reads a file of /proc, from its beginning, as far as buffer goes.
func Read(buffer []byte, path ...string) []byte {
	name := make([]byte, 0, 64)
	for _, part := range path {
		name = append(name, part...)
	}
	fd, err := unix.Open(unsafe.String(&name[0], len(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return ReadAll(fd, buffer)
}

// ReadAll fills buffer from fd.
func ReadAll(fd int, buffer []byte) []byte {
	n := 0
	for n < len(buffer) {
		m, err := unix.Pread(fd, buffer[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			break
		}
		n += m
	}
	return buffer[:n]
}

// Field returns the n-th field, from 1, of fields that blanks separate.
func Field(b []byte, n int) []byte {
	for {
		for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
			b = b[1:]
		}
		end := 0
		for end < len(b) && b[end] != ' ' && b[end] != '\t' && b[end] != '\n' {
			end++
		}
		if n--; n == 0 || end == 0 {
			return b[:end]
		}
		b = b[end:]
	}
}

// Number reads decimal digits up to the first other character.
func Number(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// Signed is Number for what may begin with a minus.
func Signed(b []byte) int {
	if len(b) > 0 && b[0] == '-' {
		return -int(Number(b[1:]))
	}
	return int(Number(b))
}

// PIDsFiles are where the pids limit of our cgroup stands, in cgroup v2 and v1.
var PIDsFiles = []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"}

// PIDsLimit returns the pids limit of our cgroup, by the files of cgroup v2 and
// v1; very many where neither shows one, or there is none.
func PIDsLimit(files ...string) uint64 {
	var buffer [32]byte
	for _, file := range files {
		if b := Read(buffer[:], file); len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
			return Number(b)
		}
	}
	return 1 << 62
}
