package rights

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/isolate"
	"rlminit/wire"
)

// The ids of these tests: the supervisor's, and those of profiles.
const (
	own       = 4801
	services  = 4805
	low, high = 4810, 4829
)

// Who they are: each has a group that the others have not.
var (
	ofServices = wire.Identity{UID: services, GID: services, Groups: []uint32{4806, 4807}}
	ofProfiles = wire.Profiles{Low: low, High: high, Groups: []uint32{4899}}
)

// serving has the test binary be a process for the users of profiles.
const serving = "RIGHTS_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(takenOver) != "" {
		attempts()
		os.Exit(0)
	}
	if atOnce, err := strconv.Atoi(os.Getenv(serving)); err == nil {
		users, err := Become(wire.Identity{UID: own, GID: own}, ofServices, ofProfiles)
		if err == nil {
			err = Serve(wire.FilesFD, atOnce, users)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// realServer starts processes that really are other users.
type realServer struct {
	atOnce, descriptors int

	mu  sync.Mutex
	pid int // of the newest
}

func (s *realServer) start() (int, func(), error) {
	pair, err := syscall.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "asked")
	defer theirs.Close()
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d && exec /proc/%d/exe", s.descriptors, os.Getpid()))
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", serving, s.atOnce))
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		unix.Close(pair[0])
		return -1, nil, err
	}
	s.mu.Lock()
	s.pid = cmd.Process.Pid
	s.mu.Unlock()
	ended := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return pair[0], ended, nil
}

// elsewhere runs the calling test in a binary whose threads can have ids of their own,
// if this one is none: with cgo, as the race detector wants it.
func elsewhere(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if Unavailable() == "" {
		return false
	}
	binary := filepath.Join(t.TempDir(), "test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(binary, "-test.run", "^"+t.Name()+"$", "-test.v").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return true
}

// profilesOf makes a directory for each user, and returns the one that holds them.
func profilesOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rights")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	errs := []error{os.Chmod(dir, 0o751)}
	for uid := low; uid <= high; uid++ {
		path := filepath.Join(dir, fmt.Sprint(uid))
		next := fmt.Sprintf("../%d/kept", low+(uid-low+1)%(high-low+1))
		errs = append(
			errs, os.Mkdir(path, 0o700), os.Chown(path, uid, uid), os.WriteFile(path+"/kept", []byte("kept"), 0o600), os.Chown(path+"/kept", uid, uid),
			os.Symlink(next, path+"/link"), os.Symlink("/etc", path+"/out"), os.Lchown(path+"/link", uid, uid), os.Lchown(path+"/out", uid, uid),
		)
	}
	for _, group := range []int{services, 4806, 4807, 4899} {
		path := filepath.Join(dir, fmt.Sprint("group-", group))
		errs = append(errs, os.Mkdir(path, 0o070), os.Chown(path, 0, group))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// One process is many users at the same time, and never the wrong one: what is made
// in a user's name is that user's, and nobody gets at another's, however many calls
// there are at a time, and where descriptors are so few that calls fail.
func TestManyUsersAtOnce(t *testing.T) {
	if elsewhere(t) {
		return
	}
	for _, c := range []struct{ atOnce, descriptors int }{{1, 1024}, {4, 1024}, {16, 1024}, {16, 14}} {
		t.Run(fmt.Sprintf("%d at once, %d descriptors", c.atOnce, c.descriptors), func(t *testing.T) {
			dir := profilesOf(t)
			s := &realServer{atOnce: c.atOnce, descriptors: c.descriptors}
			plenty := c.descriptors > 100
			all := New(s.start, services, c.atOnce, func(line string) { t.Log(line) })
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			var waits sync.WaitGroup
			for worker := range 24 {
				waits.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(worker)))
					for n := range 40 {
						uid := uint32(low + random.IntN(high-low+1))
						name := fmt.Sprintf("file-%d-%d", worker, n)
						if err := oneRequest(all, dir, uid, name, random.IntN(6)); err != nil && (plenty || !starved(err)) {
							t.Errorf("uid %d, %s: %v", uid, name, err)
						}
					}
				})
			}
			waits.Wait()
			if fd, err := all.As(low).Handle(dir, true); err == nil {
				unix.Close(fd)
			} else if plenty {
				t.Errorf("afterwards: %v", err)
			}
			for uid := low; uid <= high; uid++ {
				_ = filepath.WalkDir(filepath.Join(dir, fmt.Sprint(uid)), func(path string, e fs.DirEntry, err error) error {
					if err != nil {
						t.Fatal(err)
					}
					info, err := e.Info()
					if err != nil {
						t.Fatal(err)
					}
					if st := info.Sys().(*syscall.Stat_t); st.Uid != uint32(uid) || st.Gid != uint32(uid) {
						t.Errorf("%s is %d:%d's", path, st.Uid, st.Gid)
					}
					return nil
				})
			}
			if plenty {
				atRest(t, s.pid)
			}
		})
	}
}

// errWrong is what must not be.
var errWrong = errors.New("wrong")

// starved tells whether it was for want of descriptors that a call was not carried out.
func starved(err error) bool { return !errors.Is(err, errWrong) }

// oneRequest does something that only its user can do, or that it must not be able to.
func oneRequest(all *User, dir string, uid uint32, name string, which int) error {
	user := all.As(uid)
	mine := filepath.Join(dir, fmt.Sprint(uid))
	another := filepath.Join(dir, fmt.Sprint(low+(uid-low+1)%(high-low+1)))
	switch which {
	case 0: // a file of its own
		d, err := user.Dir(mine)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.WriteFile(name, []byte(name), durable.Write{Mode: 0o600, Loose: true})
	case 1: // another's directory
		if d, err := user.Dir(another); err == nil {
			d.Close()
			return fmt.Errorf("%w: uid %d opened %s", errWrong, uid, another)
		}
		return nil
	case 2:
		_, denied, err := user.Look(mine, unix.W_OK)
		if err == nil && denied != nil {
			err = fmt.Errorf("%w: %w", errWrong, denied)
		}
		if _, denied, err2 := user.Look(another, unix.R_OK); err2 == nil && denied == nil {
			err = fmt.Errorf("%w: uid %d may read %s", errWrong, uid, another)
		}
		return err
	case 3: // a group's, of the services' user or of profiles
		who := []*User{all, user}[uid%2]
		for group, whose := range map[int]*User{services: all, 4806: all, 4807: all, 4899: user} {
			_, denied, err := who.Look(filepath.Join(dir, fmt.Sprint("group-", group)), unix.R_OK)
			if err != nil {
				return err
			}
			if (denied == nil) != (who == whose) {
				return fmt.Errorf("%w: uid %d at group %d's: %v", errWrong, who.uid, group, denied)
			}
		}
		return nil
	case 4: // a file by a person's path
		if fd, err := user.OpenBelow(dir, filepath.Join(fmt.Sprint(uid), "kept")); err != nil {
			return err
		} else if b, err := user.ReadAt(fd, 10, 1); unix.Close(fd) != nil || err != nil {
			return err
		} else if string(b) != "ept" {
			return fmt.Errorf("%w: read %q", errWrong, b)
		}
		for _, path := range []string{filepath.Base(another) + "/kept", fmt.Sprint(uid) + "/link", fmt.Sprint(uid) + "/out/passwd", "../x", "/etc/passwd"} {
			if fd, err := user.OpenBelow(dir, path); err == nil {
				unix.Close(fd)
				return fmt.Errorf("%w: uid %d opened %s", errWrong, uid, path)
			}
		}
		return nil
	default: // of many at once, each as one of them
		fd, err := user.Handle(dir, true)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		a, _, err := all.Do(durable.Request{
			Op: durable.OpGlances, Base: dir, Rel: "none", Max: 10,
			Rels: []string{fmt.Sprint(low), fmt.Sprint(low), fmt.Sprint(high), fmt.Sprint(high), fmt.Sprint(high)},
			UIDs: []uint32{low, high, high, low, 1},
		}, fd)
		if err == nil {
			var odd []bool
			for _, g := range a.Glances {
				odd = append(odd, g.Odd)
			}
			if want := "[false true false true true]"; fmt.Sprint(odd) != want {
				return fmt.Errorf("as each of some: %v, want %s", odd, want)
			}
		}
		return err
	}
}

// atRest checks that no thread of a process is anybody but itself, or has a right in
// force; and that nobody who is one of its users can do anything to it.
func atRest(t *testing.T, pid int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, path := range threads {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		for _, want := range []string{
			"Uid:\t4801\t4801\t4801\t4801\n", "Gid:\t4801\t4801\t4801\t4801\n", "Groups:\t \n", "CapInh:\t0000000000000000\n",
			"CapPrm:\t00000000000000c0\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
		} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s is not so: %s", strings.TrimSpace(want), content)
			}
		}
	}
	attack := exec.Command("/bin/sh", "-c", fmt.Sprintf(`! kill -0 %[1]d && ! kill -STOP %[1]d && ! cat /proc/%[1]d/environ && ! ls /proc/%[1]d/fd && ! renice 5 %[1]d && ! prlimit --pid %[1]d --nofile=3:3`, pid))
	attack.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: low, Gid: low, Groups: []uint32{4899}}}
	if out, err := attack.CombinedOutput(); err != nil {
		t.Errorf("one of its users gets at it: %v: %s", err, out)
	}
}

// takenOver has the test binary be such a process with somebody else's code in it.
const takenOver = "RIGHTS_TEST_TAKEN_OVER"

// attempts prints what such code could do that it must not.
func attempts() {
	runtime.LockOSThread()
	users, err := Become(wire.Identity{UID: own, GID: own}, ofServices, ofProfiles)
	check := func(what string, done bool) {
		if done {
			fmt.Println(what)
		}
	}
	check(fmt.Sprint("become: ", err), err != nil)
	check("no right to change ids at all", raise(changeIDs) != nil)
	for _, uid := range []int{0, own - 1, own + 1, services + 1, low - 1, high + 1, 1 << 31} {
		_, _ = unix.SetfsuidRetUid(uid)
		is, _ := unix.SetfsuidRetUid(-1)
		check(fmt.Sprint("uid for files ", uid), is == uid)
		_, _ = unix.SetfsgidRetGid(uid)
		is, _ = unix.SetfsgidRetGid(-1)
		check(fmt.Sprint("gid for files ", uid), is == uid)
		id := uintptr(uid)
		for name, call := range map[string]uintptr{"setuid": unix.SYS_SETUID, "setgid": unix.SYS_SETGID} {
			_, _, errno := syscall.RawSyscall(call, id, 0, 0)
			check(fmt.Sprint(name, " ", uid), errno == 0)
		}
		for name, call := range map[string]uintptr{"setresuid": unix.SYS_SETRESUID, "setresgid": unix.SYS_SETRESGID} {
			_, _, errno := syscall.RawSyscall(call, id, id, id)
			check(fmt.Sprint(name, " ", uid), errno == 0)
		}
		for name, call := range map[string]uintptr{"setreuid": unix.SYS_SETREUID, "setregid": unix.SYS_SETREGID} {
			_, _, errno := syscall.RawSyscall(call, id, id, 0)
			check(fmt.Sprint(name, " ", uid), errno == 0)
		}
	}
	groups(users, check)
	_, _, errno := syscall.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	check("unshare", errno == 0)
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0)
	if errno == 0 && pid == 0 {
		unix.Exit(0)
	}
	check("clone with a user namespace", errno == 0)
	check("exec", exec.Command("/bin/true").Run() == nil)
	for uid, groups := range map[uint32]isolate.Groups{low: users.ofProfiles, services: users.ofServices} {
		check(fmt.Sprint("not even user ", uid), become(uid, uid, groups) != nil)
	}
}

// groups tries to have others than those of the users, by address or by what lies there.
func groups(users *Users, check func(string, bool)) {
	set := func(n int, at uintptr) bool {
		_, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(n), at, 0)
		return errno == 0
	}
	own, memory := [4]uint32{}, uintptr(users.ofServices.Address)
	check("groups of its own", set(1, uintptr(unsafe.Pointer(&own[0]))) || set(3, uintptr(unsafe.Pointer(&own[0]))))
	check("too many, too few, the rest of a list, across two", set(4, memory) || set(2, memory) || set(2, memory+4) || set(4, memory+4))
	const page = 4096
	call := func(nr uintptr, args ...uintptr) uintptr {
		at, _, errno := syscall.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
		if errno != 0 {
			return 0
		}
		return at
	}
	const fixed = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED
	const writable = unix.PROT_READ | unix.PROT_WRITE
	at := memory
	check("written", call(unix.SYS_MPROTECT, at, page, writable, 0, 0, 0) == 0 && tryWrite())
	check("other memory", call(unix.SYS_MMAP, at, page, writable, fixed, ^uintptr(0), 0) != 0)
	check("other memory from before on", call(unix.SYS_MMAP, at-page, 2*page, writable, fixed, ^uintptr(0), 0) != 0)
	check("other memory from far before on", call(unix.SYS_MMAP, at-(1<<31)-page, 1<<31+2*page, writable, fixed|unix.MAP_NORESERVE, ^uintptr(0), 0) != 0)
	check("no neighbouring memory", !beside(call, at))
	mine := call(unix.SYS_MMAP, 0, page, writable, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	check("no memory at all", mine == 0)
	check("moved there", call(unix.SYS_MREMAP, mine, page, page, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, at, 0) != 0)
	_, _, errno := syscall.RawSyscall(unix.SYS_MUNMAP, at, page, 0)
	check("away", errno == 0)
	_, _, errno = syscall.RawSyscall(unix.SYS_MADVISE, at, page, unix.MADV_REMOVE)
	check("emptied", errno == 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, at, page, unix.MADV_DONTNEED) // it comes back as it was
	check("not a list of theirs any more", *(*uint32)(unsafe.Pointer(listed())) != services || !users.profiles.Has(low))
}

// beside tells whether memory next to that of the lists can be mapped and given back, as the
// runtime does wherever its heap is.
func beside(call func(uintptr, ...uintptr) uintptr, at uintptr) bool {
	const length = 64 << 20
	for _, address := range []uintptr{at - length, at + isolate.GroupsBytes, at&^(1<<32-1) + 1<<16} {
		if call(unix.SYS_MMAP, address, length, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE, ^uintptr(0), 0) != address {
			return false
		}
		if _, _, errno := syscall.RawSyscall(unix.SYS_MUNMAP, address, length, 0); errno != 0 {
			return false
		}
	}
	return true
}

// listed is where the lists are, in a way that vet takes for no mistake.
func listed() unsafe.Pointer {
	at := uintptr(isolate.Memory()[0])
	return *(*unsafe.Pointer)(unsafe.Pointer(&at))
}

// tryWrite tells whether a kernel writes there: it says so where we would be killed.
func tryWrite() bool {
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC) != nil {
		return true
	}
	if _, err := unix.Write(ends[1], []byte{0, 0, 0, 0}); err != nil {
		return true
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(ends[0]), uintptr(isolate.Memory()[0]), 4)
	return errno == 0
}

// Whoever took over a process that can be many users could be nobody but these.
func TestNobodyElse(t *testing.T) {
	if elsewhere(t) {
		return
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), takenOver+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// A process that is killed or stopped, again and again, fails nobody, and what is asked of
// it is done once.
func TestKilledAgainAndAgain(t *testing.T) {
	if elsewhere(t) {
		return
	}
	real := askEvery
	askEvery = 200 * time.Millisecond
	defer func() { askEvery = real }()
	dir := profilesOf(t)
	s := &realServer{atOnce: 16, descriptors: 1024}
	all := New(s.start, services, 16, func(string) {})
	stop, stopped := make(chan struct{}), make(chan int)
	var rounds atomic.Int64
	go func() {
		kills, next := 0, int64(0)
		for {
			select {
			case <-stop:
				stopped <- kills
				return
			case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
				// However slow the machine is, each process does as much before it ends:
				// a request is cut off as often as chance has it, and not at each attempt.
				if rounds.Load() < next {
					continue
				}
				next = rounds.Load() + 20
				s.mu.Lock()
				if s.pid != 0 && unix.Kill(s.pid, []unix.Signal{unix.SIGKILL, unix.SIGSTOP}[kills%2]) == nil {
					kills++
				}
				s.mu.Unlock()
			}
		}
	}()
	var waits sync.WaitGroup
	for uid := uint32(low); uid < low+8; uid++ {
		waits.Go(func() {
			mine, err := all.As(uid).Dir(filepath.Join(dir, fmt.Sprint(uid)))
			if err != nil {
				t.Error(err)
				return
			}
			defer mine.Close()
			for n := range 150 {
				var steps durable.Steps
				temp, name := durable.TempName(), fmt.Sprint("made-", n)
				steps.Absent(name)
				steps.Mkdir(temp, 0o700)
				steps.WriteFile(temp+"/file", []byte(name), durable.Write{Mode: 0o600})
				steps.RenameNew(temp, name)
				_, err := steps.Take(mine)
				errs := []error{err, mine.Mkdir(name+"/sub", 0o700), mine.RenameNew(name, name+"-moved"), mine.Rename(name+"-moved/file", name+"-moved/sub/file")}
				data, err := mine.ReadFile(name+"-moved/sub/file", 100)
				if err = errors.Join(append(errs, err)...); err != nil || string(data) != name {
					t.Errorf("%s: %q, %v", name, data, err)
				}
				if err := mine.RemoveAll(name + "-moved"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				rounds.Add(1)
			}
		})
	}
	waits.Wait()
	close(stop)
	t.Logf("killed or stopped %d times", <-stopped)
	left, err := os.ReadDir(filepath.Join(dir, fmt.Sprint(low)))
	if err != nil || len(left) != 3 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Whether one may listen beside a listener is asked as the user: the kernel lets only one
// user's share an address, and each must have said so.
func TestSharesAsTheUser(t *testing.T) {
	if elsewhere(t) {
		return
	}
	all := New((&realServer{atOnce: 4, descriptors: 64}).start, services, 4, func(string) {})
	for _, option := range []int{0, 1} {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		err = errors.Join(
			unix.Fchown(fd, low, low), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, option),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1))
		if err != nil {
			t.Fatal(err)
		}
		is, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(is.(*unix.SockaddrInet4).Port))
		for _, c := range []struct {
			who    *User
			shares bool
		}{{all.As(low), option == 1}, {all.As(low + 1), false}, {nil, false}} {
			err := c.who.Shares(at)
			if c.shares && err != nil || !c.shares && !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("option %d, %+v: %v", option, c, err)
			}
		}
	}
}
