package reap

import (
	"bytes"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startTime returns field 22 of proc_pid_stat(5).
func startTime(stat []byte) uint64 { return number(field(afterName(stat), 22-2)) }

// parent returns the parent's pid, field 4 of proc_pid_stat(5).
func parent(pid int32) int32 {
	var buffer [512]byte
	return int32(number(field(afterName(readProc(buffer[:], "/proc/", decimal(int(pid)), "/stat")), 4-2)))
}

// afterName skips pid and name, which may hold anything.
func afterName(stat []byte) []byte {
	return stat[bytes.LastIndexByte(stat, ')')+1:]
}

// readProc reads a file of /proc, from its beginning, as far as buffer goes.
func readProc(buffer []byte, path ...string) []byte {
	name := make([]byte, 0, 64)
	for _, part := range path {
		name = append(name, part...)
	}
	fd, err := unix.Open(unsafe.String(&name[0], len(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return readAll(fd, buffer)
}

// readAll fills buffer from fd.
func readAll(fd int, buffer []byte) []byte {
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

// field returns the n-th field, from 1, of fields that blanks separate.
func field(b []byte, n int) []byte {
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

// number reads decimal digits up to the first other character.
func number(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// signed is number for what may begin with a minus.
func signed(b []byte) int {
	if len(b) > 0 && b[0] == '-' {
		return -int(number(b[1:]))
	}
	return int(number(b))
}
