// Package footprint gives back the memory of a process that comes to rest.
package footprint

import (
	"runtime/debug"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// After is how long after a boot, a takeover or a call memory is given back: what follows
// from it is done by then.
const After = 2 * time.Second

// segment is a program header of ELF: Elf64_Phdr of elf(5).
type segment struct {
	kind, flags uint32
	_, address  uintptr    // place in the file, and in memory
	_           [2]uintptr // physical address, size in the file
	inMemory    uintptr
	_           uintptr // alignment
}

// Of elf(5), and of getauxval(3).
const (
	kindLoad, kindDynamic, flagWritable = 1, 2, 2
	auxHeaders, auxNumber               = 3, 5 // AT_PHDR, AT_PHNUM
)

// Shrink gives back what the heap does not use, and unmaps the pages of the program, of
// which a boot maps most: with each that is touched the kernel maps the fifteen beside it.
// They stay in the page cache, and what is touched again is mapped again, in microseconds.
func Shrink() {
	debug.FreeOSMemory()
	aux := map[uintptr]uintptr{}
	entries, _ := unix.Auxv() // without it there is no segment to be found
	for _, e := range entries {
		aux[e[0]] = e[1]
	}
	first := aux[auxHeaders]
	segments := unsafe.Slice(*(**segment)(unsafe.Pointer(&first)), aux[auxNumber])
	if slices.ContainsFunc(segments, func(s segment) bool { return s.kind == kindDynamic }) {
		return // the linker has written to some that are read-only since
	}
	for _, s := range segments {
		if s.kind == kindLoad && s.flags&flagWritable == 0 {
			unix.Syscall(unix.SYS_MADVISE, s.address, s.inMemory, unix.MADV_DONTNEED)
		}
	}
}
