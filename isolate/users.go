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

// Groups is a list for setgroups(2) at an address in GroupsMemory.
type Groups struct{ Address, Length uint64 }

// GroupsMemory is where the lists are, and nothing else ever is: in memory that cannot
// be written. A filter sees a list's address alone, so that the address must mean it.
// It is in the middle of 4 GB of addresses that no runtime uses, of those of 39 bits.
const GroupsMemory = 0x20_8000_0000

// largestMapping is above what a process maps at once. Invariant: what begins below
// those 4 GB, and is smaller, does not reach GroupsMemory.
const largestMapping = 0x8000_0000

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
	for _, nr := range []uint32{unix.SYS_MMAP, unix.SYS_MUNMAP} {
		f.only(nr, func(f *filter) { f.elsewhere(dataArg0, dataArg1).answer(answerAllow) })
	}
	f.only(unix.SYS_MREMAP, func(f *filter) {
		f.elsewhere(dataArg0, dataArg1).elsewhere(dataArg4, dataArg2).answer(answerAllow)
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

// elsewhere denies a call about memory at an address, as long as another argument says,
// that may touch GroupsMemory.
func (f *filter) elsewhere(address, length uint32) *filter {
	const most = largestMapping
	f.load(address + upper)
	f.deny(GroupsMemory>>32, unix.EPERM)
	f.load(length + upper)
	f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
	f.answer(answerErrno | uint32(unix.ENOMEM))
	f.load(length)
	f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, most, 0, 1)
	f.answer(answerErrno | uint32(unix.ENOMEM))
	return f
}
