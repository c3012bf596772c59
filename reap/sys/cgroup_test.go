package sys_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

func init() {
	if len(os.Args) > 2 && os.Args[1] == "born" {
		runtime.LockOSThread()
		if err := bear(os.Args[2], len(os.Args) > 3); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// bear runs a program in a cgroup that tells where it is.
func bear(dir string, noClone3 bool) error {
	if noClone3 {
		if err := refuseClone3(); err != nil {
			return fmt.Errorf("cannot refuse clone3: %w", err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c := &sys.Command{Cgroup: int32(fd), Fds: []int32{1}, Targets: []int32{1}}
	c.Program([]string{"/bin/cat"}, []string{"cat", "/proc/self/cgroup"}, nil)
	c.Start()
	if c.Errno != 0 {
		return fmt.Errorf("step %d: %s", c.Step, c.Errno.String())
	}
	sys.Collect(c.PID)
	return nil
}

// refuseClone3 does what an engine's profile does that does not know it.
func refuseClone3() error {
	const clone3, number = 435, 0
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: clone3, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// A process begins in the cgroup that it is given, by clone3(2) or, where that is
// refused, by going there before it does anything else.
func TestBornInACgroup(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("cgroup2", mount, "cgroup2", 0, ""); err != nil {
		t.Skipf("needs a cgroup2 mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	name := fmt.Sprintf("rlminit-test-%d", os.Getpid())
	dir := filepath.Join(mount, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("needs a cgroup: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string][]string{"clone3": {"born", dir}, "no clone3": {"born", dir, "refused"}} {
		out, err := exec.Command(self, args...).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("/"+name+"\n")) || strings.Contains(string(out), "step ") {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
}
