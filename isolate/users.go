package isolate

import (
	"slices"

	"golang.org/x/sys/unix"
)

// changers are the calls that change who a process is, and what it runs; and those by
// which memory comes to an address of Users.Groups in another way than mmap(2).
var changers = []uint32{
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_SHMAT, unix.SYS_REMAP_FILE_PAGES,
}

// Users are those that a process can be where files are concerned.
type Users struct {
	UIDs, GIDs []uint32 // each of these
	Low, High  uint32   // and of these, as both; 0: nobody
	Groups     []Groups // supplementary: one of these, or none
}

// Groups is a list for setgroups(2) at an address in the memory for groups.
type Groups struct{ Address, Length uint64 }

// Memory are addresses of GroupsBytes each at which the lists may be, and nothing else ever
// is: in memory that cannot be written. A filter sees a list's address alone, so that the
// address must mean it. Go's runtime puts its heap anywhere, so any one of them may be taken;
// they are 4 GB apart, among those of 39 bits.
func Memory() []uint64 {
	var all []uint64
	for n := range uint64(16) {
		all = append(all, firstMemory+n<<32)
	}
	return all
}

const (
	firstMemory = 0x20_8000_0000

	// GroupsBytes is the size of the memory for groups: two lists of as many as Linux allows.
	GroupsBytes = 1 << 20

	// largestMapping is above what a process maps at once. Invariant: a mapping that is
	// smaller, and begins below the 4 GB of which an address of Memory is the middle, does
	// not reach it.
	largestMapping = 0x8000_0000
)

// Filter is the seccomp filter of a process that has the right to change ids and is to
// use it for one thing: to be one of the users where files are concerned. Whoever took
// such a process over could be nobody else, root neither, nor run another program. It
// needs no_new_privs.
func (u Users) Filter() []byte {
	f := begun()
	// What is called for each request comes first.
	f.oneOf(unix.SYS_SETFSUID, u.UIDs, u.Low, u.High)
	f.oneOf(unix.SYS_SETFSGID, u.GIDs, u.Low, u.High)
	f.only(unix.SYS_SETGROUPS, func(f *filter) {
		f.load(dataArg0)
		f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 0, 1) // none
		f.answer(answerAllow)
		for _, g := range u.Groups {
			f.load(dataArg0)
			f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(g.Length), 0, 5)
			f.load(dataArg1)
			f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(g.Address), 0, 3)
			f.load(dataArg1 + upper)
			f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(g.Address>>32), 0, 1)
			f.answer(answerAllow)
		}
		f.answer(answerErrno | uint32(unix.EPERM))
	})
	memory := u.memory()
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MUNMAP} {
		f.only(nr, func(f *filter) { f.elsewhere(memory, dataArg0, dataArg1).answer(answerAllow) })
	}
	f.only(unix.SYS_MREMAP, func(f *filter) {
		f.elsewhere(memory, dataArg0, dataArg1).elsewhere(memory, dataArg4, dataArg2).answer(answerAllow)
	})
	f.namespaces()
	for _, nr := range slices.Concat(changers, denied, deniedHere) {
		f.deny(nr, unix.EPERM)
	}
	f.answer(answerAllow)
	return f.bytes()
}

// oneOf allows a call whose argument is one of some ids, or -1, which only asks.
func (f *filter) oneOf(nr uint32, ids []uint32, low, high uint32) {
	f.only(nr, func(f *filter) {
		f.load(dataArg0)
		for _, id := range append([]uint32{^uint32(0)}, ids...) {
			f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, id, 0, 1)
			f.answer(answerAllow)
		}
		if low != 0 {
			f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, low, 0, 2)
			f.put(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, high, 1, 0)
			f.answer(answerAllow)
		}
		f.answer(answerErrno | uint32(unix.EPERM))
	})
}

// memory is the address of Memory at which the lists are; the first of all without any.
func (u Users) memory() uint64 {
	if len(u.Groups) == 0 {
		return firstMemory
	}
	return u.Groups[0].Address / GroupsBytes * GroupsBytes
}

// elsewhere denies a call about memory at an address, as long as another argument says,
// that touches the memory for groups. A filter counts with 32 bits: see largestMapping.
func (f *filter) elsewhere(memory uint64, address, length uint32) *filter {
	const most = largestMapping
	begin := uint32(memory)
	f.load(address + upper)
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(memory>>32), 0, 10)
	f.load(address)
	f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, begin+GroupsBytes, 8, 0) // it begins above
	f.put(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, begin, 6, 0)             // it begins within
	f.put(unix.BPF_MISC|unix.BPF_TAX, 0, 0, 0)
	f.put(unix.BPF_LD|unix.BPF_IMM, begin, 0, 0)
	f.put(unix.BPF_ALU|unix.BPF_SUB|unix.BPF_X, 0, 0, 0)
	f.put(unix.BPF_MISC|unix.BPF_TAX, 0, 0, 0) // X: how much fits below
	f.load(length)
	f.put(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_X, 0, 0, 1)
	f.answer(answerErrno | uint32(unix.EPERM))
	f.load(length + upper)
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
	f.answer(answerErrno | uint32(unix.ENOMEM))
	f.load(length)
	f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, most, 0, 1)
	f.answer(answerErrno | uint32(unix.ENOMEM))
	return f
}
