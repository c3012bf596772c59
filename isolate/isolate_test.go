package isolate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test binary is also the process that is restricted: it restricts one
// thread, makes its attempts on it, and prints what came of each.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "restricted" {
		runtime.LockOSThread()
		restricted(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// world is what the restricted process gets.
type world struct {
	ABI      int
	Hidden   []string
	Rules    Rules
	Enclosed bool // by tier 1's ruleset too, with what is Hidden
	Attempts []attempt
}

type attempt struct {
	What string
	On   []string
}

func restricted(spec string) {
	var w world
	check(json.Unmarshal([]byte(spec), &w))
	var rulesets []int
	if w.Enclosed {
		// Of all but the attributes since ABI 4, which it does not hold back.
		rights := handled(min(w.ABI, 3))
		ruleset, err := create(1, rulesetAttr{files: rights})
		check(err)
		_, err = Enclose(ruleset.FD(), rights, w.Hidden...)
		check(err)
		rulesets = append(rulesets, ruleset.FD())
	}
	image := NewImage(w.Hidden...)
	ruleset, notes, err := build(w.ABI, image, w.Rules)
	check(err)
	rulesets = append(rulesets, ruleset.FD())
	check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	for _, fd := range rulesets {
		if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
			check(errno)
		}
	}
	if program := w.Rules.Filter(); program != nil {
		if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&unix.SockFprog{
			Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
		}))); errno != 0 {
			check(errno)
		}
	}
	results := []string{strings.Join(notes, "; ")}
	for _, a := range w.Attempts {
		results = append(results, brief(attempts[a.What](a.On)))
	}
	json.NewEncoder(os.Stdout).Encode(results)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "restricted:", err)
		os.Exit(99)
	}
}

// brief is an error's number, "" for none.
func brief(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

var attempts = map[string]func(on []string) error{
	"read":   func(on []string) error { _, err := os.ReadFile(on[0]); return err },
	"list":   func(on []string) error { _, err := os.ReadDir(on[0]); return err },
	"write":  func(on []string) error { return os.WriteFile(on[0], []byte("x"), 0o600) },
	"mkdir":  func(on []string) error { return os.Mkdir(on[0], 0o700) },
	"rename": func(on []string) error { return os.Rename(on[0], on[1]) },
	"remove": func(on []string) error { return unix.Unlink(on[0]) },
	"trunc":  func(on []string) error { return unix.Truncate(on[0], 0) },
	"run":    func(on []string) error { return exec.Command(on[0], on[1:]...).Run() },
	"kill": func(on []string) error {
		var pid int
		fmt.Sscan(on[0], &pid)
		return unix.Kill(pid, 0)
	},
	"environ": func(on []string) error { _, err := os.ReadFile("/proc/" + on[0] + "/environ"); return err },
	"trace": func(on []string) error {
		var pid int
		fmt.Sscan(on[0], &pid)
		return unix.PtraceSeize(pid)
	},
	"connect": func(on []string) error { return dial("tcp", on[0]) },
	"speak":   func(on []string) error { return dial("unix", on[0]) },
	"bind": func(on []string) error {
		l, err := net.Listen("tcp", on[0])
		if err == nil {
			l.Close()
		}
		return err
	},
	"socket": func(on []string) error {
		var family int
		fmt.Sscan(on[0], &family)
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"multipath": func([]string) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		return err
	},
	"unshare": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"namespace": func(on []string) error {
		cmd := exec.Command(on[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	},
	"clone3": func([]string) error { _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); return errno },
	"limit": func(on []string) error {
		var pid int
		fmt.Sscan(on[0], &pid)
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{})
	},
	"type": func([]string) error {
		_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&[]byte{'x'}[0])))
		return errno
	},
	"raw": func(on []string) error { // a call by its number, with nothing that makes sense
		var nr uintptr
		fmt.Sscan(on[0], &nr)
		_, _, errno := unix.RawSyscall6(nr, ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0))
		return errno
	},
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

const testUser = 4711

// attempted runs the process, as a user of no rights if there is one to be had,
// and returns the notes and what came of each attempt.
func attempted(t *testing.T, w world) (notes string, results []string) {
	t.Helper()
	if abi() == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	if w.ABI == 0 {
		w.ABI = abi()
	}
	spec, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "restricted", string(spec))
	// Neither root's capabilities nor another user shall hide what is tested.
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUser, Gid: testUser}}
	}
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the restricted process: %v\n%s", err, errors.String())
	}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatal(err)
	}
	return results[0], results[1:]
}

// volume is a home directory with two profiles, and a place of its own beside.
func volume(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("/var", "isolate-") // not in /tmp, where everything is hidden
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("needs root for a volume outside /tmp")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for _, dir := range []string{"profiles/alice", "profiles/bob", ".rlminit", "logs", "shared", "caches"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, dir, "file"), []byte("text"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chmod", "-R", "a+rwX", home).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return home
}

// expect compares attempts and what should come of them.
func expect(t *testing.T, w world, table map[string]string) {
	t.Helper()
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		words := strings.Fields(key)
		w.Attempts = append(w.Attempts, attempt{words[0], words[1:]})
	}
	_, results := attempted(t, w)
	for i, key := range keys {
		if results[i] != table[key] {
			t.Errorf("%s: %q, want %q", key, results[i], table[key])
		}
	}
}

// Every ABI up to the kernel's can be asked for, and holds what it knows.
func TestFilesAtEveryABI(t *testing.T) {
	for version := 1; version <= max(abi(), 1); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			home := volume(t)
			alice, bob := home+"/profiles/alice", home+"/profiles/bob"
			for _, enclosed := range []bool{false, true} {
				os.WriteFile(alice+"/moved", nil, 0o666)
				os.WriteFile(alice+"/renamed", nil, 0o666)
				os.Remove(alice + "/sub/moved")
				os.MkdirAll(alice+"/sub", 0o777)
				os.Chmod(alice+"/sub", 0o777)
				across := "" // moves between directories are Landlock's since ABI 2
				if version < 2 {
					across = "EXDEV"
				}
				truncated := "EACCES"
				if version < 3 {
					truncated = ""
				}
				w := world{
					ABI: version, Enclosed: enclosed, Hidden: []string{home, "/run/rlminit"},
					Rules: Rules{
						Level: Profile, Own: []string{alice}, Connect: Ports{Any: true}, Bind: Ports{Any: true},
						Write: []string{home + "/shared"}, Read: []string{home + "/caches"},
					},
				}
				if enclosed { // what is opened on the volume, tier 1's child adds; here nothing is
					w.Hidden = []string{home + "/.rlminit", home + "/logs", "/run/rlminit"}
				}
				table := map[string]string{
					"read " + alice + "/file":                             "",
					"write " + alice + "/new":                             "",
					"rename " + alice + "/renamed " + alice + "/again":    "",
					"rename " + alice + "/moved " + alice + "/sub/moved":  across,
					"list " + alice:                                       "",
					"read " + home + "/shared/file":                       "",
					"write " + home + "/shared/new":                       "",
					"read " + home + "/caches/file":                       "",
					"write " + home + "/caches/new":                       "EACCES",
					"read " + home + "/logs/file":                         "EACCES",
					"read " + home + "/.rlminit/file":                     "EACCES",
					"write " + home + "/.rlminit/new":                     "EACCES",
					"trunc " + home + "/logs/file":                        truncated,
					"remove " + home + "/logs/file":                       "EACCES",
					"read /etc/passwd":                                    "",
					"write /etc/isolate-test":                             "EACCES",
					"write /tmp/isolate-test":                             "EACCES",
					"run /bin/sh -c :":                                    "",
					"run /bin/sh -c true<>/dev/null":                      "",
					"read /proc/self/stat":                                "",
					"mkdir " + alice + "/x" + fmt.Sprint(enclosed):        "",
					"mkdir " + home + "/profiles/x" + fmt.Sprint(version): "EACCES",
					"environ 1": "EACCES",
				}
				if !enclosed {
					table["read "+bob+"/file"] = "EACCES"
					table["list "+home+"/profiles"] = "EACCES"
				}
				expect(t, w, table)
			}
		})
	}
}

// Signals and tracing end at the process.
func TestOthersAreOutOfReach(t *testing.T) {
	other := exec.Command("/bin/sleep", "1000")
	if os.Geteuid() == 0 {
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUser, Gid: testUser}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	pid := fmt.Sprint(other.Process.Pid)
	kill := "EPERM"
	if abi() < 6 {
		kill = ""
	}
	expect(t, world{Rules: Rules{Level: Profile, Connect: Ports{Any: true}, Bind: Ports{Any: true}}}, map[string]string{
		"kill " + pid:    kill,
		"trace " + pid:   "EPERM",
		"environ " + pid: "EACCES",
	})
}

// TCP goes by the lists.
func TestPorts(t *testing.T) {
	if abi() < 4 {
		t.Skip("Landlock before ABI 4 knows no ports")
	}
	open := func() (net.Listener, int) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l, l.Addr().(*net.TCPAddr).Port
	}
	_, allowed := open()
	_, other := open()
	free, bindable := open()
	free.Close()
	if allowed == other {
		t.Fatal("one port twice")
	}
	for _, level := range []Level{Profile, Strict} {
		expect(t, world{Rules: Rules{
			Level: level, Connect: Ports{Ranges: []Range{{allowed, allowed}}}, Bind: Ports{Ranges: []Range{{bindable, bindable}}},
		}}, map[string]string{
			fmt.Sprintf("connect 127.0.0.1:%d", allowed): "",
			fmt.Sprintf("connect 127.0.0.1:%d", other):   "EACCES",
			fmt.Sprintf("bind 127.0.0.1:%d", bindable):   "",
			fmt.Sprintf("bind 127.0.0.1:%d", other):      "EACCES",
			"bind 127.0.0.1:0":                           "EACCES",
		})
	}
}

// A path that is not there, that is a link a service made, or behind which is
// what others may not see, is left out, and that is said.
func TestPathsThatCannotBeAllowed(t *testing.T) {
	home := volume(t)
	if err := os.Symlink(home+"/profiles/bob", home+"/shared/link"); err != nil {
		t.Fatal(err)
	}
	link := home + "-link" // outside the volume, where links are root's
	if err := os.Symlink(home+"/logs", link); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(link)
	w := world{
		Hidden: []string{home},
		Rules: Rules{
			Level: Profile, Read: []string{home + "/none", home + "/shared/link", link}, Connect: Ports{Any: true}, Bind: Ports{Any: true},
		},
		Attempts: []attempt{{"read", []string{home + "/profiles/bob/file"}}, {"read", []string{home + "/logs/file"}}},
	}
	notes, results := attempted(t, w)
	for _, want := range []string{"/none is not there", "shared/link is not allowed: a symbolic link", link + " is not allowed: behind it is " + home + "/logs"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q: %s", want, notes)
		}
	}
	if !slices.Equal(results, []string{"EACCES", "EACCES"}) {
		t.Errorf("%q", results)
	}
}

// strict's denials are EPERM, and what a program needs goes on.
func TestFilter(t *testing.T) {
	table := map[string]string{
		"run /bin/sh -c true|true":            "",
		"bind 127.0.0.1:0":                    "",
		"unshare":                             "EPERM",
		"namespace /bin/true":                 "EPERM",
		"clone3":                              "ENOSYS",
		"limit 1":                             "EPERM",
		"limit 0":                             "",
		"type":                                "EPERM",
		fmt.Sprint("socket ", unix.AF_INET):   "",
		fmt.Sprint("socket ", unix.AF_UNIX):   "",
		fmt.Sprint("socket ", unix.AF_ALG):    "EPERM",
		fmt.Sprint("socket ", unix.AF_VSOCK):  "EPERM",
		fmt.Sprint("socket ", unix.AF_PACKET): "EPERM",
	}
	if s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP); err == nil {
		unix.Close(s)
		table["multipath"] = "EPERM"
	}
	for _, nr := range slices.Concat(denied, deniedHere) {
		table[fmt.Sprint("raw ", nr)] = "EPERM"
	}
	expect(t, world{Rules: Rules{Level: Strict, Connect: Ports{Any: true}, Bind: Ports{Any: true}}}, table)
}

// What an older or a newer kernel would be asked for: structures and rights as
// landlock(7) has them.
func TestWhatEachABIIsAskedFor(t *testing.T) {
	strict := Rules{Level: Strict}
	for _, c := range []struct {
		abi           int
		files         uint64
		size          uintptr
		ports, scoped uint64
	}{
		{1, 0x1fff, 8, 0, 0},
		{2, 0x3fff, 8, 0, 0},
		{3, 0x7fff, 8, 0, 0},
		{4, 0x7fff, 16, 3, 0},
		{5, 0xffff, 16, 3, 0},
		{6, 0xffff, 24, 3, 3},
		{7, 0xffff, 24, 3, 3},
		{8, 0xffff, 24, 3, 3},
		{9, 0x1ffff, 24, 3, 3},
	} {
		a := attr(c.abi, strict)
		if a != (rulesetAttr{c.files, c.ports, c.scoped}) || a.size(c.abi) != c.size {
			t.Errorf("ABI %d: %#x, %d bytes", c.abi, a, a.size(c.abi))
		}
	}
	if a := attr(newest, Rules{Level: Profile, Connect: Ports{Any: true}, Bind: Ports{Any: true}}); a.ports != 0 {
		t.Errorf("ports that are not limited are held back: %#x", a.ports)
	}
}

func TestWhatIsLacking(t *testing.T) {
	if lines := capable(newest, true).Lacks(Strict); lines != nil {
		t.Errorf("the newest lacks %q", lines)
	}
	if lines := capable(0, false).Lacks(None); lines != nil {
		t.Errorf("none lacks %q", lines)
	}
	last := 100
	for version := 1; version <= newest; version++ {
		lines := capable(version, true).Lacks(Strict)
		if len(lines) > last {
			t.Errorf("ABI %d lacks more than the one before: %q", version, lines)
		}
		last = len(lines)
	}
	if lines := capable(0, true).Lacks(Profile); len(lines) != 1 {
		t.Errorf("without Landlock: %q", lines)
	}
}

func TestPortLists(t *testing.T) {
	some := Ports{Ranges: []Range{{80, 82}, {83, 90}}}
	for _, c := range []struct {
		inner, outer Ports
		within       bool
	}{
		{Ports{}, Ports{}, true},
		{some, Ports{Any: true}, true},
		{Ports{Any: true}, some, false},
		{Ports{Ranges: []Range{{81, 85}}}, some, true},
		{Ports{Ranges: []Range{{85, 91}}}, some, false},
	} {
		if c.inner.Within(c.outer) != c.within {
			t.Errorf("%v within %v is %v", c.inner, c.outer, !c.within)
		}
	}
	if some.Count() != 11 {
		t.Errorf("%v names %d ports", some, some.Count())
	}
}

// The walk is done again when there is something new, and only then.
func TestTheImageIsWalkedWhenItChanged(t *testing.T) {
	root := t.TempDir()
	os.MkdirAll(root+"/usr/bin", 0o755)
	os.MkdirAll(root+"/data/profiles", 0o755)
	i := newImage(root, []string{"/data/profiles"})
	defer i.Close()
	i.walk()
	names := func() (all []string) {
		for _, a := range i.allowed {
			all = append(all, strings.TrimPrefix(a.file.Name(), root))
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{"/usr"}) {
		t.Errorf("allowed %q", got)
	}
	if i.changed() {
		t.Error("it is taken for changed")
	}
	os.MkdirAll(root+"/data/cache", 0o755)
	if !i.changed() {
		t.Fatal("it is taken for unchanged")
	}
	i.walk()
	if got := names(); !slices.Equal(got, []string{"/data/cache", "/usr"}) {
		t.Errorf("allowed %q", got)
	}
}

func BenchmarkBuild(b *testing.B) {
	if abi() == 0 {
		b.Skip("this kernel offers no Landlock")
	}
	image := NewImage("/data")
	defer image.Close()
	for b.Loop() {
		ruleset, _, err := Build(image, Rules{Level: Profile, Own: []string{"/var/lib"}, Connect: Ports{Any: true}, Bind: Ports{Any: true}})
		if err != nil {
			b.Fatal(err)
		}
		ruleset.Close()
	}
}
