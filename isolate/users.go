package isolate

import (
	"slices"

	"golang.org/x/sys/unix"
)

// changers are the calls that change who a process is, and what it runs.
var changers = []uint32{
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETGROUPS, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
}

// UsersFilter is the seccomp filter of a process that has the right to change ids
// and is to use it for one thing: to be one of the users low to high where files are
// concerned, or uid and gid again. Whoever took such a process over could be nobody
// else, root neither, nor run another program. It needs no_new_privs.
func UsersFilter(low, high, uid, gid uint32) []byte {
	f := begun()
	for _, nr := range slices.Concat(changers, denied, deniedHere) {
		f.deny(nr, unix.EPERM)
	}
	for nr, own := range map[uint32]uint32{unix.SYS_SETFSUID: uid, unix.SYS_SETFSGID: gid} {
		f.only(nr, func(f *filter) {
			f.load(dataArg0)
			for _, k := range []uint32{own, ^uint32(0)} { // -1 asks
				f.put(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, 1)
				f.answer(answerAllow)
			}
			f.put(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, low, 0, 1)
			f.put(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, high, 0, 1)
			f.answer(answerErrno | uint32(unix.EPERM))
			f.answer(answerAllow)
		})
	}
	f.answer(answerAllow)
	return f.bytes()
}
