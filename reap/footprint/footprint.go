// Package footprint gives back the memory of a process that comes to rest.
package footprint

import (
	"runtime/debug"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// segment is a program header of ELF: Elf64_Phdr of elf(5).
type segment struct {
	kind, flags                                        uint32
	offset, address, physical, inFile, inMemory, align uintptr
}

// Values of elf(5) and of getauxval(3).
const (
	kindLoad      = 1
	kindDynamic   = 2
	flagWritable  = 2
	auxSegments   = 3 // AT_PHDR
	auxSegmentsNo = 5 // AT_PHNUM
)

// Shrink gives back what the heap does not use, and unmaps the pages of the program, of
// which a boot maps most: with each that is touched the kernel maps the fifteen beside it.
// They stay in the page cache, and what is touched again is mapped again, in microseconds.
func Shrink() {
	debug.FreeOSMemory()
	var first unsafe.Pointer
	var number uintptr
	auxv, _ := unix.Auxv() // without it there are no segments to be found
	for _, entry := range auxv {
		switch entry[0] {
		case auxSegments:
			first = *(*unsafe.Pointer)(unsafe.Pointer(&entry[1]))
		case auxSegmentsNo:
			number = entry[1]
		}
	}
	segments := unsafe.Slice((*segment)(first), number)
	if slices.ContainsFunc(segments, func(s segment) bool { return s.kind == kindDynamic }) {
		return // the linker has written to some that are read-only since
	}
	for _, s := range segments {
		if s.kind == kindLoad && s.flags&flagWritable == 0 {
			unix.Syscall(unix.SYS_MADVISE, s.address, s.inMemory, unix.MADV_DONTNEED)
		}
	}
}
