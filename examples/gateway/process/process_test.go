package process

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSelfIsThisProcess(t *testing.T) {
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != os.Getpid() || p.Parent != os.Getppid() || p.UID[1] != os.Geteuid() || p.GID[1] != os.Getegid() {
		t.Errorf("%+v", p)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	if !slices.Equal(slices.Sorted(slices.Values(p.Groups)), groups) {
		t.Errorf("groups %v, want %v", p.Groups, groups)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if got := p.Limits["Max open files"][1]; got != strconv.FormatUint(files.Max, 10) {
		t.Errorf("hard limit of open files %s, want %d", got, files.Max)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if _, ok := p.Capabilities[set]; !ok {
			t.Errorf("no %s", set)
		}
	}
	if !slices.Equal(p.Args, os.Args) || !slices.Contains(p.Environment, "PATH="+os.Getenv("PATH")) {
		t.Errorf("args %q", p.Args)
	}
	if p.Descriptors[1] == "" || p.Threads < 1 || p.Umask == "" || p.Start == 0 || p.Dir == "" {
		t.Errorf("incomplete: %+v", p)
	}
}

func TestDescriptorsAreThoseThatAreOpen(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(f.Fd())
	if got := descriptors("/proc/self/fd")[fd]; got != os.DevNull {
		t.Errorf("descriptor %d is %q", fd, got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := descriptors("/proc/self/fd")[fd]; got == os.DevNull {
		t.Errorf("descriptor %d is still %q", fd, got)
	}
}

func TestAllHasThisProcess(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(p Info) bool { return p.PID == os.Getpid() && p.State != "Z" }) {
		t.Errorf("%d processes, without this one", len(all))
	}
}

func TestNameMayHoldParentheses(t *testing.T) {
	var p Info
	if err := p.parseStat("7 (a) (b) S 1 7 7 0 -1 " + strings.Repeat("0 ", 13) + "99 0\n"); err != nil {
		t.Fatal(err)
	}
	if p.Name != "a) (b" || p.State != "S" || p.Parent != 1 || p.Session != 7 || p.Foreground != -1 || p.Start != 99 {
		t.Errorf("%+v", p)
	}
}

func TestMalformedFilesAreErrors(t *testing.T) {
	var p Info
	if p.parseStat("7 name") == nil || p.parseStat("7 (a) S 1") == nil || p.parseStatus("Uid:\t0\t0\n") == nil {
		t.Error("a malformed file was taken")
	}
}
